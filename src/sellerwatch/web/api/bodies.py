"""Bodies we are sent are JSON, and JSON that everybody reads alike.

The framework's reader takes NaN, two values under one name (the last wins, where another reader takes the first) and
halves of characters that no database can keep. What reads differently elsewhere is refused here, once for all routes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qsl

import orjson
from starlette.types import Message, Receive

from sellerwatch.kernel.wording import Problem
from sellerwatch.web.api.errors import FieldProblem, InvalidRequest

MOST_FIELDS = 200
FORM = "application/x-www-form-urlencoded"


class _NotTaken(ValueError):
    """JSON, but not of a kind that is taken."""

    def __init__(self, key: str, **facts: object) -> None:
        super().__init__(key)
        self.problem = Problem(key, facts)


def check_body(body: bytes) -> None:
    """Strict JSON in UTF-8, each name once. orjson refuses what the standard's reader lets pass, and deep nesting."""
    try:
        orjson.loads(body)
        _without_nul(json.loads(body, object_pairs_hook=unique_names))
    except (ValueError, RecursionError) as error:
        problem = error.problem if isinstance(error, _NotTaken) else Problem("not_json")
        raise InvalidRequest((FieldProblem(field="body", problem=problem),)) from None


def check_form(body: bytes) -> None:
    """What a page's form sends: names and values in UTF-8."""
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
        _without_nul(dict(pairs))
    except ValueError as error:
        problem = error.problem if isinstance(error, _NotTaken) else Problem("not_a_form")
        raise InvalidRequest((FieldProblem(field="body", problem=problem),)) from None


def unique_names(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs as an object; refuse a name that comes twice. It takes as many steps as there are pairs."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise _NotTaken("name_twice", name=name[:100])
        found[name] = value
    return found


def _without_nul(value: Any) -> None:
    """The character that ends a text for half of the programs there are."""
    if isinstance(value, str) and "\0" in value:
        raise _NotTaken("nul")
    if isinstance(value, dict):
        for name, inner in value.items():
            _without_nul(name)
            _without_nul(inner)
    elif isinstance(value, list):
        for inner in value:
            _without_nul(inner)


def again(body: bytes, receive: Receive) -> Receive:
    """The body that was read, once more; then whatever comes after it."""
    given = False

    async def receive_again() -> Message:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return receive_again
