"""Read single values from decoded JSON and check each: it has the contract's type, or the answer is refused.

Nothing is coerced. `"3"` is no number and `true` is no 1: a shop that changes its types has changed their meaning, and
guessing would send wrong products on. A good value costs one look-up and one comparison; the path of a value is put
together only when it is wrong. `place` is the path of the object that contains the value.
"""

from __future__ import annotations

from typing import Any

import orjson

Json = dict[str, Any]

LARGEST = 2**63 - 1
SMALLEST = -(2**63)
_SHOWN = 20
_ABSENT: Any = object()
_KINDS: dict[type, str] = {
    str: "a string",
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "an array",
    dict: "an object",
    type(None): "null",
}


class InvalidValue(Exception):
    """A value that the contract does not allow. Each level puts its own path before `where`."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(where, what)
        self.where = where
        self.what = what

    def under(self, place: str) -> InvalidValue:
        """Return the same problem, seen from one level further out: `itemNo` becomes `items[3].itemNo`."""
        return type(self)(_joined(place, self.where), self.what)

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what


class UnrelatedAnswer(InvalidValue):
    """Not an answer to the request: no JSON, or about another item. It may be gone at the next try."""


def decode(body: bytes) -> Any:
    """Return the decoded JSON. A refusal quotes the first characters, by which an HTML page can be recognised."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        begin = body[: 4 * _SHOWN].lstrip()
        if not begin:
            problem = "it is empty"
        elif begin[:1] in b"{[":
            problem = f"{error.msg.partition(':')[0]}, at character {error.pos}"
        else:
            problem = f"it begins with {begin.decode('utf-8', 'replace')[:_SHOWN]!r}"
        raise UnrelatedAnswer("", f"not JSON ({problem})") from None


def as_object(value: Any, where: str = "") -> Json:
    if type(value) is dict:
        return value
    raise _mistyped(value, where, "an object")


def as_array(value: Any, where: str = "") -> list[Any]:
    if type(value) is list:
        return value
    raise _mistyped(value, where, "an array")


def inner(data: Json, key: str, place: str = "") -> Json:
    """Return a required object."""
    value = data.get(key, _ABSENT)
    if type(value) is dict:
        return value
    raise _mistyped(value, _joined(place, key), "an object")


def array(data: Json, key: str, place: str = "") -> list[Any]:
    """Return a required array."""
    value = data.get(key, _ABSENT)
    if type(value) is list:
        return value
    raise _mistyped(value, _joined(place, key), "an array")


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
        raise InvalidValue(_joined(place, key), f"{value}, not a number from 1")
    raise _not_whole(value, _joined(place, key))


def optional_whole(data: Json, key: str, place: str = "") -> int | None:
    return None if data.get(key) is None else whole(data, key, place)


def truth(data: Json, key: str, place: str = "") -> bool:
    """Return a required `true` or `false`."""
    value = data.get(key, _ABSENT)
    if type(value) is bool:
        return value
    raise _mistyped(value, _joined(place, key), "true or false")


def required_text(data: Json, key: str, place: str = "") -> str:
    """Return text whose field is required; null is the empty text. A missing field is a redesign, not a blank."""
    value = data.get(key, _ABSENT)
    if type(value) is str:
        return value
    if value is None:
        return ""
    raise _mistyped(value, _joined(place, key), "a string")


def text(data: Json, key: str, place: str = "") -> str:
    """Return text; null and absent are the empty text."""
    value = data.get(key)
    if type(value) is str:
        return value
    if value is None:
        return ""
    raise _mistyped(value, _joined(place, key), "a string")


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
            raise _mistyped(value, f"{_joined(place, key)}[{index}]", "a string")
    return tuple(dict.fromkeys(values))


def _joined(place: str, key: str) -> str:
    return f"{place}{'.' if place and key and key[0] != '[' else ''}{key}"


def _not_whole(value: Any, where: str) -> InvalidValue:
    if type(value) is int or type(value) is float:
        # A whole number beyond 64 bits may be decoded as a float: the two cannot be told apart here.
        return InvalidValue(where, f"{value}, not a whole number of 64 bits")
    return _mistyped(value, where, "a number")


def _mistyped(value: Any, where: str, wanted: str) -> InvalidValue:
    return InvalidValue(where, "missing" if value is _ABSENT else f"{_KINDS[type(value)]}, not {wanted}")
