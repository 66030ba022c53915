"""What a run waits for is the same on every page of the console and in the API, in the reader's language."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.agents.outages import answer_503
from tests.builders import NOW, SELLER, execution_id

from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.marketplace_circuit import Endpoint
from sellerwatch.crawling.ports import NoteKind
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.failure import FailureCode

from .conftest import Console


def an_endpoint_is_away(tx: Transaction) -> None:
    answer_503(tx, Endpoint.DETAIL, NOW)


def too_few_agents_are_available(tx: Transaction) -> None:
    tx.circuits.save_breaker(replace(tx.circuits.breaker(), state=CircuitState.OPEN, opened_at=NOW), NOW)


def answers_cannot_be_read(tx: Transaction) -> None:
    tx.run_notes.add(execution_id(), {(NoteKind.PAUSED, "MISSING where=ProductInfoModule"): 12})


def requests_are_paused(tx: Transaction) -> None:
    tx.marketplace.pause(None, "kim", NOW)


def every_agents_circuit_is_open(tx: Transaction) -> None:
    tx.db.run("UPDATE circuit_breaker_state SET circuit_state = 'OPEN', opened_at = :at", {"at": NOW})


def every_window_is_used_up(tx: Transaction) -> None:
    tx.db.run("UPDATE rate_limit_bucket SET current_tokens = 0")


CAUSES = {
    FailureCode.AGENT_CIRCUITS_OPEN: every_agents_circuit_is_open,
    FailureCode.BUDGET_USED_UP: every_window_is_used_up,
    FailureCode.CIRCUIT_OPEN: an_endpoint_is_away,
    FailureCode.POOL_BREAKER_OPEN: too_few_agents_are_available,
    FailureCode.RUN_PAUSED: answers_cannot_be_read,
    FailureCode.MARKETPLACE_PAUSED: requests_are_paused,
}


@pytest.mark.parametrize("code", CAUSES)
async def test_the_cause_for_which_a_run_waits_is_on_every_page_of_it(console: Console, code: FailureCode) -> None:
    await console.world.register_seller()
    await console.world.add_run(done=1, waiting=1)
    await console.world.transact(CAUSES[code])
    for language in ("en", "ko"):
        listed = await console.world.viewer.ask("GET", "/api/v1/sellers", headers={"accept-language": language})
        (waiting,) = [seller["openExecution"]["waiting"] for seller in listed.json["content"]]
        assert waiting["code"] == code
        await console.viewer.send("/preferences", language=language, back="/")
        pages = ("/", "/sellers", f"/sellers/{SELLER}", "/executions", f"/executions/{execution_id()}")
        silent = [path for path in pages if waiting["message"] not in (await console.viewer.see(path)).words]
        assert silent == []
