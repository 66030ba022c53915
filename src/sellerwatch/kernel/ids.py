"""Ids: each kind its own type, so that a task's id cannot be handed in where a product's is meant.

A public id is a time-ordered UUID (version 7) kept as its canonical text, so that it goes through JSON, logs, SQL and
the wire without conversion. The types are for the type checker: at run time an id is plain text, and an item's a plain
number, because drivers copy a subclass of `str` and dictionaries hash and compare it the slow way.

Ids are made outside transactions and passed in: a transaction may run twice and must then write the same ids.
"""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Self

from sellerwatch.kernel.errors import Invalid

if TYPE_CHECKING:
    from sellerwatch.kernel.clock import Clock


#: Letters and digits of any script, and what needs no escaping anywhere.
_PLAIN_ID = re.compile(r"[\w.-]{1,100}")


@dataclass(eq=False)
class InvalidId(Invalid):
    """A text that is no UUID, or not in its canonical form."""

    kind: str
    given: str


@dataclass(eq=False)
class InvalidSellerId(Invalid):
    """A seller id that is blank or too long, or has characters that no new one may have."""

    given: str
    longest: int


@dataclass(eq=False)
class InvalidItemNo(Invalid):
    """A product number that is not a positive whole number."""

    given: str


#: The bits of the last 12 digits. Ids that are made together differ only in these.
_LAST_GROUP = (1 << 48) - 1


class Ids:
    """Makes UUIDv7s from the clock and the given rng: the same seed on the same (virtual) times gives the same ids.

    Within one process ids rise strictly, even for equal milliseconds, which keeps index inserts at the right edge.
    """

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng
        self._last = 0
        self._one_at_a_time = Lock()

    def new(self) -> str:
        return self.some(1)[0]

    def some(self, number: int) -> list[str]:
        """Return ids that differ by one: 48 bits of milliseconds and 74 of rng, together above the last ones."""
        with self._one_at_a_time:
            # Counted in the 122 free bits, so that a carry never runs into those that say version and variant.
            first = int(self._clock.now().timestamp() * 1000) << 74 | self._rng.getrandbits(74)
            first = max(first, self._last + 1)
            if first & _LAST_GROUP > _LAST_GROUP - number:
                first = (first | _LAST_GROUP) + 1
            self._last = first + number - 1
        value = first >> 74 << 80 | 0x7 << 76 | (first >> 62 & 0xFFF) << 64 | 0b10 << 62 | first & (1 << 62) - 1
        text, last = str(uuid.UUID(int=value)), first & _LAST_GROUP
        return [f"{text[:24]}{last + at:012x}" for at in range(number)]


#: A transaction takes none or hundreds; reading the clock for each would cost as much as the id.
DRAWN_AT_ONCE = 16


class ReplayableIds:
    """Ids for one transaction, as many as it takes. However often it runs, `replay` gives it the same ones."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self._drawn: list[str] = []

    def replay(self) -> Iterator[str]:
        for number in count():
            if number == len(self._drawn):
                self._drawn += self._ids.some(DRAWN_AT_ONCE)
            yield self._drawn[number]


class PlainText(str):
    """Text of a kind of its own to the type checker. Calling the class trusts the text and gives it back."""

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        return text  # type: ignore[return-value]


class PublicId(PlainText):
    """A UUID in canonical text form. Calling the class trusts the text (rows of ours); `parse` checks what is typed."""

    __slots__ = ()

    @classmethod
    def generate(cls, ids: Ids) -> Self:
        return cls(ids.new())

    @classmethod
    def parse(cls, text: str) -> Self:
        try:
            canonical = str(uuid.UUID(text))
        except ValueError:
            canonical = ""
        if canonical != text.lower() or not canonical:
            raise InvalidId(kind=cls.__name__, given=text[:100])
        return cls(canonical)


class TaskId(PublicId):
    __slots__ = ()


class UserAgentId(PublicId):
    __slots__ = ()


class ProductId(PublicId):
    __slots__ = ()


class OutboxId(PublicId):
    __slots__ = ()


class ScheduleId(PublicId):
    __slots__ = ()


class ExecutionId(PublicId):
    __slots__ = ()


class CaseId(PublicId):
    __slots__ = ()


class RemovalId(PublicId):
    __slots__ = ()


class ResyncId(PublicId):
    __slots__ = ()


class LoginSessionId(PublicId):
    __slots__ = ()


class ApiTokenId(PublicId):
    __slots__ = ()


class ResendId(PublicId):
    __slots__ = ()


class WorkerId(PublicId):
    """One process at work; its heartbeat is the lease of everything it holds."""

    __slots__ = ()


class SellerId(PlainText):
    """The marketplace's own id of a seller, e.g. `seller_12345`.

    A new one has letters and digits of any script, `.`, `_` and `-`. One that was registered before this rule may be
    any text of at most 100 characters, and stays reachable.
    """

    __slots__ = ()
    LONGEST = 100

    @classmethod
    def parse(cls, text: str) -> Self:
        trimmed = text.strip()
        if not trimmed or len(trimmed) > cls.LONGEST or not trimmed.isprintable():
            raise InvalidSellerId(given=text[:200], longest=cls.LONGEST)
        return cls(trimmed)

    @classmethod
    def parse_new(cls, text: str) -> Self:
        """Return the id of a seller to register. One that would need escaping anywhere is refused."""
        trimmed = text.strip()
        if not _PLAIN_ID.fullmatch(trimmed) or not any(character.isalnum() for character in trimmed):
            raise InvalidSellerId(given=text[:200], longest=cls.LONGEST)
        return cls(trimmed)


class ItemNo(int):
    """The marketplace's product number; needs 64 bits."""

    __slots__ = ()
    LARGEST = 2**63 - 1

    def __new__(cls, number: int) -> Self:
        return number  # type: ignore[return-value]

    @classmethod
    def parse(cls, value: object) -> Self:
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= cls.LARGEST:
            endless = isinstance(value, int) and value.bit_length() > 100
            raise InvalidItemNo(given="a number beyond 64 bits" if endless else str(value)[:50])
        return cls(value)

    @classmethod
    def parse_text(cls, text: str) -> Self:
        """Return the number that was typed."""
        if not (text.isascii() and text.isdigit() and len(text) <= 30):
            raise InvalidItemNo(given=text[:50])
        return cls.parse(int(text))
