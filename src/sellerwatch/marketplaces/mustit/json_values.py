"""Decode JSON and check it against a type of `contract.py`: it fits, or the answer is refused with the first field that
does not."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec
import orjson

from sellerwatch.kernel.answer_problem import AnswerProblem
from sellerwatch.kernel.failure import Fact

T = TypeVar("T")

_SHOWN = 20
_STEP = re.compile(r"[^.\[\]]+")
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
_WANTED = {"str": "string", "bool": "boolean", "int": "number"}


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


def read_as(value: Any, kind: type[T]) -> T:
    """Return a decoded value as this type. Refuse it by the first field that is wrong, in the order of the type: the
    order of an answer means nothing."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        if type(value) is dict and issubclass(kind, msgspec.Struct):
            _check_fields(value, kind)
        raise _invalid(value, str(error)) from None


def _check_fields(value: dict[str, Any], kind: type[msgspec.Struct]) -> None:
    for field in msgspec.structs.fields(kind):
        name = field.encode_name
        if name not in value and field.required:
            raise InvalidValue(name, "MISSING")
        try:
            msgspec.convert(value.get(name, field.default), field.type)
        except msgspec.ValidationError as error:
            raise _invalid(value[name], str(error)).under(name) from None


def _invalid(value: Any, error: str) -> InvalidValue:
    """Return what is wrong with a value in our words; msgspec's are ``Expected `int`, got `str` - at `$.stock` ``."""
    said, _, path = error.partition(" - at `$")
    where, name = path.rstrip("`").lstrip("."), said.split("`")[1].partition(" ")[0]
    if said.startswith("Object missing"):
        return InvalidValue(_joined(where, name), "MISSING")
    for step in _STEP.findall(where):
        value = value[int(step) if type(value) is list else step]
    if value is msgspec.UNSET:
        return InvalidValue(where, "MISSING")
    wanted = _WANTED.get(name, name)
    if wanted != "number" or type(value) not in {int, float}:
        return InvalidValue(where, "MISTYPED", found=_KINDS[type(value)], wanted=wanted)
    if said.endswith(">= 1"):
        return InvalidValue(where, "NOT_POSITIVE", value=value)
    # A whole number beyond 64 bits may be decoded as a float: the two cannot be told apart here.
    return InvalidValue(where, "NOT_WHOLE", value=str(value))


def _joined(place: str, key: str) -> str:
    return f"{place}{'.' if place and key and key[0] != '[' else ''}{key}"
