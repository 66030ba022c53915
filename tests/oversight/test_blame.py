"""Whom a failure is charged to."""

from __future__ import annotations

import pytest

from sellerwatch.marketplaces.ports import Unparsable
from sellerwatch.oversight.blame import Blame, blame_of


@pytest.mark.parametrize(
    ("sentence", "blame"),
    [
        ("The marketplace answered 503.", Blame.MARKETPLACE),
        ("The marketplace answered 429: too many requests.", Blame.AGENT),
        ("The marketplace answered 403.", Blame.AGENT),
        ("The marketplace answered 404: there is no such product.", Blame.PRODUCT),
        ("6 requests in this run, the last: The marketplace answered 429: too many requests.", Blame.AGENT),
        ("The request failed: timeout (5 s).", Blame.MARKETPLACE),
        ("The marketplace sent us elsewhere; only its own host is followed.", Blame.MARKETPLACE),
        ("the total could not be asked: no answer", Blame.MARKETPLACE),
        ("cancelled: the seller was deactivated", Blame.PERSON),
        ("poison: its worker vanished 3 times in a row", Blame.OURSELVES),
        ("ran past its deadline", Blame.OURSELVES),
        ("", Blame.OURSELVES),
        (None, Blame.OURSELVES),
    ],
)
def test_a_failure_is_charged_by_the_sentence_that_was_kept_of_it(sentence: str | None, blame: Blame) -> None:
    assert blame_of(sentence) is blame


def test_what_cannot_be_read_is_our_parsers() -> None:
    assert blame_of(str(Unparsable(endpoint="detail", problem="items is missing"))) is Blame.PARSER
