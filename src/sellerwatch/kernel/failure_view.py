"""Failures, causes of waiting and notes as views: the one shape that the API and `--json` share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from sellerwatch.kernel.failure import Blame, Fact, Failure, FailureCode
from sellerwatch.kernel.views import About, View, view_json
from sellerwatch.kernel.wording import failure_text, is_note_code, note_text


@dataclass(frozen=True)
class FailureView(View):
    """Why something failed or waits, for programs; `errorMessage` beside it is the sentence for people."""

    code: FailureCode
    blame: Annotated[Blame, About("Whose fault it is.")]
    facts: Annotated[Mapping[str, Fact], About("The facts in the sentence of the code.", {"status": 503})]
    at: datetime

    @classmethod
    def of(cls, failure: Failure | None) -> FailureView | None:
        """Return the view of a failure; None where there is none."""
        if failure is None:
            return None
        return cls(failure.code, failure.blame, failure.facts_by_name, failure.at)


@dataclass(frozen=True)
class WaitingView(View):
    """Why an open run makes no progress: the marketplace does not answer or is paused, too few agents are available, or
    its answers cannot be read."""

    code: FailureCode
    blame: Annotated[Blame, About("Whose fault it is.")]
    facts: Annotated[Mapping[str, Fact], About("The facts in the sentence of the code.", {"endpoint": "detail"})]
    message: Annotated[str, About("The cause as a sentence in the caller's language.")]

    @classmethod
    def of(cls, cause: Failure | None, language: str) -> WaitingView | None:
        """Return the view of a cause; None where nothing is waited for."""
        if cause is None:
            return None
        return cls(cause.code, cause.blame, cause.facts_by_name, failure_text(cause, language))


@dataclass(frozen=True)
class FailureCountView(View):
    """A failure, and the number of tasks that ended with it."""

    code: FailureCode
    blame: Blame
    message: str
    count: int


def error_message(failure: Failure | None, language: str) -> str | None:
    """Return the sentence for a failure; None where there is none."""
    return None if failure is None else failure_text(failure, language)


def failure_view(failure: Failure | None, language: str) -> dict[str, Any]:
    """Return `errorMessage`, the sentence in this language, and `failure`, the same for programs."""
    return {"errorMessage": error_message(failure, language), "failure": view_json(FailureView.of(failure))}


def note_view(note: str | None, language: str) -> dict[str, Any]:
    """Return `note`, the sentence, and `noteCode`, which is null for a note from before notes had codes."""
    sentence = None if note is None else note_text(note, language)
    return {"note": sentence, "noteCode": note if is_note_code(note) else None}
