"""How fast the machine is decides no test: read from the tests' own source.

Two kinds of line make a test fail on a busy machine. A Hypothesis setting that limits an example's time, and a real
wait that is too short for what must happen in it. `WAITS` lists the real waits that are meant, each with its reason.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest
from hypothesis import HealthCheck

TESTS = Path(__file__).parents[1]

#: A bound on something that must happen is at least this many seconds.
ENOUGH = 60.0
#: Calls that give up after so many seconds, and where the number stands: a position, or a keyword's name.
BOUNDS: dict[str, int | str] = {
    "asyncio.timeout": 0,
    "asyncio.wait_for": 1,
    "run": "timeout",
    "communicate": "timeout",
    "result": "timeout",
    "call": "timeout",
    "urlopen": "timeout",
    "HTTPConnection": "timeout",
    "sqlite3.connect": "timeout",
    "pytest.mark.timeout": 0,
}
SLEEPS = {"time.sleep", "asyncio.sleep"}


Rule = Callable[[ast.AST], Iterator[str]]


def limiting_examples(tree: ast.AST) -> Iterator[str]:
    """Hypothesis settings that let the time an example takes decide."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        given = {word.arg: word.value for word in node.keywords}
        is_setting = ast.unparse(node.func).rpartition(".")[2] in _names_of_settings(tree)
        if is_setting and "deadline" in given and ast.unparse(given["deadline"]) != "None":
            yield f"line {node.lineno} sets a deadline"
        if "suppress_health_check" in given:
            said = ast.unparse(given["suppress_health_check"])
            if "too_slow" not in said and said != "list(HealthCheck)":
                yield f"line {node.lineno} brings back the check for slow examples: add HealthCheck.too_slow"


def _names_of_settings(tree: ast.AST) -> set[str]:
    """What Hypothesis' settings are called in a module."""
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "hypothesis"
        for alias in node.names
        if alias.name == "settings"
    }
    return imported | {"settings", "register_profile"}


def waiting_shortly(tree: ast.AST) -> Iterator[str]:
    """Real sleeps of any length, and bounds that a busy machine may exceed. `sleep(0)` lets others run and waits for
    nothing. Inside `run_virtually` no time passes: such a file has no real sleep to find here."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        if name in SLEEPS and not (node.args and ast.unparse(node.args[0]) == "0"):
            yield f"line {node.lineno} sleeps on real time"
        for bound, where in BOUNDS.items():
            if name != bound and not ("." not in bound and name.endswith("." + bound)):
                continue
            seconds = _number(node, where)
            if seconds is not None and seconds < ENOUGH:
                yield f"line {node.lineno} gives up after {seconds:g} s"


def _number(call: ast.Call, where: int | str) -> float | None:
    values = [word.value for word in call.keywords if word.arg == where]
    if isinstance(where, int):
        values = call.args[where : where + 1]
    match values:
        case [ast.Constant(value=int() | float() as number)]:
            return float(number)
    return None


def across(rule: Rule, exempt: set[str]) -> list[str]:
    found = []
    for path in sorted(TESTS.rglob("*.py")):
        name = path.relative_to(TESTS).as_posix()
        if name not in exempt:
            found += [f"{name}: {said}" for said in rule(ast.parse(path.read_text("utf-8")))]
    return found


#: Time is virtual there: their sleeps and bounds cost nothing and end exactly.
VIRTUAL = {"kernel/test_virtual_time.py"}


def test_no_test_limits_how_long_an_example_may_take() -> None:
    assert across(limiting_examples, set()) == []


def test_the_settings_every_test_starts_from_limit_no_example() -> None:
    chosen = hypothesis.settings()
    assert chosen.deadline is None
    assert HealthCheck.too_slow in chosen.suppress_health_check


@pytest.mark.parametrize(
    ("rule", "plant"),
    [
        (limiting_examples, "@settings(deadline=200)\ndef test(): ..."),
        (
            limiting_examples,
            "from hypothesis import settings as profile\n@profile(deadline=timedelta(1))\ndef f(): ...",
        ),
        (limiting_examples, "hypothesis.settings.register_profile('x', deadline=1)"),
        (limiting_examples, "settings(suppress_health_check=[HealthCheck.data_too_large])"),
        (waiting_shortly, "time.sleep(0.1)"),
        (waiting_shortly, "await asyncio.sleep(pause)"),
        (waiting_shortly, "async with asyncio.timeout(5): ..."),
        (waiting_shortly, "await asyncio.wait_for(read(), 0.05)"),
        (waiting_shortly, "subprocess.run(command, timeout=10)"),
        (waiting_shortly, "process.communicate(timeout=10)"),
        (waiting_shortly, "pytestmark = pytest.mark.timeout(30)"),
    ],
)
def test_a_planted_wait_is_caught(rule: Rule, plant: str) -> None:
    assert list(rule(ast.parse(plant))) != []


@pytest.mark.parametrize(
    ("rule", "fine"),
    [
        (limiting_examples, "@settings(deadline=None, suppress_health_check=list(HealthCheck))\ndef test(): ..."),
        (limiting_examples, "run = a_run(deadline=NOW)"),
        (waiting_shortly, "await asyncio.sleep(0); await clock.sleep(0.1)"),
        (waiting_shortly, "async with asyncio.timeout(60): ..."),
    ],
)
def test_what_a_busy_machine_does_not_change_passes(rule: Rule, fine: str) -> None:
    assert list(rule(ast.parse(fine))) == []
