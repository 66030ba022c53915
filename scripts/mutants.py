"""Mutation testing of the features: change one thing in the source, and see whether a test notices.

    python scripts/mutants.py                 the named mutants, then 300 drawn by seed
    python scripts/mutants.py --draw 50 --seed 7 --jobs 1
    python scripts/mutants.py --named         the named ones alone

One run of the feature tests records which test reaches which line. A mutant is then run against the tests that reach
its line, the shortest first, until one fails. A mutant that no test notices is a survivor: it needs a test, or a reason
in `scripts/surviving_mutants.toml`. Nothing on disk is changed: a process is forked for each mutant, and loads the
mutated module from memory. Tests that need a server are left out.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import resource
import signal
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src/sellerwatch"
FEATURES = ("agents", "catalog", "crawling", "outbox", "schedules")
#: The tests of the features, and those that walk them from state to state; all of them run in this process.
TESTS = ("agents", "catalog", "crawling", "machines", "outbox", "pool", "schedules")
LEFT_OUT = "not mariadb and not processes"
WORK = ROOT / ".mutants"
REASONS = ROOT / "scripts/surviving_mutants.toml"
#: The share of mutants that tests have to notice.
FLOOR = 0.85
#: Seconds of CPU after which the tests of one mutant are ended: it runs for ever, which is noticed too. However busy
#: the machine is, a mutant does not count as noticed because of it.
LIMIT_CPU = 300
#: The same for one that waits; pytest-timeout ends each of its tests before.
LIMIT = 7200
#: Tests that one mutant is run against, at most.
MOST_TESTS = 150

#: Loaded once, before a process is forked for each mutant; nothing of ours.
PRELOADED = ("sqlalchemy", "orjson", "zstandard", "pydantic", "cryptography.hazmat.primitives.ciphers.aead")

KILLED, SURVIVED, TIMED_OUT = 1, 0, 2


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
    #: Tests of a named mutant, and why it matters.
    tests: tuple[str, ...] = ()
    why: str = ""

    @property
    def name(self) -> str:
        return f"{self.path}:{self.line}: {self.before} -> {self.after}"

    @property
    def key(self) -> str:
        """Without the line, so that it stays when lines move."""
        return f"{self.path}: {self.before} -> {self.after}"


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
    found = []
    for number, node in enumerate(sites(ast.parse(path.read_text("utf-8")))):
        for variant, changed in enumerate(CHANGES[type(node)](node)):
            before, after = _shown(node), _shown(changed)
            line: int = getattr(node, "lineno", 0)
            found.append(Mutant(str(path.relative_to(PACKAGE)), line, before, after, number, variant))
    return found


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


def _pytest(arguments: Sequence[str], plugins: Sequence[object] = ()) -> int:
    import pytest  # noqa: PLC0415 - in the forked process

    off = [word for name in ("cacheprovider", "xdist", "cov") for word in ("-p", f"no:{name}")]
    given = ["-q", "-x", "-o", "addopts=--import-mode=importlib", *off, "-k", LEFT_OUT]
    return int(pytest.main([*given, *arguments], plugins=list(plugins)))


@dataclass(frozen=True)
class _Work:
    """Something to do in a process of its own, which is ended after `limit` seconds."""

    run: Callable[[], int]
    limit: float
    output: Path


def _forked(works: Sequence[_Work], jobs: int, ended: Callable[[int, int], None]) -> None:
    """Run so many at a time; `ended` is called with the number of a piece of work and its exit code, or TIMED_OUT."""
    waiting, going = list(enumerate(works)), dict[int, tuple[int, float]]()
    while waiting or going:
        while waiting and len(going) < jobs:
            number, work = waiting.pop(0)
            going[_begin(work)] = (number, time.monotonic() + work.limit)
        time.sleep(0.02)
        for child, (number, until) in list(going.items()):
            done, status = os.waitpid(child, os.WNOHANG)
            if not done and time.monotonic() < until:
                continue
            if not done:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
            del going[child]
            code = os.waitstatus_to_exitcode(status) if done else TIMED_OUT
            # Ended by a signal: it was out of CPU time.
            ended(number, TIMED_OUT if code < 0 else code)


def _begin(work: _Work) -> int:
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    os.setsid()
    log = os.open(work.output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    try:
        code = work.run()
        sys.stdout.flush()
        os._exit(code)
    except BaseException as error:
        print(repr(error), flush=True)
        os._exit(KILLED)


def _on_mutant(mutant: Mutant, tests: Sequence[str], output: Path) -> _Work:
    """Run the tests against a mutant: KILLED where one fails, else SURVIVED."""

    def run() -> int:
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_CPU, LIMIT_CPU))
        sys.meta_path.insert(0, _Finder(mutant))
        return KILLED if _pytest(tests) else SURVIVED

    return _Work(run, LIMIT, output)


class _Recorder:
    """Notes which lines each test reaches, and how long it takes."""

    def __init__(self, coverage: Any) -> None:
        self._coverage = coverage
        self.seconds: dict[str, float] = {}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._coverage.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration


def record(folder: str) -> int:
    """Run the tests of a folder and write down what each reaches."""
    import coverage  # noqa: PLC0415 - in the forked process

    watched = [str(PACKAGE / feature) for feature in FEATURES]
    cover = coverage.Coverage(data_file=None, include=[f"{each}/*" for each in watched], messages=False)
    recorder = _Recorder(cover)
    cover.start()
    failed = _pytest([f"tests/{folder}"], [recorder])
    cover.stop()
    data = cover.get_data()
    reached: dict[str, dict[str, list[str]]] = {}
    for file in data.measured_files():
        by_line = data.contexts_by_lineno(file)
        name = str(Path(file).relative_to(PACKAGE))
        reached[name] = {str(line): sorted(filter(None, tests)) for line, tests in by_line.items()}
    found = {"seconds": recorder.seconds, "reached": reached}
    (WORK / f"{folder}.json").write_text(json.dumps(found))
    return 1 if failed else 0


class Reach:
    """Which tests reach a line, the shortest first. What runs as a module is loaded is reached by all tests of it."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._seconds: dict[str, float] = {}
        self._tests: dict[tuple[str, int], set[str]] = {}
        self._of_file: dict[str, set[str]] = {}
        for folder in folders:
            found = json.loads((WORK / f"{folder}.json").read_text())
            self._seconds |= found["seconds"]
            for path, lines in found["reached"].items():
                for line, tests in lines.items():
                    self._tests.setdefault((path, int(line)), set()).update(tests)
                    self._of_file.setdefault(path, set()).update(tests)

    def tests(self, mutant: Mutant) -> list[str]:
        of_line = self._tests.get((mutant.path, mutant.line))
        found = of_line or (self._of_file.get(mutant.path, set()) if of_line is not None else set())
        return sorted(found, key=lambda test: self._seconds.get(test, 0.0))[:MOST_TESTS]


