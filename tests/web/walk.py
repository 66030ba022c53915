"""Walks what the app documents: every operation, with a path that has something in each of its places."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI

A_UUID = "0198c0de-0000-7000-8000-000000000001"
SAMPLES = {"sellerId": "seller_0001", "itemNo": "1", "number": "1", "agent": "1", "part": "DETAIL", "eventType": "PING"}


def operations(app: FastAPI) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Method, path as it is documented, and what is said of it."""
    return walk(app.openapi())


def walk(description: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every operation of a description."""
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def fill(path: str, value: str | None = None) -> str:
    """The path with a value in each of its places: the same everywhere, or one of the right sort."""
    return re.sub(r"\{(\w+)\}", lambda place: value or SAMPLES.get(place[1], A_UUID), path)


def is_open(operation: dict[str, Any]) -> bool:
    """Nobody has to log in for it."""
    return {} in operation.get("security", [{}])
