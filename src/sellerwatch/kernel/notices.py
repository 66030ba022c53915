"""Notices: what operators are alerted to. The caller of a transaction sends them as alerts after the commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sellerwatch.kernel.wording import notice_text


@dataclass(frozen=True, slots=True)
class Notice:
    """`kind` is for machines (`agent.blocked`). Its sentence is made from the facts where the alert is sent; kinds with
    several sentences have a `variant`."""

    kind: str
    subject: str
    facts: Mapping[str, object] = field(default_factory=dict)
    variant: str = ""

    def text(self, language: str = "en") -> str:
        return notice_text(f"{self.kind}.{self.variant}" if self.variant else self.kind, self.facts, language)
