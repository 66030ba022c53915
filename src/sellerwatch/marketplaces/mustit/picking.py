"""Takes single values out of decoded JSON, each checked: a value is right, or the answer is not the contract's.

Nothing is coerced. `"3"` is no number and `true` is no 1: a shop that changes its types has changed its meaning, and
guessing would send wrong products on. The good way costs one look-up and one comparison; where a value stood in the
document is put together only when something is wrong with it. `place` is the name of the object the value is in.
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


class Wrong(Exception):
    """Something is not as the contract says. On its way out each level puts its own place before `where`."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(where, what)
        self.where = where
        self.what = what

    def under(self, place: str) -> Wrong:
        """The same, seen from one level further out: `itemNo` of `items[3]` is `items[3].itemNo`."""
        return type(self)(_joined(place, self.where), self.what)

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what


class Garbled(Wrong):
    """Not the answer to what was asked: no JSON at all, or about another item. That may pass by itself."""


def decode(body: bytes) -> Any:
    """The JSON in `body`. What was never JSON is shown by its first characters: an HTML page is known by them."""
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
        raise Garbled("", f"not JSON ({problem})") from None


def as_object(value: Any, where: str = "") -> Json:
    if type(value) is dict:
        return value
    raise _mistyped(value, where, "an object")


def as_array(value: Any, where: str = "") -> list[Any]:
    if type(value) is list:
        return value
    raise _mistyped(value, where, "an array")


def inner(data: Json, key: str, place: str = "") -> Json:
    """An object in an object; it must be there."""
    value = data.get(key, _ABSENT)
    if type(value) is dict:
        return value
    raise _mistyped(value, _joined(place, key), "an object")


def array(data: Json, key: str, place: str = "") -> list[Any]:
    """An array in an object; it must be there."""
    value = data.get(key, _ABSENT)
    if type(value) is list:
        return value
    raise _mistyped(value, _joined(place, key), "an array")


def whole(data: Json, key: str, place: str = "") -> int:
    """A whole number that fits 64 bits with its sign; it must be there."""
    value = data.get(key, _ABSENT)
    if type(value) is int and SMALLEST <= value <= LARGEST:
        return value
    raise _not_whole(value, _joined(place, key))


def positive(data: Json, key: str, place: str = "") -> int:
    """A number something is called by: it must be there, and from 1 to the largest of 64 bits."""
    value = data.get(key, _ABSENT)
    if type(value) is int and 0 < value <= LARGEST:
        return value
    if type(value) is int and value <= 0:
        raise Wrong(_joined(place, key), f"{value}, not a number from 1")
    raise _not_whole(value, _joined(place, key))


def optional_whole(data: Json, key: str, place: str = "") -> int | None:
    return None if data.get(key) is None else whole(data, key, place)


def truth(data: Json, key: str, place: str = "") -> bool:
    """`true` or `false`; it must be there."""
    value = data.get(key, _ABSENT)
    if type(value) is bool:
        return value
    raise _mistyped(value, _joined(place, key), "true or false")


def required_text(data: Json, key: str, place: str = "") -> str:
    """Text whose field must be there; null is the empty text. A field that went missing is a redesign, not a blank."""
    value = data.get(key, _ABSENT)
    if type(value) is str:
        return value
    if value is None:
        return ""
    raise _mistyped(value, _joined(place, key), "a string")


def text(data: Json, key: str, place: str = "") -> str:
    """Text that is always there: null and absent are the empty text."""
    value = data.get(key)
    if type(value) is str:
        return value
    if value is None:
        return ""
    raise _mistyped(value, _joined(place, key), "a string")


def optional_text(data: Json, key: str, place: str = "") -> str | None:
    """Text that may be missing: null, absent and empty are None."""
    return text(data, key, place) or None


def texts(data: Json, key: str, place: str = "") -> tuple[str, ...]:
    """Texts in their order, exactly as given, each once; null and absent are none."""
    if data.get(key) is None:
        return ()
    values = array(data, key, place)
    for index, value in enumerate(values):
        if type(value) is not str:
            raise _mistyped(value, f"{_joined(place, key)}[{index}]", "a string")
    return tuple(dict.fromkeys(values))


def _joined(place: str, key: str) -> str:
    return f"{place}{'.' if place and key and key[0] != '[' else ''}{key}"


def _not_whole(value: Any, where: str) -> Wrong:
    if type(value) is int or type(value) is float:
        # A whole number beyond 64 bits may be decoded as a float: the two cannot be told apart here.
        return Wrong(where, f"{value}, not a whole number of 64 bits")
    return _mistyped(value, where, "a number")


def _mistyped(value: Any, where: str, wanted: str) -> Wrong:
    return Wrong(where, "missing" if value is _ABSENT else f"{_KINDS[type(value)]}, not {wanted}")
