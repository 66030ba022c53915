"""What a person should hear of, as the features say it: told after the transaction, by whoever ran it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Notice:
    """`kind` is for machines (`agent.blocked`), `text` one sentence for people."""

    kind: str
    subject: str
    text: str
