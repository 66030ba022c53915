"""Mutation testing of the features: change one thing in the source, and see whether a test notices.

    python scripts/mutants.py                 the named mutants, then 300 drawn by seed
    python scripts/mutants.py --draw 50 --seed 7
    python scripts/mutants.py --reuse --number 17 204     these of the 300 again
    python scripts/mutants.py --record tests/agents/test_new.py --number 17     the same, with new tests
    python scripts/mutants.py --named         the named ones alone

One run of the feature tests (those of the stage `features`) records which test reaches which line. A mutant is then run
against the tests that reach its line, the shortest first, until one fails. A mutant that no test notices is a survivor:
it needs a test, or a reason in `scripts/surviving_mutants.toml`. Tests that need a server are left out.

Nothing on disk is changed. A process is forked for each mutant from one that has loaded all modules and tests, and
replaces the code of the functions that the mutant changes; that costs a tenth of a second and the tests. One that
changes what is run while modules are loaded is run in a process that loads the package anew.
"""

from __future__ import annotations

import argparse
import ast
import copy
import gc
import json
import os
import random
import signal
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src/sellerwatch"
FEATURES = ("agents", "catalog", "crawling", "outbox", "schedules")
#: The tests of the features: those that scripts/run_tests.py has as such, the command line's, and the whole service on
#: virtual time. All run in one process.
TESTS = tuple(
    f"tests/{name}"
    for name in (
        *("agents", "catalog", "cli", "crawling", "kernel", "machines", "marketplaces", "outbox", "oversight", "pool"),
        *("reports", "schedules", "sellers", "simulation", "texts", "web"),
    )
)
LEFT_OUT = "not mariadb and not processes"
WORK = ROOT / ".mutants"
FOLDERS = WORK / "folders"
RECORDED, PATCHED = WORK / "recorded.json", WORK / "patched.json"
REASONS = ROOT / "scripts/surviving_mutants.toml"
#: The share of mutants that tests have to notice.
FLOOR = 0.85
#: A test that takes this many seconds of CPU and so many times what it takes without a mutant runs for ever, which is
#: noticed too. However busy the machine is, a mutant does not count as noticed because of it.
LEAST_CPU, TIMES_CPU = 5, 10
#: The same for one that waits for ever, in seconds of the clock. Nearly all tests run on virtual time.
LIMIT_WAITING = 120
#: Seconds of CPU for the tests of one mutant, as long as none fails.
MOST_CPU = 20

#: Loaded once, before a process is forked for each mutant; nothing of ours.
PRELOADED = ("sqlalchemy", "orjson", "zstandard", "pydantic", "cryptography.hazmat.primitives.ciphers.aead")

KILLED, SURVIVED, ENDLESS = 1, 0, 2


@dataclass(frozen=True)
class Mutant:
    """One change: `path` below the package, where it is, and the text before and after."""

    path: str
    line: int
    before: str
    after: str
    #: The number of the site in its file, and of the change at that site.
    site: int = -1
    variant: int = 0
    #: The function or class it is in, the lines of its statement, and its place among those drawn.
    within: str = ""
    statement: range = range(0)
    number: int = 0
    #: Tests of a named mutant, and why it matters.
    tests: tuple[str, ...] = ()
    why: str = ""

    @property
    def name(self) -> str:
        return f"{self.path}:{self.line}: {self.before} -> {self.after}"

    @property
    def key(self) -> str:
        """Without the line, so that it stays when lines move."""
        return f"{self.path} {self.within}: {self.before} -> {self.after}"


