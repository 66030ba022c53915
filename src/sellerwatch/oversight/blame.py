"""Whom a failure is charged to, read from the sentence that was kept of it.

A task keeps one sentence and no code, so this goes by how our own sentences begin. One that is not known is ours: a
failure nobody can explain is a defect of the program.
"""

from __future__ import annotations

import re
from enum import StrEnum


class Blame(StrEnum):
    AGENT = "AGENT"
    MARKETPLACE = "MARKETPLACE"
    PRODUCT = "PRODUCT"
    PARSER = "PARSER"
    RECEIVER = "RECEIVER"
    PERSON = "PERSON"
    OURSELVES = "OURSELVES"


_LAST = re.compile(r"^\d+ requests in this run, the last: ")
_ANSWERED = re.compile(r"^The marketplace answered (\d+)")
#: Statuses that say something of the identity that asked, or of the thing asked for.
_OF_STATUS = {401: Blame.AGENT, 403: Blame.AGENT, 429: Blame.AGENT, 404: Blame.PRODUCT, 410: Blame.PRODUCT}
_BEGINNINGS = (
    ("The request failed", Blame.MARKETPLACE),
    ("The marketplace", Blame.MARKETPLACE),
    ("the total could not be asked", Blame.MARKETPLACE),
    ("cancelled", Blame.PERSON),
)


def blame_of(sentence: str | None) -> Blame:
    """Of a task's or a run's failure; an event's is the receiver's."""
    said = _LAST.sub("", sentence or "")
    if answered := _ANSWERED.match(said):
        return _OF_STATUS.get(int(answered[1]), Blame.MARKETPLACE)
    if "answer cannot be read" in said:
        return Blame.PARSER
    return next((blame for beginning, blame in _BEGINNINGS if said.startswith(beginning)), Blame.OURSELVES)
