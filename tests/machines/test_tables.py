"""The tables against the specification, and against the nouns whose verbs they order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.machines import spec
from tests.machines.lifecycles import every_lifecycle, reachable

from sellerwatch.agents.agent import Agent
from sellerwatch.agents.circuit import Circuit
from sellerwatch.catalog.product import Product
from sellerwatch.catalog.resync import Resync
from sellerwatch.crawling.execution import Execution
from sellerwatch.crawling.task import OPEN_STATES, TASK_LIFE, Task, TaskStatus
from sellerwatch.kernel.lifecycle import Lifecycle
from sellerwatch.outbox.message import Message
from sellerwatch.outbox.resend import Resend
from sellerwatch.schedules.schedule import Schedule
from sellerwatch.sellers.seller import Seller

LIVES = every_lifecycle()

NOUNS: dict[str, type[Any]] = {
    "task": Task,
    "execution": Execution,
    "seller": Seller,
    "schedule": Schedule,
    "message": Message,
    "agent": Agent,
    "circuit": Circuit,
    "product": Product,
    "resend": Resend,
    "resync": Resync,
}

#: Verbs that are not said by one method of their own name, and the method that does them.
DONE_BY = {
    ("execution", "reopen"): "reopen_tasks",
    ("circuit", "open"): "failed",
    ("product", "complete"): "see_part",
    ("product", "delete"): "announce",
    ("product", "return"): "announce",
}

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=sorted(spec.ALL))
def life(request: pytest.FixtureRequest) -> Lifecycle[Any]:
    return LIVES[request.param]


def test_every_noun_of_the_specification_has_its_table() -> None:
    assert set(spec.ALL) <= set(LIVES)


def test_the_table_is_the_specifications(life: Lifecycle[Any]) -> None:
    assert {(state.value, verb): to.value for (state, verb), to in life.moves.items()} == spec.ALL[life.noun]


@pytest.mark.parametrize("noun", sorted(LIVES))
def test_every_move_of_a_table_can_be_come_to(noun: str) -> None:
    life = LIVES[noun]
    there = reachable(life)
    assert there == set(life.states()), "a state that nothing leads to"
    assert {move for move in life.moves if move[0] not in there} == set()


@pytest.mark.parametrize("noun", sorted(LIVES))
def test_a_state_that_nobody_has_to_leave_is_declared_resting(noun: str) -> None:
    life = LIVES[noun]
    ends = {state for state in life.states() if not any(source is state for source, _ in life.moves)}
    assert ends <= life.resting


def test_every_verb_of_a_table_is_something_its_noun_can_do(life: Lifecycle[Any]) -> None:
    noun = NOUNS[life.noun]
    for verb in life.verbs():
        method = DONE_BY.get((life.noun, verb), verb)
        assert callable(getattr(noun, method, None)), f"{noun.__name__} cannot {verb}"


def test_an_open_task_is_one_that_has_not_ended() -> None:
    assert set(OPEN_STATES) == set(TaskStatus) - {TaskStatus.COMPLETED, TaskStatus.FAILED}
    assert set(TASK_LIFE.states()) == set(OPEN_STATES) | TASK_LIFE.resting


def test_the_page_of_lifecycles_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/make_lifecycles.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_page_of_lifecycles_that_differs_is_found(tmp_path: Path) -> None:
    stale = tmp_path / "lifecycles.md"
    stale.write_text("old", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "scripts/make_lifecycles.py", "--check", "--to", str(stale)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "make_lifecycles.py" in done.stdout + done.stderr
    assert stale.read_text(encoding="utf-8") == "old"