NAMED = (
    Mutant(
        "service/retention_job.py",
        0,
        "for kind in KeptRows",
        "for kind in ()",
        tests=("tests/simulation/test_pool_books.py",),
        why="the usage log grows by 190,000 rows a day until the disk is full",
    ),
    Mutant(
        "service/jobs.py",
        0,
        "return tx.agents.new_day() if is_new else 0",
        "return 0",
        tests=("tests/simulation/test_pool_books.py",),
        why="requests_per_day would be the total, and an idle agent would look busy",
    ),
    Mutant(
        "service/jobs.py",
        0,
        '"renew": Job(renew, lambda tx, _crawl, _last, _now: tx.dues.renewal()),',
        "",
        tests=("tests/simulation/test_pool_books.py",),
        why="every token would run out, and all work stop for new ones at once",
    ),
    Mutant(
        "agents/sessions.py",
        0,
        "min(context.refresh_every, session.lifetime * LIFE_USED)",
        "context.refresh_every",
        tests=("tests/simulation/test_pool_books.py",),
        why="a token that lives for less than an hour would be useless until it is renewed",
    ),
    Mutant(
        "adapters/sql/tokens.py",
        0,
        "consecutive_failures = consecutive_failures + :failures",
        "consecutive_failures = consecutive_failures + 0 * :failures",
        tests=("tests/simulation/test_pool_books.py",),
        why="nobody would see which agent gets no token any more before its token ends",
    ),
    Mutant(
        "crawling/judged_result.py",
        0,
        "is_rate_limited=answer.is_rate_limited",
        "is_rate_limited=False",
        tests=("tests/pool/test_charge.py",),
        why="an operator could not tell a marketplace that slows us down from one that fails",
    ),
    Mutant(
        "adapters/sql/permits.py",
        0,
        "current_tokens = current_tokens + :number, last_refill_at = :now WHERE",
        "current_tokens = current_tokens + :number WHERE :now = :now AND",
        tests=("tests/pool/test_charge.py",),
        why="it could not be seen when an agent's slots last came back",
    ),
)


# What is changed


def _compared(node: ast.Compare) -> Iterator[ast.AST]:
    swaps: dict[type[ast.cmpop], type[ast.cmpop]] = {
        ast.Lt: ast.LtE,
        ast.LtE: ast.Lt,
        ast.Gt: ast.GtE,
        ast.GtE: ast.Gt,
        ast.Eq: ast.NotEq,
        ast.NotEq: ast.Eq,
        ast.Is: ast.IsNot,
        ast.IsNot: ast.Is,
        ast.In: ast.NotIn,
        ast.NotIn: ast.In,
    }
    for place, operator in enumerate(node.ops):
        changed = copy.deepcopy(node)
        changed.ops[place] = swaps[type(operator)]()
        yield changed


def _calculated(node: ast.BinOp) -> Iterator[ast.AST]:
    swaps: dict[type[ast.operator], type[ast.operator]] = {
        ast.Add: ast.Sub,
        ast.Sub: ast.Add,
        ast.Mult: ast.FloorDiv,
        ast.Div: ast.Mult,
        ast.FloorDiv: ast.Mult,
        ast.Mod: ast.Mult,
    }
    if type(node.op) in swaps:
        changed = copy.deepcopy(node)
        changed.op = swaps[type(node.op)]()
        yield changed


def _joined(node: ast.BoolOp) -> Iterator[ast.AST]:
    changed = copy.deepcopy(node)
    changed.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    yield changed


def _denied(node: ast.UnaryOp) -> Iterator[ast.AST]:
    if isinstance(node.op, ast.Not):
        yield node.operand


def _constant(node: ast.Constant) -> Iterator[ast.AST]:
    if isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node.value, int):
        yield ast.Constant(node.value + 1)


def _chosen(node: ast.If | ast.IfExp | ast.While) -> Iterator[ast.AST]:
    changed = copy.deepcopy(node)
    changed.test = ast.UnaryOp(ast.Not(), changed.test)
    yield changed


def _returned(node: ast.Return) -> Iterator[ast.AST]:
    if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
        yield ast.Return(ast.Constant(None))


def _done(node: ast.Expr) -> Iterator[ast.AST]:
    if isinstance(node.value, ast.Call | ast.Await):
        yield ast.Pass()


def _raised(_: ast.Raise) -> Iterator[ast.AST]:
    yield ast.Pass()


def _added(node: ast.AugAssign) -> Iterator[ast.AST]:
    if isinstance(node.op, ast.Add | ast.Sub):
        changed = copy.deepcopy(node)
        changed.op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        yield changed


def _extreme(node: ast.Call) -> Iterator[ast.AST]:
    if isinstance(node.func, ast.Name) and node.func.id in ("min", "max", "any", "all"):
        changed = copy.deepcopy(node)
        other = {"min": "max", "max": "min", "any": "all", "all": "any"}[node.func.id]
        changed.func = ast.Name(other, ast.Load())
        yield changed


CHANGES: Mapping[type[ast.AST], Callable[[Any], Iterator[ast.AST]]] = {
    ast.Compare: _compared,
    ast.BinOp: _calculated,
    ast.BoolOp: _joined,
    ast.UnaryOp: _denied,
    ast.Constant: _constant,
    ast.If: _chosen,
    ast.IfExp: _chosen,
    ast.While: _chosen,
    ast.Return: _returned,
    ast.Expr: _done,
    ast.Raise: _raised,
    ast.AugAssign: _added,
    ast.Call: _extreme,
}


