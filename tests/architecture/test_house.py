"""Rules of the house that imports alone cannot say, read from the source. Each is also seen to catch a plant."""

from __future__ import annotations

import ast
import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src/sellerwatch"
SOURCE = sorted(PACKAGE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))

FORBIDDEN_NAMES = {"manager", "helper", "util", "impl", "base", "mapper", "dto"}

# The clock itself, in its two forms; the technologies; the simulator's server; and the stamp on a log line.
TIME_MAY_BE_READ = ("kernel/clock.py", "kernel/virtual_time.py", "adapters/", "simulator/http.py", "logs.py")
CLOCKS = {
    "time": {
        "time",
        "time_ns",
        "monotonic",
        "monotonic_ns",
        "perf_counter",
        "perf_counter_ns",
        "process_time",
        "sleep",
    },
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
    "asyncio": {"sleep"},
}
# What these modules have that is not rng.
LUCK = {"random": {"Random"}, "uuid": {"UUID", "uuid5"}}

# Whose numbers they are: only these modules decide by them.
COUNTERS = {
    "retry_count": {"crawling/task.py", "outbox/message.py"},
    "completed_tasks": {"crawling/execution.py"},
    "total_tasks_created": {"crawling/execution.py"},
}
# The aggregates, by what a variable that holds one is called, and where each is.
AGGREGATES = {
    "agent": "agents/agent.py",
    "execution": "crawling/execution.py",
    "message": "outbox/message.py",
    "product": "catalog/product.py",
    "run": "crawling/execution.py",
    "schedule": "schedules/schedule.py",
    "seller": "sellers/seller.py",
    "task": "crawling/task.py",
}

# What is recorded together with a change, in one place for each kind of change: a use case that writes the table itself
# would leave out the activity.
RECORDED_WITH = {
    ".audit.record": "oversight/audit.py",
    ".executions.add": "crawling/save_execution.py",
    ".executions.save": "crawling/save_execution.py",
}
# The widest port: one with more methods is two.
MOST_METHODS = 9

Rule = Callable[[ast.AST], Iterator[str]]


def violations(rule: Rule, source: str) -> list[str]:
    return list(rule(ast.parse(source)))


def across(rule: Rule, files: list[Path], exempt: tuple[str, ...] = ()) -> list[str]:
    found = []
    for path in files:
        name = path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else ROOT).as_posix()
        if not name.startswith(exempt or ("\0",)):
            found += [f"{name}: {said}" for said in violations(rule, path.read_text("utf-8"))]
    return found


