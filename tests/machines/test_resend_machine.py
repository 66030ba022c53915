"""A resend under random verbs: its counts are the answers that it was given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.builders import NOW, a_resend, a_resent_event
from tests.machines import spec
from tests.machines.moves import QUICK, attempt

from sellerwatch.outbox.resend import Resend, ResendAnswer, ResendStatus

WAIT = timedelta(seconds=30)


class ResendMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.resend = a_resend(total=5000)
        self.now = NOW
        self.answers = Counter[ResendAnswer]()

    def any_verb(self, verb: str, act: Callable[[Resend], Resend]) -> bool:
        before = self.resend
        after = attempt("resend", before, before.status, verb, act)
        if after is not None:
            assert after.status == spec.RESEND[before.status, verb]
            self.resend = after
        return after is not None

    @rule(
        answers=st.lists(st.sampled_from(ResendAnswer), min_size=1, max_size=5),
        seconds=st.integers(0, 60),
        is_down=st.booleans(),
    )
    def a_round_is_answered(self, answers: list[ResendAnswer], seconds: int, is_down: bool) -> None:
        self.now += timedelta(seconds=seconds)
        events = [a_resent_event(n, answer=answer, tried_at=self.now) for n, answer in enumerate(answers, 1)]
        before, row = self.resend, self.resend.after_row + len(answers)
        wait_until = self.now + WAIT if is_down else None
        if self.any_verb("record", lambda resend: resend.record(events, row, NOW, wait_until, "answered 500")):
            self.answers.update(answers)
            assert self.resend.failures == (before.failures + 1 if is_down else 0)
            assert (self.resend.after_row, self.resend.not_before) == (row, wait_until)

    @rule()
    def every_event_is_answered(self) -> None:
        now = self.now
        if self.any_verb("complete", lambda resend: resend.complete(now)):
            assert (self.resend.ended_at, self.resend.ended_by) == (now, None)

    @rule()
    def the_receiver_accepts_nothing_for_too_long(self) -> None:
        now = self.now
        if self.any_verb("give_up", lambda resend: resend.give_up(now)):
            assert (self.resend.ended_at, self.resend.ended_by, self.resend.not_before) == (now, None, None)

    @rule()
    def an_operator_cancels_it(self) -> None:
        now = self.now
        if self.any_verb("cancel", lambda resend: resend.cancel("kim", now)):
            assert (self.resend.ended_at, self.resend.ended_by) == (now, "kim")

    @invariant()
    def its_counts_are_its_answers(self) -> None:
        counted = (self.resend.accepted, self.resend.refused, self.resend.failed)
        final = (ResendAnswer.ACCEPTED, ResendAnswer.REFUSED, ResendAnswer.FAILED)
        assert counted == tuple(self.answers[answer] for answer in final)
        assert self.resend.answered == sum(counted)

    @invariant()
    def it_has_ended_if_and_only_if_it_says_when(self) -> None:
        assert (self.resend.ended_at is None) == (self.resend.status is ResendStatus.RUNNING) == self.resend.is_running


TestResend = ResendMachine.TestCase
TestResend.settings = QUICK
