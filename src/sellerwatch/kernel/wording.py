"""Sentences for refusals, failures and notes, made where they are shown from a code and its facts.

The texts are in `alerts.toml`, `errors.toml`, `failures.toml`, `notes.toml`, `problems.toml` and `unreadable.toml` of
`texts/`. A code without a text is a defect that a test finds; at run time the code itself is shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sellerwatch.kernel.failure import Failure
from sellerwatch.texts import family, fill, template


class Worded:
    """A fact of an error that is itself said in the reader's language."""

    def text(self, language: str = "en") -> str:
        raise NotImplementedError

    def __str__(self) -> str:
        return self.text()


@dataclass(frozen=True)
class Problem(Worded):
    """What is wrong with one field, parameter or setting: a key of `problems.toml` and its facts."""

    key: str
    facts: Mapping[str, object] = field(default_factory=dict)

    __str__ = Worded.__str__

    @classmethod
    def of(cls, **facts: object) -> Problem:
        """Return the problem that Pydantic found, from its `type`, `msg` and `ctx`; a kind without a text of ours keeps
        Pydantic's."""
        kind, context = str(facts["type"]), facts.get("ctx", {})
        if isinstance(context, Mapping) and kind in family("problems"):
            return cls(kind, context)
        return cls("other", {"message": str(facts["msg"]).removeprefix("Value error, ")})

    def text(self, language: str = "en") -> str:
        text = template("problems", self.key, language) or self.key
        return fill(text, {name: _in(language, value) for name, value in self.facts.items()}, separators=False)


LIST_WORDS = {"en": (" or ", "nothing"), "ko": (" 또는 ", "없음")}


def failure_text(failure: Failure, language: str = "en") -> str:
    """Return the sentence for a failure, with that of its cause in it."""
    facts: dict[str, object] = {**failure.facts_by_name}
    if "problem" in facts:
        facts["problem"] = problem_text(failure.facts_by_name, language)
    sentence = ""
    for code in reversed((failure.code, *failure.causes)):
        facts["cause"] = sentence
        text = template("failures", code, language) or ""
        sentence = fill(text, without_full_stops(text, facts), separators=False, missing="?").rstrip()
    return sentence


def problem_text(facts: Mapping[str, Any], language: str = "en") -> str:
    """Return what is wrong with an answer, behind its place: the code `problem`, with its facts beside it."""
    kinds = {
        name: template("unreadable", f"kind-{facts[name]}", language) for name in facts.keys() & {"found", "wanted"}
    }
    text = template("unreadable", str(facts["problem"]), language) or str(facts["problem"])
    said = text.format_map(defaultdict(lambda: "?", {**facts, **kinds}))
    return f"{facts['where']}: {said}" if facts.get("where") else said


def without_full_stops(text: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts without the full stop at their end where the text goes on behind them with one of its own."""
    return {
        name: value.rstrip(".")
        if isinstance(value, str) and any(f"{{{name}}}{end}" in text for end in ".,:;)")
        else value
        for name, value in facts.items()
    }


def note_text(note: str, language: str = "en") -> str:
    """Return the sentence for a note; one recorded before notes had codes is a sentence itself."""
    return template("notes", note, language) or note


def is_note_code(note: str | None) -> bool:
    """Whether a note is a code, not a sentence from before notes had codes."""
    return note in family("notes")


def error_text(code: str, facts: Mapping[str, object], language: str = "en") -> str:
    """Return the sentence for an error code and its facts."""
    text = template("errors", code, language)
    if text is None:
        shown = ", ".join(f"{name}={value}" for name, value in facts.items())
        return f"{code.capitalize().replace('_', ' ')}{f' ({shown})' if shown else ''}."
    last, nothing = LIST_WORDS.get(language, LIST_WORDS["en"])
    worded = {name: _shown(name, _in(language, value), last, nothing) for name, value in facts.items()}
    return fill(text, without_full_stops(text, worded), separators=False)


def notice_text(key: str, facts: Mapping[str, object], language: str = "en") -> str:
    """Return the sentence of an alert: a key of `alerts.toml` and its facts."""
    text = template("alerts", key, language) or key
    worded = {name: _in(language, value) for name, value in facts.items()}
    return fill(text, without_full_stops(text, worded)).rstrip()


def _in(language: str, value: object) -> object:
    if isinstance(value, Failure):
        return failure_text(value, language)
    return value.text(language) if isinstance(value, Worded) else value


def _shown(name: str, value: object, last: str, nothing: str) -> object:
    """Lists as people say them (`a, b or c`), verbs without the underscore of their method."""
    if name == "verb":
        return str(value).replace("_", " ")
    if isinstance(value, tuple | list):
        texts = [str(v) for v in value]
        return last.join(filter(None, [", ".join(texts[:-1]), *texts[-1:]])) or nothing
    return value