def mocking(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and any("mock" in alias.name.split(".") for alias in node.names):
            yield f"line {node.lineno} imports mock"
        if isinstance(node, ast.ImportFrom):
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            if {"mock", "patch", "MagicMock", "pytest_mock"} & set(names):
                yield f"line {node.lineno} imports mock"
        if isinstance(node, ast.arg) and node.arg == "mocker":
            yield f"line {node.lineno} uses mocker"


def reading_time(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in ("time", "asyncio"):
            for alias in node.names:
                if alias.name in CLOCKS[node.module]:
                    yield f"line {node.lineno} takes {node.module}.{alias.name}"
        if isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value)
            if node.attr in CLOCKS.get(owner.rpartition(".")[2], ()):
                yield f"line {node.lineno} reads {owner}.{node.attr}"
            if node.attr == "time" and "loop" in owner.lower():
                yield f"line {node.lineno} reads the loop's time"


def shared_luck(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in LUCK:
            for alias in node.names:
                if alias.name not in LUCK[node.module]:
                    yield f"line {node.lineno} takes {node.module}.{alias.name}"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = node.value.id
            if module in LUCK and node.attr not in LUCK[module]:
                yield f"line {node.lineno} uses {module}.{node.attr}"
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "Random" and not node.args:
            yield f"line {node.lineno} makes a Random without a seed"


def deciding_by_counters(tree: ast.AST) -> Iterator[str]:
    """Attributes of another's counters inside a comparison, a condition or arithmetic of truth."""
    for node in ast.walk(tree):
        tests: list[ast.AST] = []
        if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
            tests = [node.test]
        elif isinstance(node, ast.Compare | ast.BoolOp):
            tests = [node]
        elif isinstance(node, ast.comprehension):
            tests = list(node.ifs)
        elif isinstance(node, ast.match_case):
            tests = [node.guard] if node.guard else []
        elif isinstance(node, ast.Match):
            tests = [node.subject]
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            tests = [node.operand]
        for test in tests:
            for inner in ast.walk(test):
                if isinstance(inner, ast.Attribute) and inner.attr in COUNTERS:
                    yield f"{inner.attr} decides on line {inner.lineno}"


@cache
def fields_of(module: str) -> dict[str, str]:
    """The fields of the classes of a module with their types, and its properties."""
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse((PACKAGE / module).read_text("utf-8"))):
        for each in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                found[each.target.id] = ast.unparse(each.annotation)
            elif isinstance(each, ast.FunctionDef) and "property" in map(ast.unparse, each.decorator_list):
                found[each.name] = ""
    return found


#: Values with fields of their own that aggregates hold.
VALUES = {"Circuit", "CrawlingInterval", "Failure", "Token"}


def values_of(module: str) -> set[str]:
    """The fields of an aggregate that hold such a value."""
    return {name for name, kind in fields_of(module).items() if VALUES & set(re.findall(r"[A-Za-z]+", kind))}


def chains_through_aggregates(tree: ast.AST) -> Iterator[str]:
    """`task.failure.code`: who asks this knows how a task keeps its failure. The aggregate is to be asked itself."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Attribute):
            continue
        owner = ast.unparse(node.value.value).rpartition(".")[2]
        if owner in AGGREGATES and node.value.attr in values_of(AGGREGATES[owner]):
            yield f"line {node.lineno} reads {owner}.{node.value.attr}.{node.attr}"


def making_activity(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and "Activity" in (alias.name for alias in node.names):
            yield f"line {node.lineno} imports Activity"


def writing_without_activity(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(tuple(RECORDED_WITH)):
            yield f"line {node.lineno} calls {ast.unparse(node.func)}"


def changeable_structs(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and "Struct" in map(ast.unparse, node.bases):
            frozen = {each.arg: ast.unparse(each.value) for each in node.keywords}.get("frozen")
            if frozen != "True":
                yield f"{node.name} is a Struct and not frozen"


def wide_ports(tree: ast.AST) -> Iterator[str]:
    """Protocols with too many methods. One of nothing but properties hands things over (a transaction its tables, a
    context its parts) and does nothing itself: it has no halves."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and any(ast.unparse(each).startswith("Protocol") for each in node.bases):
            members = [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
            methods = [each for each in members if [ast.unparse(mark) for mark in each.decorator_list] != ["property"]]
            if methods and len(members) > MOST_METHODS:
                yield f"{node.name} has {len(members)} methods"


def names_of_modules(paths: list[Path]) -> list[str]:
    """Modules and folders named after a layer instead of a part of the business."""
    found = []
    for path in paths:
        words = {word.rstrip("s") for part in path.with_suffix("").parts for word in part.lower().split("_")}
        if words & FORBIDDEN_NAMES:
            found.append(path.as_posix())
    return found


def test_tests_use_real_parts_and_no_mocks() -> None:
    assert across(mocking, TESTS) == []


def test_no_module_is_named_after_a_layer() -> None:
    assert names_of_modules([path.relative_to(PACKAGE) for path in SOURCE]) == []


def test_no_class_is_named_after_a_layer() -> None:
    ends = (*(name.capitalize() for name in FORBIDDEN_NAMES), "DTO", "Utils", "Helpers")
    named = [
        f"{path.relative_to(PACKAGE)}: {node.name}"
        for path in SOURCE
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef) and node.name.endswith(ends)
    ]
    assert named == []


def test_only_the_clock_and_the_edges_read_time() -> None:
    assert across(reading_time, SOURCE, TIME_MAY_BE_READ) == []


def test_luck_is_an_argument_and_never_the_modules_own() -> None:
    assert across(shared_luck, SOURCE) == []


def test_nobody_decides_by_anothers_counters() -> None:
    foreign = []
    for said in across(deciding_by_counters, SOURCE, ("adapters/sql/", "simulator/")):
        module, _, rest = said.partition(": ")
        if module not in COUNTERS[rest.split()[0]]:
            foreign.append(said)
    assert foreign == []


def test_the_counters_that_are_watched_exist() -> None:
    """A rule about an attribute that nothing has watches nothing."""
    missing = [name for name, modules in COUNTERS.items() for module in modules if name not in fields_of(module)]
    assert missing == []


def test_features_ask_an_aggregate_and_not_what_it_holds() -> None:
    """Surfaces are left out: what they hold are views, which are data."""
    values = {name: values_of(module) for name, module in AGGREGATES.items()}
    assert values["task"] == values["run"] == {"failure"}
    assert values["seller"] == values["schedule"] == {"interval"}
    assert across(chains_through_aggregates, SOURCE, ("adapters/", "simulator/", "cli/", "web/")) == []


def test_changes_are_recorded_in_one_place_together_with_their_activity() -> None:
    assert across(writing_without_activity, SOURCE, tuple(RECORDED_WITH.values())) == []


def test_adapters_record_no_activity_of_their_own() -> None:
    adapters = [path for path in SOURCE if "adapters" in path.relative_to(PACKAGE).parts]
    # This one stores and reads them.
    assert across(making_activity, adapters, ("adapters/sql/activity.py",)) == []


def test_structs_are_frozen() -> None:
    assert across(changeable_structs, SOURCE) == []


def test_no_port_has_more_than_nine_methods() -> None:
    assert across(wide_ports, SOURCE, ("adapters/", "simulator/")) == []


TEN = "\n".join(f"    def method{number}(self) -> None: ..." for number in range(10))
TEN_TABLES = TEN.replace("    def", "    @property\n    def")


@pytest.mark.parametrize(
    ("rule", "plant"),
    [
        (mocking, "from unittest import mock"),
        (mocking, "import unittest.mock as m"),
        (mocking, "from unittest.mock import patch"),
        (mocking, "def test(mocker): ..."),
        (reading_time, "import time\ntime.monotonic()"),
        (reading_time, "from time import time"),
        (reading_time, "from datetime import UTC, datetime\ndatetime.now(UTC)"),
        (reading_time, "import datetime\nread = datetime.datetime.utcnow"),
        (reading_time, "asyncio.get_running_loop().time()"),
        (reading_time, "self._loop.time()"),
        (reading_time, "await asyncio.sleep(1)"),
        (shared_luck, "import random\nrandom.random()"),
        (shared_luck, "from random import choice"),
        (shared_luck, "import random\nluck = random.Random()"),
        (shared_luck, "import uuid\nuuid.uuid4()"),
        (writing_without_activity, "batch.tx.executions.save(run)"),
        (writing_without_activity, "tx.audit.record(entry)"),
        (making_activity, "from sellerwatch.kernel.activity import Activity, ActivityLog"),
        (changeable_structs, "class Prices(Struct):\n    stock: int"),
        (changeable_structs, "class Prices(Struct, frozen=False):\n    stock: int"),
        (wide_ports, f"class Wide(Protocol):\n{TEN}"),
        (wide_ports, f"class Wide(Narrow, Protocol[T]):\n{TEN}"),
        (wide_ports, f"class Wide(Protocol):\n{TEN_TABLES}\n    def act(self) -> None: ..."),
        (deciding_by_counters, "if task.retry_count < 3: ..."),
        (deciding_by_counters, "done = run.completed_tasks == run.total_tasks_created"),
        (deciding_by_counters, "x = 1 if not run.completed_tasks else 2"),
        (chains_through_aggregates, "late = schedule.interval.length"),
        (chains_through_aggregates, "if claim.task.failure.code is code: ..."),
        (chains_through_aggregates, "shown = stored.seller.interval.expression"),
        (deciding_by_counters, "[t for t in tasks if t.retry_count]"),
    ],
)
def test_a_plant_is_caught(rule: Rule, plant: str) -> None:
    assert violations(rule, plant) != []


@pytest.mark.parametrize(
    ("rule", "fine"),
    [
        (mocking, "def test(monkeypatch): monkeypatch.setattr(module, 'ATTEMPTS', 2)"),
        (reading_time, "clock.now(); await clock.sleep(1); clock.monotonic()"),
        (shared_luck, "import random\nluck = random.Random(7)\nluck.random()"),
        (wide_ports, f"class Transaction(Protocol):\n{TEN_TABLES}"),
        (wide_ports, f"class Wide:\n{TEN}"),
        (chains_through_aggregates, "length = schedule.length; code = task.failure_code; name = seller.name.strip()"),
        (deciding_by_counters, "row = {'retry_count': task.retry_count}"),
    ],
)
def test_what_is_meant_passes(rule: Rule, fine: str) -> None:
    assert violations(rule, fine) == []


@pytest.mark.parametrize("name", ["sellers/utils.py", "catalog/product_mapper.py", "base/x.py", "crawling/manager.py"])
def test_a_planted_name_is_caught(name: str) -> None:
    assert names_of_modules([Path(name)]) == [name]


def test_nothing_is_left_for_later_and_no_test_is_passed_over() -> None:
    # Spelled so that this very file does not hold them.
    words = ["TO" + "DO", "FIX" + "ME", "X" * 3, r"mark\.x" + "fail", r"mark\.sk" + "ip", r"pytest\.sk" + "ip"]
    pattern = re.compile(r"\b(" + "|".join(words) + r")\b|pytest\.x" + r"fail|import" + r"orskip")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in [*SOURCE, *TESTS]
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("option", "also_heavy"),
    [("--version", ("pydantic",)), ("--help", ("pydantic",)), ("sellers --help", ())],
)
def test_the_command_line_imports_nothing_heavy_before_it_is_needed(option: str, also_heavy: tuple[str, ...]) -> None:
    heavy = ("aiohttp", "alembic", "sqlalchemy", "cryptography", "sellerwatch.simulator", "sellerwatch.adapters")
    code = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
    code += f"from sellerwatch.cli.main import main; sys.argv[1:] = {option.split()}; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stderr.split()
    assert "sellerwatch.cli.main" in loaded
    assert [name for name in loaded if name in (*heavy, *also_heavy)] == []


def check_locks(root: Path) -> ModuleType:
    """The gate's own script, looking at `root`."""
    spec = importlib.util.spec_from_file_location("check_locks", ROOT / "scripts/check_locks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.__dict__["ROOT"] = root
    return module


def test_the_locks_hold_hashes_and_no_address() -> None:
    assert check_locks(ROOT).problems() == []


@pytest.mark.parametrize(
    ("plant", "said"),
    [
        ("--index-url https://registry.example/simple\n", "an address"),
        ("--find-links /somewhere\n", "an address"),
        ("thing @ https://registry.example/thing.whl \\\n", "an address"),
        ("thing==1.0\n", "no hash"),
    ],
)
def test_a_planted_lock_line_is_found(tmp_path: Path, plant: str, said: str) -> None:
    shutil.copy(ROOT / ".gitignore", tmp_path)
    shutil.copy(ROOT / "requirements.lock", tmp_path)
    with (tmp_path / "requirements.lock").open("a") as lock:
        lock.write(plant)
    (problem,) = check_locks(tmp_path).problems()
    assert said in problem


def test_a_lock_that_would_be_committed_with_addresses_is_found(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("uv.lock\n")
    assert check_locks(tmp_path).problems() == ["pylock.toml is not git-ignored"]
