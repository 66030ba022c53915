"""The name by which people refer to an agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from sellerwatch.kernel.errors import Invalid
from sellerwatch.kernel.ids import InvalidId, PublicId

#: Digits that a row's number can have.
LONGEST_NUMBER = 18


@dataclass(eq=False)
class InvalidAgentName(Invalid):
    """Neither a number nor a UUID."""

    given: str


class AgentName(PublicId):
    """The UUID of an agent, or its number in the list."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        number = text.removeprefix("#")
        if number.isascii() and number.isdecimal() and len(number) <= LONGEST_NUMBER:
            return cls(number)
        try:
            return super().parse(text)
        except InvalidId:
            raise InvalidAgentName(given=text[:100]) from None
