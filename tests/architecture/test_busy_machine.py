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
ENOUGH = 600.0
#: Calls that give up after so many seconds, and where the number stands: a position, or a keyword's name.
BOUNDS: dict[str, int | str] = {
    "asyncio.timeout": 0,
    "asyncio.wait_for": 1,
    "run": "timeout",
    "communicate": "timeout",
    "self.process.wait": 0,
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
    names = _names_of_settings(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        given = {word.arg: word.value for word in node.keywords}
        is_setting = ast.unparse(node.func).rpartition(".")[2] in names
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
    nothing; a clock's own `sleep` is virtual or has a bound beside it."""
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


#: Real waits that are meant: how many a file has, and why they cannot be virtual or a condition. None of them bounds
#: what must happen: a busy machine makes these tests slower, and changes no result.
WAITS: dict[str, tuple[int, str]] = {
    "waiting.py": (2, "the pauses between two looks at a condition"),
    "servers.py": (1, "a server has no other sign that it is up than an answer"),
    "adapters/aws/test_sqs.py": (1, "SQS counts its visibility time-outs by its own clock"),
    "adapters/http/test_product_server.py": (1, "a server that trickles: the pace is what is tested"),
    "adapters/http/test_transport.py": (4, "servers that pause in mid-answer, and a cancellation at any moment"),
    "contracts/test_limiter.py": (9, "Redis counts windows by its own clock, which cannot be set"),
    "faults/test_redis_lost.py": (4, "Redis counts windows by its own clock, which cannot be set"),
    "pool/lending.py": (3, "the marketplace's side of the two suites above"),
    "pool/test_race.py": (1, "workers of one race give way to one another"),
    "faults/test_mariadb.py": (1, "a database in another process is asked until it is back"),
    "faults/fleet.py": (4, "eight processes are harmed at random moments"),
    "journeys/test_at_scale.py": (1, "a frozen Redis stays frozen for longer than a request may take"),
    "simulator/test_simulator_http.py": (1, "a client that does not read for a while"),
    "web/test_connections.py": (11, "these sleeps run on a virtual loop: they cost nothing"),
    "kernel/test_virtual_time.py": (6, "these sleeps run on a virtual loop: they cost nothing"),
}


def across(rule: Rule) -> dict[str, list[str]]:
    """What each file of the tests breaks of a rule."""
    files = {path.relative_to(TESTS).as_posix(): path for path in sorted(TESTS.rglob("*.py"))}
    found = {name: list(rule(ast.parse(path.read_text("utf-8")))) for name, path in files.items()}
    return {name: said for name, said in found.items() if said}


def test_no_test_limits_how_long_an_example_may_take() -> None:
    assert across(limiting_examples) == {}


def test_every_real_wait_is_listed_with_its_reason_and_none_bounds_what_must_happen() -> None:
    found = across(waiting_shortly)
    assert [said for waits in found.values() for said in waits if "gives up" in said] == []
    assert {name: len(waits) for name, waits in found.items()} == {name: number for name, (number, _) in WAITS.items()}


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
        (waiting_shortly, "self.process.wait(20)"),
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
        (waiting_shortly, "async with asyncio.timeout(600): ..."),
    ],
)
def test_what_a_busy_machine_does_not_change_passes(rule: Rule, fine: str) -> None:
    assert list(rule(ast.parse(fine))) == []
