"""Resends of which little or nothing is accepted: each comes to an end, and says why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.builders import StoppedClock
from tests.outbox.delivery_world import DeliveryWorld, Running, seller_of
from tests.world import store_in_memory

from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.ids import OutboxId, ResendId
from sellerwatch.operations.resends import start_resend
from sellerwatch.outbox.message import MessageStatus
from sellerwatch.outbox.ports import EventBody
from sellerwatch.outbox.receipt import Receipt
from sellerwatch.outbox.resend import MOST_FAILED_ROUNDS, Resend, ResendChoice, ResentEvent
from sellerwatch.outbox.resending import Resending
from sellerwatch.outbox.rules import DeliveryRules

RULES = DeliveryRules()


@dataclass
class Breaking:
    """A receiver that answers everything with a 200, but bodies with one of these texts with a status of their own."""

    failing: dict[str, int] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    async def deliver(self, message: EventBody, now: datetime) -> Receipt:
        self.requests.append(message.outbox_id)
        status = next((status for text, status in self.failing.items() if text in message.payload.decode()), 200)
        return Receipt.of_answer(status, b"" if status == 200 else b"no")


class ResendWorld:
    """Delivered events, and a receiver that is asked to take them again."""

    def __init__(self, world: DeliveryWorld) -> None:
        self.world = world
        self.receiver = Breaking()
        self.resending = Resending[Any](world.store, self.receiver, world.clock, world.rng, RULES)

    async def deliver(self, *numbers: int) -> list[OutboxId]:
        """New events, accepted by the same receiver."""
        told = await self.world.tell(*numbers)
        delivery = await self.world.delivery(RULES, receiver=self.receiver)
        async with Running(delivery):
            await self.world.until_empty(delivery)
        return told

    async def ask(self, choice: ResendChoice | None = None) -> ResendId:
        self.receiver.requests.clear()
        started = await self.world.command(start_resend, choice or ResendChoice())
        return ResendId(started.resend_id or "")

    async def until_over(self, resend_id: ResendId, longest: timedelta = timedelta(days=2)) -> Resend:
        end = self.world.now + longest
        while await self.until_next():
            assert self.world.now < end, "the resend does not end"
            await self.resending.send()
        return await self.resend(resend_id)

    async def until_next(self) -> bool:
        """Sleep until the next round; False when none follows."""
        next_at = await self.resending.next_at()
        if next_at is not None:
            await self.world.clock.sleep((next_at - self.world.now).total_seconds())
        return next_at is not None

    async def resend(self, resend_id: ResendId) -> Resend:
        found = await self.world.read(lambda tx: tx.resends.get(resend_id))
        assert found is not None
        return found

    async def answers(self, resend_id: ResendId) -> list[ResentEvent]:
        return list((await self.world.read(lambda tx: tx.resent_events.page(resend_id, None, None, 100))).content)

    async def check_nothing_else_changed(self) -> None:
        """Events stay as they were delivered, and the receiver's circuit does not know of resends."""
        assert {(m.status, m.retry_count) for m in await self.world.messages()} == {(MessageStatus.COMPLETED, 0)}
        channel = await self.world.channel()
        assert (channel.state, channel.failures) == (CircuitState.CLOSED, 0)
        assert await self.world.circuits() == {}


@pytest.fixture
def resends(migrated_template: Path) -> Iterator[ResendWorld]:
    store = store_in_memory(migrated_template, StoppedClock())
    yield ResendWorld(DeliveryWorld(store))
    store.close()


