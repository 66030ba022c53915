"""How far a resend is shown to be."""

from __future__ import annotations

import pytest
from tests.builders import a_resend, a_resent_event

from sellerwatch.outbox.resend import ResendAnswer
from sellerwatch.outbox.resend_queries import resend_fields


@pytest.mark.parametrize(("total", "accepted", "left", "rate"), [(3, 1, 2, 33.33), (3, 3, 0, 100.0), (0, 0, 0, 100.0)])
def test_progress_is_the_share_of_events_that_were_answered(total: int, accepted: int, left: int, rate: float) -> None:
    fields = resend_fields(a_resend(total=total, accepted=accepted))
    assert (fields["left"], fields["progress_rate"]) == (left, rate)


@pytest.mark.parametrize("answer", ResendAnswer)
def test_an_event_is_over_unless_it_is_tried_again(answer: ResendAnswer) -> None:
    assert a_resent_event(answer=answer).is_over is (answer.value != "RETRYING")
