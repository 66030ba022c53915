"""How often a seller is crawled."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Self

from sellerwatch.kernel.errors import Invalid

_TEXT = re.compile(r"([0-9]{1,9}) ?(d|day|days|h|hour|hours)", re.IGNORECASE)


class IntervalUnit(StrEnum):
    """The unit on the wire; read without regard to case."""

    DAYS = "DAYS"
    HOURS = "HOURS"


_MOST = {IntervalUnit.DAYS: 30, IntervalUnit.HOURS: 23}
_LENGTH = {IntervalUnit.DAYS: timedelta(days=1), IntervalUnit.HOURS: timedelta(hours=1)}


@dataclass(eq=False)
class InvalidInterval(Invalid):
    """An amount outside the range of its unit."""

    amount: object
    unit: str
    most: int


@dataclass(eq=False)
class UnknownUnit(Invalid):
    """A unit that is neither days nor hours."""

    given: str


@dataclass(eq=False)
class UnreadableInterval(Invalid):
    """Neither days nor hours."""

    given: str


@dataclass(frozen=True)
class CrawlingInterval:
    """1 to 30 days, or 1 to 23 hours: a longer one in hours has a day in it and is said in days."""

    amount: int
    unit: IntervalUnit

    def __post_init__(self) -> None:
        most = _MOST[self.unit]
        if type(self.amount) is not int or not 1 <= self.amount <= most:
            raise InvalidInterval(amount=self.amount, unit=self.unit.lower(), most=most)

    @classmethod
    def of_days(cls, amount: int) -> Self:
        return cls(amount, IntervalUnit.DAYS)

    @classmethod
    def of_hours(cls, amount: int) -> Self:
        return cls(amount, IntervalUnit.HOURS)

    @classmethod
    def parse(cls, amount: int, unit: str) -> Self:
        try:
            return cls(amount, IntervalUnit(unit.upper()))
        except ValueError:
            raise UnknownUnit(given=unit[:50]) from None

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Return the interval of `1d`, `6h` or `2 days`."""
        matched = _TEXT.fullmatch(text.strip())
        if matched is None:
            raise UnreadableInterval(given=text[:50])
        amount, unit = int(matched[1]), matched[2].lower()
        return cls.of_days(amount) if unit.startswith("d") else cls.of_hours(amount)

    @property
    def days(self) -> int | None:
        """The paper's `crawlingIntervalDays`; an hourly seller has none."""
        return self.amount if self.unit is IntervalUnit.DAYS else None

    @property
    def length(self) -> timedelta:
        return self.amount * _LENGTH[self.unit]

    @property
    def expression(self) -> str:
        """As EventBridge wants it: `rate(1 days)` is refused there, so the unit follows the amount."""
        word = self.unit.lower()
        return f"rate({self.amount} {word[:-1] if self.amount == 1 else word})"

    def __str__(self) -> str:
        word = self.unit.lower()
        return f"every {word[:-1]}" if self.amount == 1 else f"every {self.amount} {word}"
