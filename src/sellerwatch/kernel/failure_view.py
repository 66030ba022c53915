"""Failures and notes as JSON: the one shape that the API and the command line's `--json` share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sellerwatch.kernel.clock import stamp
from sellerwatch.kernel.failure import Failure
from sellerwatch.kernel.wording import failure_text, is_note_code, note_text


def failure_view(failure: Failure | None, language: str) -> dict[str, Any]:
    """Return `errorMessage`, the sentence in this language, and `failure`, the same for programs."""
    if failure is None:
        return {"errorMessage": None, "failure": None}
    value = {
        "code": failure.code,
        "blame": failure.blame,
        "facts": failure.facts_by_name,
        "at": stamp(failure.at),
    }
    return {"errorMessage": failure_text(failure, language), "failure": value}


def note_view(note: str | None, language: str) -> dict[str, Any]:
    """Return `note`, the sentence, and `noteCode`, which is null for a note from before notes had codes."""
    sentence = None if note is None else note_text(note, language)
    return {"note": sentence, "noteCode": note if is_note_code(note) else None}


def failure_counts_view(failures: Iterable[tuple[Failure, int]], language: str) -> list[dict[str, Any]]:
    """Return the grouped failures of a run, in the order given."""
    return [
        {
            "code": failure.code,
            "blame": failure.blame,
            "message": failure_text(failure, language),
            "count": number,
        }
        for failure, number in failures
    ]
