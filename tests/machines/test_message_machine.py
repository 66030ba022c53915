"""An outbox message under random verbs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.builders import MINUTE, NOW, a_message, worker_id
from tests.machines import spec
from tests.machines.moves import QUICK, attempt

from sellerwatch.outbox.message import MAX_ATTEMPTS, Message, MessageStatus, TriesSpent

VERBS = sorted({verb for _, verb in spec.MESSAGE})
COUNTED = {"fail", "refuse", "lose_lease"}


class MessageMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.message = a_message()
        self.now = NOW
        self.was_on_the_wire = False
        self.most = MAX_ATTEMPTS

    @initialize(most=st.sampled_from([1, 3, MAX_ATTEMPTS]))
    def the_setting_is(self, most: int) -> None:
        self.most = most

    def act(self, verb: str) -> Callable[[Message], Message]:
        acts: dict[str, Callable[[Message], Message]] = {
            "send": lambda m: m.send(worker_id()),
            "complete": lambda m: m.complete(self.now),
            "fail": lambda m: m.fail("503", self.now, MINUTE, self.most),
            "refuse": lambda m: m.refuse("x" * 5000),
            "lose_lease": lambda m: m.lose_lease(self.now, MINUTE, self.most),
            "put_back": lambda m: m.put_back(self.now + MINUTE),
            "retry": lambda m: m.retry(),
            "replay": lambda m: m.replay(self.now),
            "discard": lambda m: m.discard(),
            "supersede": lambda m: m.supersede(),
        }
        return acts[verb]

    @rule(seconds=st.integers(0, 300))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule()
    def a_try_fails_and_the_next_is_waited_for(self) -> None:
        """Random verbs alone seldom spend all tries."""
        if self.message.status is MessageStatus.WAITING:
            self.was_on_the_wire = True
            failed = self.message.send(worker_id()).fail("503", self.now, MINUTE, self.most)
            self.message = failed.retry() if failed.can_retry() else failed
            assert failed.can_retry() == (failed.retry_count < self.most)

    @rule(verb=st.sampled_from(["complete", "put_back", "refuse", "lose_lease"]))
    def a_try_ends(self, verb: str) -> None:
        """Random verbs alone seldom send and end."""
        self.any_verb("send")
        self.any_verb(verb)

    @rule(verb=st.sampled_from(VERBS))
    def any_verb(self, verb: str) -> None:
        before = self.message
        last = before.retry_count + 1 >= self.most
        if verb == "lose_lease" and last:
            return  # it then fails for good: `its_sender_vanishes_at_the_last_try`
        try:
            after = attempt("message", before, before.status, verb, self.act(verb))
        except TriesSpent:
            assert (verb, before.status) == ("retry", MessageStatus.FAILED)
            assert not before.can_retry()
            return
        if after is None:
            return
        assert after.status == spec.MESSAGE[before.status, verb]
        counted = before.retry_count + 1 if verb in COUNTED else before.retry_count
        assert after.retry_count == (0 if verb == "replay" else counted)
        self.was_on_the_wire |= verb == "send"
        self.message = after

    @rule()
    def its_sender_vanishes_at_the_last_try(self) -> None:
        if self.message.status is MessageStatus.SENDING and self.message.retry_count + 1 == self.most:
            self.message = self.message.lose_lease(self.now, MINUTE, self.most)
            assert self.message.status is MessageStatus.FAILED
            assert not self.message.can_retry()

    @invariant()
    def tries_stay_within_their_limit(self) -> None:
        assert 0 <= self.message.retry_count <= self.most

    @invariant()
    def one_key_one_body(self) -> None:
        assert (self.message.outbox_id, self.message.payload) == (a_message().outbox_id, a_message().payload)
        assert self.message.attempted == self.was_on_the_wire

    @invariant()
    def it_was_sent_if_and_only_if_it_says_when(self) -> None:
        assert (self.message.sent_at is not None) == (self.message.status is MessageStatus.COMPLETED)

    @invariant()
    def only_a_message_being_sent_has_a_sender(self) -> None:
        assert (self.message.worker_id is not None) == (self.message.status is MessageStatus.SENDING)

    @invariant()
    def a_waiting_message_comes_up_some_day_and_an_ended_one_never(self) -> None:
        someday = self.now + 10 * MINUTE
        assert self.message.is_due(someday) == (self.message.status is MessageStatus.WAITING)


TestMessage = MessageMachine.TestCase
TestMessage.settings = QUICK
