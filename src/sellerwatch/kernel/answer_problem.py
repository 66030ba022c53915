"""What is wrong with an answer that cannot be read, as a value; its sentence is made where it is shown.

The texts are in `texts/unreadable.toml`. A problem is also a fact of a failure, the name of a note and the field of a
quarantine case: those keep it as `stored`, which is the same in every language.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self
from urllib.parse import quote, unquote

from sellerwatch.kernel.failure import Fact
from sellerwatch.kernel.wording import Worded, problem_text
from sellerwatch.texts import family

_NUMBER = re.compile(r"\d+")
#: Longest place that is kept, so that a problem fits into a note together with the id of a task.
LONGEST_PLACE = 100
_LEGIBLE = "[]#"


@dataclass(frozen=True)
class AnswerProblem(Worded):
    """A code of `unreadable.toml`, the place in the answer, and the facts of the sentence."""

    code: str
    where: str = ""
    facts: tuple[tuple[str, Fact], ...] = ()

    __str__ = Worded.__str__

    @property
    def failure_facts(self) -> dict[str, Fact]:
        """Return it as facts of a failure, whose sentence has `{problem}`."""
        place: dict[str, Fact] = {"where": self.where} if self.where else {}
        return {"problem": self.code, **place, **dict(self.facts)}

    @property
    def general(self) -> AnswerProblem:
        """Return the same for every item and number."""
        facts = tuple((name, _NUMBER.sub("#", str(value))) for name, value in self.facts)
        return AnswerProblem(self.code, _NUMBER.sub("#", self.where), facts)

    @property
    def stored(self) -> str:
        facts = {name: value for name, value in self.failure_facts.items() if name != "problem"}
        facts |= {"where": self.where[:LONGEST_PLACE]} if self.where else {}
        return " ".join((self.code, *(f"{name}={quote(str(value), _LEGIBLE)}" for name, value in facts.items())))

    @classmethod
    def read(cls, stored: str) -> Self | None:
        """Return a stored problem; None for a sentence from before problems had codes."""
        code, *pairs = stored.split(" ")
        if code not in family("unreadable"):
            return None
        facts = {name: unquote(value) for name, _, value in (pair.partition("=") for pair in pairs)}
        return cls(code, facts.pop("where", ""), tuple(facts.items()))

    def text(self, language: str = "en") -> str:
        return problem_text(self.failure_facts, language)


def stored_problem_text(stored: str, language: str) -> str:
    """Return the sentence for a stored problem; one from before problems had codes is a sentence itself."""
    problem = AnswerProblem.read(stored)
    return stored if problem is None else problem.text(language)