def test_a_resend_of_which_nothing_is_accepted_fails_in_the_end_and_says_why(resends: ResendWorld) -> None:
    async def scenario() -> None:
        await resends.deliver(*range(1, 13))
        resend_id = await resends.ask()
        resends.receiver.failing, began = {"": 500}, resends.world.now
        found = await resends.until_over(resend_id)
        assert (found.status, found.accepted, found.failed, found.answered) == ("FAILED", 0, 0, 0)
        assert (found.problem, found.not_before, found.ended_by) == ("answered 500: no", None, None)
        assert timedelta(hours=5) < resends.world.now - began < timedelta(hours=8)
        # The share of the outbox in the first round, then one event and a witness at a time.
        assert len(resends.receiver.requests) == 5 + 2 * (MOST_FAILED_ROUNDS - 1)
        assert {each.tries for each in await resends.answers(resend_id)} == {0}
        [entry, _] = await resends.world.audit_trail()
        assert (entry.action, (entry.after or {})["problem"]) == ("resend.give_up", "answered 500: no")
        await resends.check_nothing_else_changed()

    resends.world.play(scenario())


def test_an_outage_shorter_than_that_costs_a_resend_nothing(resends: ResendWorld) -> None:
    async def scenario() -> None:
        await resends.deliver(*range(1, 13))
        resend_id = await resends.ask()
        resends.receiver.failing = {"": 503}
        for _ in range(MOST_FAILED_ROUNDS - 1):
            await resends.resending.send()
            await resends.until_next()
        resends.receiver.failing = {}
        found = await resends.until_over(resend_id)
        assert (found.status, found.accepted, found.failures, found.problem) == ("COMPLETED", 12, 0, None)

    resends.world.play(scenario())


def test_a_seller_whose_events_all_fail_beside_accepted_ones_ends_with_counts(resends: ResendWorld) -> None:
    async def scenario() -> None:
        await resends.deliver(*range(1, 31))
        await resends.deliver(*range(2001, 2011))
        resend_id = await resends.ask()
        resends.receiver.failing = {seller_of(1): 500}
        found = await resends.until_over(resend_id, timedelta(hours=1))
        assert (found.status, found.accepted, found.failed) == ("COMPLETED", 10, 30)
        assert {(each.answer, each.tries) for each in await resends.answers(resend_id)} == {
            ("ACCEPTED", 0),
            ("FAILED", 5),
        }
        await resends.check_nothing_else_changed()

    resends.world.play(scenario())


def test_a_receiver_that_breaks_on_what_it_has_and_takes_what_is_new_ends_a_resend(resends: ResendWorld) -> None:
    async def scenario() -> None:
        first = await resends.deliver(*range(1, 7))
        resend_id = await resends.ask(ResendChoice(tuple(first)))
        number = 2000
        while (await resends.resend(resend_id)).is_running:
            number += 1
            assert number < 2100, "the resend does not end"
            resends.receiver.failing = {message.outbox_id: 500 for message in await resends.world.messages()}
            await resends.resending.send()
            await resends.world.clock.sleep(1)
            await resends.deliver(number)
            await resends.world.clock.sleep(300)
        found = await resends.resend(resend_id)
        assert (found.status, found.failed, found.answered) == ("COMPLETED", 6, 6)
        await resends.check_nothing_else_changed()

    resends.world.play(scenario())


def test_a_resend_that_is_refused_whole_ends_at_once_with_counts(resends: ResendWorld) -> None:
    async def scenario() -> None:
        await resends.deliver(*range(1, 51))
        resend_id = await resends.ask()
        resends.receiver.failing, began = {"": 422}, resends.world.now
        found = await resends.until_over(resend_id)
        assert (found.status, found.refused, found.problem) == ("COMPLETED", 50, "answered 422: no")
        assert len(resends.receiver.requests) == 50
        assert resends.world.now - began < timedelta(minutes=1)
        await resends.check_nothing_else_changed()

    resends.world.play(scenario())


def test_a_receiver_that_refuses_all_but_one_event_which_it_breaks_on_ends_a_resend(resends: ResendWorld) -> None:
    async def scenario() -> None:
        first, *_ = await resends.deliver(*range(1, 11))
        resend_id = await resends.ask()
        resends.receiver.failing = {first: 500, "": 410}
        found = await resends.until_over(resend_id, timedelta(hours=1))
        assert (found.status, found.refused, found.failed) == ("COMPLETED", 9, 1)

    resends.world.play(scenario())
