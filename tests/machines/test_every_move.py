"""No move of a noun is left out: its machine makes each of them, with every argument that it takes."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis.stateful import RuleBasedStateMachine
from tests.machines.test_agent_machine import AgentMachine
from tests.machines.test_circuit_machine import CircuitMachine
from tests.machines.test_execution_machine import ExecutionMachine
from tests.machines.test_message_machine import MessageMachine
from tests.machines.test_product_machine import ProductMachine
from tests.machines.test_resend_machine import ResendMachine
from tests.machines.test_resync_machine import ResyncMachine
from tests.machines.test_seller_machine import SellerMachine
from tests.machines.test_task_machine import TaskMachine

from sellerwatch.agents.agent import Agent
from sellerwatch.agents.circuit import Circuit
from sellerwatch.catalog.product import Product
from sellerwatch.catalog.resync import Resync
from sellerwatch.crawling.execution import Execution
from sellerwatch.crawling.task import Task
from sellerwatch.outbox.channel import Channel
from sellerwatch.outbox.message import Message
from sellerwatch.outbox.resend import Resend
from sellerwatch.outbox.seller_circuit import SellerCircuit
from sellerwatch.schedules.schedule import Schedule
from sellerwatch.sellers.seller import Seller

#: A move that was made less often than this is as good as untried.
OFTEN = 2
MACHINE_OF: dict[str, type[RuleBasedStateMachine]] = {
    "agent": AgentMachine,
    "circuit": CircuitMachine,
    "execution": ExecutionMachine,
    "message": MessageMachine,
    "product": ProductMachine,
    "resend": ResendMachine,
    "resync": ResyncMachine,
    "schedule": SellerMachine,
    "seller": SellerMachine,
    "task": TaskMachine,
}
#: A run completes with the count of its last task.
BY_ITSELF = ("execution", "complete")
#: Each noun, and the file with its machine.
MACHINES: dict[type[Any], str] = {
    Agent: "test_agent_machine.py",
    Channel: "test_channel_machine.py",
    Circuit: "test_circuit_machine.py",
    Execution: "test_execution_machine.py",
    Message: "test_message_machine.py",
    Product: "test_product_machine.py",
    Resend: "test_resend_machine.py",
    Resync: "test_resync_machine.py",
    Schedule: "test_seller_machine.py",
    Seller: "test_seller_machine.py",
    SellerCircuit: "test_seller_circuit_machine.py",
    Task: "test_task_machine.py",
}


def moves_of(noun: type[Any]) -> dict[str, list[str]]:
    """Public methods that return the noun, alone or with something else, and the names of their arguments."""
    found = {}
    for name, method in inspect.getmembers(noun, inspect.isfunction):
        returned = str(inspect.signature(method).return_annotation)
        if not name.startswith("_") and returned.removeprefix("tuple[").split(",")[0] == noun.__name__:
            found[name] = list(inspect.signature(method).parameters)[1:]
    return found


def calls_in(source: str) -> Iterator[ast.Call]:
    return (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))


def missing_from(source: str, noun: type[Any]) -> set[str]:
    """Arguments of moves that no call in this source gives; a move without a call is missing whole."""
    missing = {f"{move}({name})" for move, names in moves_of(noun).items() for name in [*names, ""]}
    for call in calls_in(source):
        move = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        names = moves_of(noun).get(move)
        if names is not None:
            given = ["", *names[: len(call.args)], *(word.arg for word in call.keywords)]
            missing -= {f"{move}({name})" for name in given}
    return missing


@pytest.mark.parametrize("noun", MACHINES, ids=lambda noun: noun.__name__)
def test_every_move_of_a_noun_is_made_by_its_machine_with_every_argument(noun: type[Any]) -> None:
    assert moves_of(noun), "it has none: it needs no machine"
    source = Path(__file__).with_name(MACHINES[noun]).read_text("utf-8")
    assert missing_from(source, noun) == set()


def test_a_move_that_is_left_out_or_lacks_an_argument_is_found() -> None:
    source = "task.publish(now); task.put_back(now)"
    missing = missing_from(source, Task)
    assert {"publish(by)", "put_back(counts)", "excuse()", "cancel(reason)"} <= missing
    assert not {"publish()", "publish(now)", "put_back()"} & missing
