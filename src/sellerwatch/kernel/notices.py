"""Notices: what people should hear of. The caller of a transaction sends them as alerts after the commit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Notice:
    """`kind` is for machines (`agent.blocked`), `text` one sentence for people."""

    kind: str
    subject: str
    text: str
