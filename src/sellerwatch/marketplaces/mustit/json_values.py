"""Read single values from decoded JSON and check each: it has the contract's type, or the answer is refused.

Nothing is coerced. `"3"` is no number and `true` is no 1: a shop that changes its types has changed their meaning, and
guessing would send wrong products on. A good value costs one look-up and one comparison; the path of a value is put
together only when it is wrong. `place` is the path of the object that contains the value.
"""

from __future__ import annotations

from typing import Any

import orjson

from sellerwatch.kernel.answer_problem import AnswerProblem
from sellerwatch.kernel.failure import Fact

Json = dict[str, Any]

LARGEST = 2**63 - 1
SMALLEST = -(2**63)
_SHOWN = 20
_ABSENT: Any = object()
#: The kinds of values, as `texts/unreadable.toml` names them.
_KINDS: dict[type, str] = {
    str: "string",
    bool: "boolean",
    int: "number",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}


class InvalidValue(Exception):
    """A value that the contract does not allow: where, and a code of `texts/unreadable.toml` with its facts. Each level
    puts its own path before `where`."""

    def __init__(self, where: str, code: str, **facts: Fact) -> None:
        super().__init__(where, code, facts)
        self.where = where
        self.code = code
        self.facts = facts

    def under(self, place: str) -> InvalidValue:
        """Return the same problem, seen from one level further out: `itemNo` becomes `items[3].itemNo`."""
        return type(self)(_joined(place, self.where), self.code, **self.facts)

    @property
    def problem(self) -> AnswerProblem:
        return AnswerProblem(self.code, self.where, tuple(self.facts.items()))

    def __str__(self) -> str:
        return self.problem.text()


class UnrelatedAnswer(InvalidValue):
    """Not an answer to the request: no JSON, or about another item. It may be gone at the next try."""


def decode(body: bytes) -> Any:
    """Return the decoded JSON. A refusal quotes the first characters, by which an HTML page can be recognised."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        begin = body[: 4 * _SHOWN].lstrip()
        if not begin:
            raise UnrelatedAnswer("", "EMPTY") from None
        if begin[:1] in b"{[":
            raise UnrelatedAnswer("", "BROKEN_JSON", position=error.pos) from None
        raise UnrelatedAnswer("", "NO_JSON", begin=repr(begin.decode("utf-8", "replace")[:_SHOWN])) from None


def as_object(value: Any, where: str = "") -> Json:
    if type(value) is dict:
        return value
    raise _mistyped(value, where, "object")


def as_array(value: Any, where: str = "") -> list[Any]:
    if type(value) is list:
        return value
    raise _mistyped(value, where, "array")


def inner(data: Json, key: str, place: str = "") -> Json:
    """Return a required object."""
    value = data.get(key, _ABSENT)
    if type(value) is dict:
        return value
    raise _mistyped(value, _joined(place, key), "object")


def array(data: Json, key: str, place: str = "") -> list[Any]:
    """Return a required array."""
    value = data.get(key, _ABSENT)
    if type(value) is list:
        return value
    raise _mistyped(value, _joined(place, key), "array")


def whole(data: Json, key: str, place: str = "") -> int:
    """Return a required whole number of at most 64 bits, sign included."""
    value = data.get(key, _ABSENT)
    if type(value) is int and SMALLEST <= value <= LARGEST:
        return value
    raise _not_whole(value, _joined(place, key))


def positive(data: Json, key: str, place: str = "") -> int:
    """Return a required number that identifies something: from 1 to the largest of 64 bits."""
    value = data.get(key, _ABSENT)
    if type(value) is int and 0 < value <= LARGEST:
        return value
    if type(value) is int and value <= 0:
        raise InvalidValue(_joined(place, key), "NOT_POSITIVE", value=value)
    raise _not_whole(value, _joined(place, key))


def optional_whole(data: Json, key: str, place: str = "") -> int | None:
    return None if data.get(key) is None else whole(data, key, place)


def truth(data: Json, key: str, place: str = "") -> bool:
    """Return a required `true` or `false`."""
    value = data.get(key, _ABSENT)
    if type(value) is bool:
        return value
    raise _mistyped(value, _joined(place, key), "boolean")


def required_text(data: Json, key: str, place: str = "") -> str:
    """Return text whose field is required; null is the empty text. A missing field is a redesign, not a blank."""
    value = data.get(key, _ABSENT)
    if type(value) is str:
        return value
    if value is None:
        return ""
    raise _mistyped(value, _joined(place, key), "string")


def text(data: Json, key: str, place: str = "") -> str:
    """Return text; null and absent are the empty text."""
    value = data.get(key)
    if type(value) is str:
        return value
    if value is None:
        return ""
    raise _mistyped(value, _joined(place, key), "string")


def optional_text(data: Json, key: str, place: str = "") -> str | None:
    """Return text or None: null, absent and empty are None."""
    return text(data, key, place) or None


def texts(data: Json, key: str, place: str = "") -> tuple[str, ...]:
    """Return texts in order, unchanged, each once; null and absent are none."""
    if data.get(key) is None:
        return ()
    values = array(data, key, place)
    for index, value in enumerate(values):
        if type(value) is not str:
            raise _mistyped(value, f"{_joined(place, key)}[{index}]", "string")
    return tuple(dict.fromkeys(values))


def _joined(place: str, key: str) -> str:
    return f"{place}{'.' if place and key and key[0] != '[' else ''}{key}"


def _not_whole(value: Any, where: str) -> InvalidValue:
    if type(value) is int or type(value) is float:
        # A whole number beyond 64 bits may be decoded as a float: the two cannot be told apart here.
        return InvalidValue(where, "NOT_WHOLE", value=str(value))
    return _mistyped(value, where, "number")


def _mistyped(value: Any, where: str, wanted: str) -> InvalidValue:
    if value is _ABSENT:
        return InvalidValue(where, "MISSING")
    return InvalidValue(where, "MISTYPED", found=_KINDS[type(value)], wanted=wanted)
