"""A resync under random verbs, with a receiver that accepts at any rate."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.builders import NOW, a_resync
from tests.machines import spec
from tests.machines.moves import QUICK, attempt

from sellerwatch.catalog.resync import FEWEST_WAITING, MOST_WAITING, SECONDS_AHEAD, Resync, ResyncStatus


class ResyncMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.resync = a_resync(total=5000)
        self.now = NOW
        self.waiting = 0

    def any_verb(self, verb: str, act: Callable[[Resync], Resync]) -> bool:
        before = self.resync
        after = attempt("resync", before, before.status, verb, act)
        if after is not None:
            assert after.status == spec.RESYNC[before.status, verb]
            self.resync = after
        return after is not None

    @rule(seconds=st.integers(0, 60), accepted=st.integers(0, 2000))
    def the_receiver_accepts(self, seconds: int, accepted: int) -> None:
        self.now += timedelta(seconds=seconds)
        self.waiting = max(self.waiting - accepted, 0)

    @rule()
    def a_step_is_written(self) -> None:
        room = self.resync.room(self.waiting, self.now)
        assert 0 <= room <= MOST_WAITING - min(self.waiting, MOST_WAITING)
        assert self.waiting + room >= FEWEST_WAITING
        seconds = (self.now - self.resync.measured_at).total_seconds()
        if seconds >= 1:
            accepted = max(self.resync.backlog - self.waiting, 0)
            assert room <= max(FEWEST_WAITING, SECONDS_AHEAD * accepted / seconds)
        row, written, now, backlog = self.resync.after_row + room, self.resync.written, self.now, self.waiting + room
        if self.any_verb("advance", lambda resync: resync.advance(row, room, backlog, now)):
            self.waiting += room
            assert (self.resync.after_row, self.resync.written) == (row, written + room)

    @rule()
    def every_product_is_written(self) -> None:
        now = self.now
        if self.any_verb("complete", lambda resync: resync.complete(now)):
            assert (self.resync.ended_at, self.resync.ended_by) == (now, None)

    @rule()
    def an_operator_cancels_it(self) -> None:
        now = self.now
        if self.any_verb("cancel", lambda resync: resync.cancel("kim", now)):
            assert (self.resync.ended_at, self.resync.ended_by) == (now, "kim")

    @invariant()
    def it_has_ended_if_and_only_if_it_says_when(self) -> None:
        assert (self.resync.ended_at is None) == (self.resync.status is ResyncStatus.RUNNING) == self.resync.is_running


TestResync = ResyncMachine.TestCase
TestResync.settings = QUICK
