"""Every refusal and failure of the program, as one tree.

SellerwatchError                  code + facts; the sentence comes from the wording catalogue
├── Invalid                       the input itself is wrong; nothing was changed            400, exit 2
├── NotFound                      what was named does not exist                             404, exit 1
├── Unauthenticated               the caller is not known                                   401
├── Forbidden                     the caller is not allowed                                 403
├── TooLarge                      more than is taken                                        413
├── TooManyRequests               too often; carries when to come back                      429
├── Conflict                      a rule forbids it in the present state                    409, exit 1
│   └── IllegalMove               a lifecycle has no such move from that state
├── Unavailable                   not now; carries when to come back if that is known       503, exit 1
└── Failed                        someone we depend on, or we ourselves, failed             502, exit 1
    └── StoreFailed               the store cannot work now; nothing was done (`store.py`)

A feature derives its errors from these kinds, beside the rule they guard: the kind says how the edges (REST, command
line) answer, the class name is the code, the dataclass fields are the facts. No error carries a sentence of its own, so
that wording and language are one catalogue (`wording.py`) and a test can see that none is missing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from sellerwatch.kernel.wording import Worded, error_text

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class SellerwatchError(Exception):
    """The root of all errors that are raised on purpose. Any other error is a bug."""

    code: ClassVar[str] = "ERROR"

    def __init_subclass__(cls) -> None:
        cls.code = _WORD_START.sub("_", cls.__name__).upper()

    @property
    def facts(self) -> dict[str, object]:
        """What the sentence is made of; safe to show: a secret is never a fact."""
        return {name: getattr(self, name) for name in getattr(self, "__dataclass_fields__", ())}

    def __str__(self) -> str:
        return error_text(self.code, self.facts)

    def __reduce__(self) -> tuple[object, ...]:
        """Made again from its fields: an exception's own way knows positional arguments only."""
        given = {name: getattr(self, name) for name in getattr(self, "__dataclass_fields__", ())}
        return _made_again, (type(self), given)


class ErrorSentence(Worded):
    """The sentence of an error inside another one, without its full stop."""

    def __init__(self, error: SellerwatchError) -> None:
        self.error = error

    def text(self, language: str = "en") -> str:
        return error_text(self.error.code, self.error.facts, language).removesuffix(".")


def _made_again(kind: type[SellerwatchError], given: dict[str, object]) -> SellerwatchError:
    return kind(**given)


class Invalid(SellerwatchError):
    """The input is wrong, whatever the state is."""


class NotFound(SellerwatchError):
    """The thing named does not exist."""


class Unauthenticated(SellerwatchError):
    """No credential, or none that is valid."""


class Forbidden(SellerwatchError):
    """Known, and not allowed to."""


class TooLarge(SellerwatchError):
    """More than is taken."""


class TooManyRequests(SellerwatchError):
    """Asked too often. `retry_after` (seconds) says when to come back."""

    retry_after: float | None = None


class Conflict(SellerwatchError):
    """The input is fine; the present state forbids it."""


class Unavailable(SellerwatchError):
    """Refused for now. `retry_after` is in seconds, where that is known."""

    retry_after: float | None = None


class Failed(SellerwatchError):
    """Something outside, or we ourselves, broke while doing it."""


@dataclass(eq=False)
class IllegalMove(Conflict):
    """A verb that its lifecycle does not have in that state; says the states it needs."""

    noun: str
    name: str
    verb: str
    state: str
    needs: tuple[str, ...]


def error_classes(root: type[SellerwatchError] = SellerwatchError) -> list[type[SellerwatchError]]:
    """All error classes imported so far, in the order of the tree; for the docs and the tests that check them."""
    found: list[type[SellerwatchError]] = []
    for child in root.__subclasses__():
        found += [child, *error_classes(child)]
    return found
