"""How far a resend is shown to be."""

from __future__ import annotations

import pytest
from tests.builders import a_resend

from sellerwatch.outbox.resend_queries import resend_fields


@pytest.mark.parametrize(("total", "accepted", "left", "rate"), [(3, 1, 2, 33.33), (3, 3, 0, 100.0), (0, 0, 0, 100.0)])
def test_progress_is_the_share_of_events_that_were_answered(total: int, accepted: int, left: int, rate: float) -> None:
    fields = resend_fields(a_resend(total=total, accepted=accepted))
    assert (fields["left"], fields["progress_rate"]) == (left, rate)