def sites(tree: ast.Module) -> list[ast.AST]:
    """Return the places that can be changed, in the order of the file. Left out: annotations, decorators, docstrings,
    imports, what is logged, and protocols, which have no code."""
    found: list[ast.AST] = []

    def walk(node: ast.AST) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom) or _is_logged(node) or _is_protocol(node):
            return
        if type(node) in CHANGES and list(CHANGES[type(node)](node)):
            found.append(node)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "bases"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    walk(child)

    walk(tree)
    return found


def _is_logged(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and ast.unparse(node).startswith(("log.", '"', "'"))


def _is_protocol(node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef) and any("Protocol" in ast.unparse(base) for base in node.bases)


def mutants_of(path: Path) -> list[Mutant]:
    """Return every mutant of a file."""
    found, tree = [], ast.parse(path.read_text("utf-8"))
    statements = [_header(each) for each in ast.walk(tree) if isinstance(each, ast.stmt)]
    # A walk comes to what is around before it comes to what is inside.
    named = [each for each in ast.walk(tree) if isinstance(each, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)]
    for number, node in enumerate(sites(tree)):
        for variant, changed in enumerate(CHANGES[type(node)](node)):
            before, after = _shown(node), _shown(changed)
            line: int = getattr(node, "lineno", 0)
            around = min((each for each in statements if line in each), key=len, default=range(line, line + 1))
            within = ".".join(each.name for each in named if each.lineno <= line <= (each.end_lineno or 0))
            name = str(path.relative_to(PACKAGE))
            found.append(Mutant(name, line, before, after, number, variant, within=within, statement=around))
    return found


def _header(statement: ast.stmt) -> range:
    """Return the lines of a statement, without those of the statements in it."""
    body = getattr(statement, "body", None)
    return range(
        statement.lineno, max(body[0].lineno, statement.lineno + 1) if body else (statement.end_lineno or 0) + 1
    )


def _shown(node: ast.AST) -> str:
    """Return the first line of a piece of code."""
    text = ast.unparse(ast.fix_missing_locations(copy.deepcopy(node)))
    return " ".join(text.splitlines()[0].split())[:100]


def mutated(mutant: Mutant) -> ast.Module | str:
    """Return the module with the change."""
    source = (PACKAGE / mutant.path).read_text("utf-8")
    if mutant.site < 0:
        if source.count(mutant.before) != 1:
            raise LookupError(f"a named mutant does not fit the source any more: {mutant.name}")
        return source.replace(mutant.before, mutant.after)
    tree = ast.parse(source)
    wanted = sites(tree)[mutant.site]
    changed = list(CHANGES[type(wanted)](wanted))[mutant.variant]

    class Replace(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            return ast.copy_location(changed, node) if node is wanted else self.generic_visit(node)

    return ast.fix_missing_locations(Replace().visit(tree))  # type: ignore[no-any-return]


# How it is run


def _pytest(arguments: Sequence[str], plugins: Sequence[object] = ()) -> int:
    import pytest  # noqa: PLC0415 - in the forked process

    off = [word for name in ("cacheprovider", "xdist", "cov") for word in ("-p", f"no:{name}")]
    options = ["addopts=--import-mode=importlib", "tmp_path_retention_policy=none", f"timeout={LIMIT_WAITING}"]
    given = [
        "-q",
        "-x",
        "-s",
        f"--basetemp={FOLDERS}",
        *off,
        *(word for option in options for word in ("-o", option)),
        "-k",
        LEFT_OUT,
    ]
    return int(pytest.main([*given, *arguments], plugins=[_NoShrinking(), *plugins]))


class _NoShrinking:
    """Takes from Hypothesis what costs time and makes two runs differ: one failing example is enough."""

    def pytest_sessionstart(self) -> None:
        import hypothesis  # noqa: PLC0415 - in the forked process

        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        settings = hypothesis.settings
        settings.register_profile("mutants", settings.default, phases=phases, derandomize=True, database=None)
        settings.load_profile("mutants")


def _forked(work: Callable[[], int], output: Path | None = None) -> int:
    """Do this in a process of its own; return its exit code, or ENDLESS where it ran out of CPU time."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        return ENDLESS if code < 0 else code
    if output:
        log = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
    try:
        code = work()
        sys.stdout.flush()
        os._exit(code)
    except BaseException as error:
        print(repr(error), flush=True)
        os._exit(KILLED)


@dataclass(frozen=True)
class Reach:
    """Which tests reach which line, and the CPU seconds each test takes."""

    seconds: Mapping[str, float]
    reached: Mapping[str, Mapping[str, Sequence[str]]]

    def tests(self, mutant: Mutant) -> list[str]:
        """Return the tests of a mutant, the shortest first. What runs as a module is loaded is reached by all tests of
        its file."""
        lines = self.reached.get(mutant.path, {})
        found = {test for line in mutant.statement for test in lines.get(str(line), ())}
        if not found and not changed_functions(mutant):
            found = {test for tests in lines.values() for test in tests}
        if not found and not lines:
            # Nothing of this file is run but what makes its classes: any test of the feature may notice.
            feature = mutant.path.partition("/")[0]
            files = (each for path, each in self.reached.items() if path.startswith(f"{feature}/"))
            found = {test for each in files for tests in each.values() for test in tests}
        return sorted(found, key=lambda test: (self.seconds.get(test, 0.0), test))

    def affordable(self, mutant: Mutant) -> list[str]:
        """Return the shortest of its tests, as many as fit into MOST_CPU."""
        chosen: list[str] = []
        spent = 0.0
        for test in self.tests(mutant):
            spent += self.seconds.get(test, 0.0)
            if chosen and spent > MOST_CPU:
                break
            chosen.append(test)
        return chosen


class _Recorder:
    """Notes which lines each test reaches, and how much CPU time it takes."""

    def __init__(self, known: Reach) -> None:
        import coverage  # noqa: PLC0415 - in the forked process

        self._known = known

        watched = [f"{PACKAGE / feature}/*" for feature in FEATURES]
        self._coverage = coverage.Coverage(data_file=None, config_file=False, include=watched, messages=False)
        self._seconds: dict[str, float] = {}

    def pytest_sessionstart(self) -> None:
        self._coverage.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._coverage.switch_context(nodeid)
        self._seconds[nodeid] = -time.process_time()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._seconds[nodeid] += time.process_time()

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        data = self._coverage.get_data()
        reached = {path: dict(lines) for path, lines in self._known.reached.items()}
        for file in data.measured_files():
            lines = reached.setdefault(str(Path(file).relative_to(PACKAGE)), {})
            for line, tests in data.contexts_by_lineno(file).items():
                lines[str(line)] = sorted({*lines.get(str(line), ()), *filter(None, tests)})
        RECORDED.write_text(json.dumps({"seconds": {**self._known.seconds, **self._seconds}, "reached": reached}))


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, module: ast.Module | str) -> None:
        super().__init__(name, path)
        self._module = module

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = compile(self._module, self.path, "exec", dont_inherit=True)
        return code


class _Finder(MetaPathFinder):
    """Loads one module from memory; all others come from the disk."""

    def __init__(self, mutant: Mutant) -> None:
        path = PACKAGE / mutant.path
        self._path, self._module = str(path), mutated(mutant)
        self._name = ".".join(("sellerwatch", *path.relative_to(PACKAGE).with_suffix("").parts))

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        return spec_from_file_location(fullname, self._path, loader=_Loader(fullname, self._path, self._module))


def reloaded(mutant: Mutant, tests: Sequence[str], seconds: Mapping[str, float]) -> int:
    """Run the tests in a process that loads the package with the mutant in it. Costs some seconds, is always right."""
    if not tests:
        return SURVIVED

    def run() -> int:
        sys.meta_path.insert(0, _Finder(mutant))
        return KILLED if _pytest(tests, [_CpuLimit(seconds)]) else SURVIVED

    return _forked(run, WORK / f"{mutant.number}.reloaded.log")


class _CpuLimit:
    """Ends this process when a test takes many times the CPU time that it takes without a mutant: it runs for ever. A
    busy machine does not change that."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        self._seconds = seconds

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        signal.setitimer(signal.ITIMER_PROF, LEAST_CPU + TIMES_CPU * self._seconds.get(nodeid, 1.0))


def changed_functions(mutant: Mutant) -> list[tuple[CodeType, CodeType]]:
    """Return the functions and methods that a mutant changes, before and after; none if it changes what a module or a
    class does while it is loaded."""
    path = str(PACKAGE / mutant.path)
    source = (PACKAGE / mutant.path).read_text("utf-8")
    found: list[tuple[CodeType, CodeType]] = []

    def compare(old: CodeType, new: CodeType) -> bool:
        """Whether these differ in functions alone."""
        olds, news = ([each for each in code.co_consts if isinstance(each, CodeType)] for code in (old, new))
        if len(olds) != len(news) or _without_functions(old) != _without_functions(new):
            return False
        for one, other in zip(olds, news, strict=True):
            if one == other:
                continue
            if one.co_flags & CO_OPTIMIZED and one.co_name not in (
                "<listcomp>",
                "<setcomp>",
                "<dictcomp>",
                "<genexpr>",
            ):
                found.append((one, other))
            elif not compare(one, other):
                return False
        return True

    before, after = (compile(code, path, "exec", dont_inherit=True) for code in (source, mutated(mutant)))
    return found if compare(before, after) else []


def _without_functions(code: CodeType) -> tuple[object, ...]:
    return code.co_code, code.co_names, tuple(repr(each) for each in code.co_consts if not isinstance(each, CodeType))


class _Server:
    """Runs mutants where pytest would run its tests: everything is loaded and collected once, and a process is forked
    for each mutant, in which the code of the functions it changes is replaced."""

    def __init__(self, runs: Callable[[_Server], None]) -> None:
        self._runs = runs
        self._functions: dict[tuple[str, CodeType], list[FunctionType]] = {}
        self._items: dict[str, Any] = {}
        self._ran: set[CodeType] = set()

    def pytest_sessionstart(self) -> None:
        def note(frame: FrameType, event: str, _: Any) -> None:
            if event == "call":
                self._ran.add(frame.f_code)

        sys.setprofile(note)

    def pytest_runtestloop(self, session: Any) -> bool:
        sys.setprofile(None)
        self._items = {item.nodeid: item for item in session.items}
        # The migrated database that all tests copy is made before the first fork.
        first = next(item for item in session.items if "migrated_template" in item.fixturenames)
        first.config.hook.pytest_runtest_protocol(item=first, nextitem=self._elsewhere(first))
        gc.collect()
        for each in gc.get_objects():
            if isinstance(each, FunctionType) and each.__code__.co_filename.startswith(str(PACKAGE)):
                self._functions.setdefault((each.__code__.co_filename, each.__code__), []).append(each)
        gc.freeze()
        self._runs(self)
        return True

    def _elsewhere(self, item: Any) -> Any:
        """Return a test of another file: what is shared by all files is kept for it."""
        return next(each for each in self._items.values() if each.path != item.path)

    def patched(self, mutant: Mutant, tests: Sequence[str], seconds: Mapping[str, float]) -> int | None:
        """Run the tests against a mutant; None if it has to be loaded instead: it changes what is run while modules are
        loaded, or survived though its code had been run then."""
        found = [
            (function, new)
            for old, new in changed_functions(mutant)
            for function in self._functions.get((str(PACKAGE / mutant.path), old), ())
        ]
        if not found or any(function.__code__.co_freevars != new.co_freevars for function, new in found):
            return None

        def run() -> int:
            for function, new in found:
                function.__code__ = new
            return self._run([self._items[test] for test in tests], _CpuLimit(seconds))

        end = _forked(run, WORK / f"{mutant.number}.log")
        return None if end == SURVIVED and any(function.__code__ in self._ran for function, _ in found) else end

    def _run(self, items: Sequence[Any], limit: _CpuLimit) -> int:
        session, hook = items[0].session, items[0].config.hook
        session.testsfailed = 0
        for item, following in zip(items, [*items[1:], None], strict=True):
            limit.pytest_runtest_logstart(item.nodeid)
            # What all files share stays for the other mutants.
            hook.pytest_runtest_protocol(item=item, nextitem=following or self._elsewhere(item))
            if session.testsfailed:
                print(f"killed by {item.nodeid}", flush=True)
                return KILLED
        return SURVIVED


def draw(number: int, seed: int) -> list[Mutant]:
    """Return so many mutants of the features, drawn by seed: a smaller number is the beginning of a larger one."""
    files = sorted(path for feature in FEATURES for path in (PACKAGE / feature).glob("*.py"))
    every = [mutant for path in files for mutant in mutants_of(path)]
    random.Random(seed).shuffle(every)
    return [replace(mutant, number=place) for place, mutant in enumerate(every[:number])]


def reasons() -> dict[str, str]:
    """Return why some mutants may survive, by their keys."""
    return dict(tomllib.loads(REASONS.read_text("utf-8"))) if REASONS.exists() else {}


def check_named() -> int:
    """Run the named mutants; return how many survived."""
    survived, tests = 0, sorted({test for each in NAMED for test in each.tests})
    if _forked(lambda: _pytest(tests), WORK / "unchanged.log"):
        raise SystemExit(f"{', '.join(tests)} fail without any mutant: see {WORK.name}/unchanged.log")
    for place, mutant in enumerate(NAMED):
        end = reloaded(replace(mutant, number=-1 - place), mutant.tests, {})
        survived += end == SURVIVED
        print(f"  {'SURVIVED' if end == SURVIVED else 'killed'}  {mutant.path}: {mutant.why}", flush=True)
    return survived


def run_patched(drawn: Sequence[Mutant], reach: Reach) -> dict[int, int]:
    """Run mutants in processes forked from one that has loaded everything; return how those ended that could be."""
    ends: dict[int, int] = {}

    def run(server: _Server) -> None:
        for done, mutant in enumerate(drawn, 1):
            tests = reach.affordable(mutant)
            end = server.patched(mutant, tests, reach.seconds) if tests else SURVIVED
            if end is not None:
                ends[mutant.number] = end
                PATCHED.write_text(json.dumps(ends))
            if end == SURVIVED:
                print(f"  {mutant.number:4} survived  {mutant.name}", flush=True)
            if done % 25 == 0:
                print(f"  {done} of {len(drawn)} looked at", flush=True)

    if _forked(lambda: _pytest(TESTS, [_Server(run)])):
        raise SystemExit("the tests could not be loaded")
    return {int(number): end for number, end in json.loads(PATCHED.read_text()).items()}


def check_drawn(drawn: Sequence[Mutant], reach: Reach) -> bool:
    """Run drawn mutants, list the survivors, and say whether enough were noticed and each other one has a reason."""
    began, known = time.monotonic(), reasons()
    ends = run_patched(drawn, reach)
    for mutant in drawn:
        if mutant.number not in ends:
            ends[mutant.number] = reloaded(mutant, reach.affordable(mutant), reach.seconds)
        end = ends[mutant.number]
        if end == SURVIVED:
            run, reaching = len(reach.affordable(mutant)), len(reach.tests(mutant))
            note = known.get(mutant.key) or f"{run} of {reaching} tests that reach it were run"
            print(f"  {mutant.number:4} survived  {mutant.name}  [{note}]", flush=True)
        elif end == ENDLESS:
            print(f"  {mutant.number:4} endless   {mutant.name}", flush=True)
    survivors = [mutant for mutant in drawn if ends[mutant.number] == SURVIVED]
    unexplained = Counter(mutant.path.partition("/")[0] for mutant in survivors if mutant.key not in known)
    killed, endless = len(drawn) - len(survivors), list(ends.values()).count(ENDLESS)
    print(
        f"{killed} of {len(drawn)} mutants killed ({endless} of them ran for ever): {100 * killed / len(drawn):.1f} %"
        f" in {time.monotonic() - began:.0f} s; survivors without a reason: {dict(unexplained)}"
    )
    return killed >= FLOOR * len(drawn) and not unexplained


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", type=int, default=300)
    parser.add_argument("--seed", type=int, default=23)
    parser.add_argument("--number", type=int, nargs="+", help="these of the drawn ones alone")
    parser.add_argument("--named", action="store_true", help="the named mutants alone")
    parser.add_argument("--reuse", action="store_true", help="which test reaches which line, as recorded last")
    parser.add_argument("--record", nargs="+", help="the same, with these tests recorded anew")
    given = parser.parse_args()
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    WORK.mkdir(exist_ok=True)
    for name in PRELOADED:
        __import__(name)
    survived = 0 if given.reuse or given.record else check_named()
    if given.named:
        return bool(survived)
    tests = given.record or ([] if given.reuse else TESTS)
    known = Reach(**json.loads(RECORDED.read_text())) if given.reuse or given.record else Reach({}, {})
    if tests and _forked(lambda: _pytest(tests, [_Recorder(known)]), WORK / "recorded.log"):
        raise SystemExit(f"tests fail without any mutant: see {WORK.name}/recorded.log")
    drawn = [mutant for mutant in draw(given.draw, given.seed) if not given.number or mutant.number in given.number]
    return not check_drawn(drawn, Reach(**json.loads(RECORDED.read_text()))) or bool(survived)


if __name__ == "__main__":
    sys.exit(main())