def draw(number: int, seed: int) -> list[Mutant]:
    """Return so many mutants of the features, drawn by seed: a smaller number is the beginning of a larger one."""
    files = sorted(path for feature in FEATURES for path in (PACKAGE / feature).glob("*.py"))
    every = [mutant for path in files for mutant in mutants_of(path)]
    random.Random(seed).shuffle(every)
    return every[:number]


def reasons() -> dict[str, str]:
    """Return why some mutants may survive, by their keys."""
    return dict(tomllib.loads(REASONS.read_text("utf-8"))) if REASONS.exists() else {}


def check_named(jobs: int) -> int:
    """Run the named mutants; return how many survived."""
    survived, tests = [], sorted({test for each in NAMED for test in each.tests})
    unchanged = _Work(lambda: _pytest(tests), 600, WORK / "unchanged.log")

    def ended_unchanged(_: int, end: int) -> None:
        if end:
            raise SystemExit(f"{', '.join(tests)} fail without any mutant: see {WORK.name}/unchanged.log")

    def ended(number: int, end: int) -> None:
        survived.extend([NAMED[number]] * (end == SURVIVED))
        print(f"  {'SURVIVED' if end == SURVIVED else 'killed'}  {NAMED[number].path}: {NAMED[number].why}", flush=True)

    _forked([unchanged], 1, ended_unchanged)
    works = [_on_mutant(each, each.tests, WORK / f"named-{place}.log") for place, each in enumerate(NAMED)]
    _forked(works, jobs, ended)
    return len(survived)


def check_drawn(number: int, seed: int, jobs: int, reach: Reach) -> bool:
    """Run drawn mutants, list the survivors, and say whether enough were noticed."""
    drawn, known = draw(number, seed), reasons()
    reached = [reach.tests(mutant) for mutant in drawn]
    ends = [SURVIVED] * len(drawn)
    began = time.monotonic()

    def say(place: int) -> None:
        mutant, tests = drawn[place], reached[place]
        note = known.get(mutant.key) or (f"{len(tests)} tests reach it" if tests else "no feature test reaches it")
        print(f"  survived  {mutant.name}  [{note}]", flush=True)

    done: list[int] = []
    places = [place for place, tests in enumerate(reached) if tests]

    def ended(index: int, end: int) -> None:
        ends[places[index]] = end
        done.append(end)
        if end == SURVIVED:
            say(places[index])
        if len(done) % 25 == 0:
            print(f"  {len(done)} of {len(places)} run, {len(done) - done.count(SURVIVED)} killed", flush=True)

    for place in range(len(drawn)):
        if place not in places:
            say(place)
    _forked([_on_mutant(drawn[place], reached[place], WORK / f"{place}.log") for place in places], jobs, ended)
    survivors = [mutant for mutant, end in zip(drawn, ends, strict=True) if end == SURVIVED]
    excused = [mutant for mutant in survivors if mutant.key in known]
    counted, killed = len(drawn) - len(excused), len(drawn) - len(survivors)
    by_feature = Counter(mutant.path.partition("/")[0] for mutant in survivors if mutant.key not in known)
    print(
        f"{len(drawn)} mutants by seed {seed}: {killed} killed ({ends.count(TIMED_OUT)} of them ran for ever),"
        f" {len(survivors)} survived, {len(excused)} of them with a reason; {100 * killed / max(counted, 1):.1f} %"
        f" in {time.monotonic() - began:.0f} s; survivors without a reason: {dict(by_feature)}"
    )
    return killed >= FLOOR * counted


def _record_all(jobs: int) -> bool:
    """Write down what the tests of each folder reach; False where some fail without any mutant."""
    failed = []

    def ended(number: int, end: int) -> None:
        if end:
            failed.append(TESTS[number])
            print(f"tests/{TESTS[number]} fail without any mutant: see {WORK.name}/{TESTS[number]}.log", flush=True)

    _forked([_Work(partial(record, each), LIMIT, WORK / f"{each}.log") for each in TESTS], jobs, ended)
    return not failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", type=int, default=300)
    parser.add_argument("--seed", type=int, default=23)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--named", action="store_true", help="the named mutants alone")
    parser.add_argument("--reuse", action="store_true", help="which test reaches which line, as recorded last")
    given = parser.parse_args()
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    WORK.mkdir(exist_ok=True)
    for name in PRELOADED:
        __import__(name)
    survived = 0 if given.reuse else check_named(given.jobs)
    if given.named:
        return bool(survived)
    if not given.reuse and not _record_all(given.jobs):
        return 2
    return not check_drawn(given.draw, given.seed, given.jobs, Reach(TESTS)) or bool(survived)


if __name__ == "__main__":
    sys.exit(main())
