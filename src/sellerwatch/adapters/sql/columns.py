"""Declare the columns of a noun once: its statements and the values of its rows are derived from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Generic, TypeVar

from sellerwatch.adapters.sql.statements import AnyRow
from sellerwatch.kernel.failure import Failure

Noun = TypeVar("Noun")
Get = Callable[[Any], Any]


def _failure(name: str) -> Get:
    def get(noun: Any) -> Any:
        return None if noun.failure is None else getattr(noun.failure, name)

    return get


#: The four columns of a noun's `failure`.
FAILURE: Mapping[str, Get] = {
    "failure_code": _failure("code"),
    "failure_blame": _failure("blame"),
    "failure_facts": _failure("facts_json"),
    "failure_at": _failure("at"),
}


def take_failure(values: dict[str, Any]) -> Failure | None:
    """Remove the four columns of a failure from the values of a row and return the failure."""
    code, blame, facts, at = (values.pop(name) for name in FAILURE)
    return None if code is None else Failure.stored(code, blame, facts, at)


@dataclass(frozen=True)
class Statement(Generic[Noun]):
    """A statement for one noun, and the values for its question marks."""

    sql: str
    values: Callable[..., AnyRow]


class Columns(Generic[Noun]):
    """`same` are columns named like fields of the noun; `other` say how to compute a column's value from it.

    `written` are columns that are written for queries and never read back.
    """

    def __init__(self, table: str, *, same: str, other: Mapping[str, Get] | None = None, written: str = "") -> None:
        self.table = table
        self._same, self._other = same.split(), dict(other or {})
        self.read = tuple(name for name in [*self._same, *self._other] if name not in written.split())
        self.listed = ", ".join(self.read)
        self.select = f"SELECT {self.listed} FROM {table}"

    def insert(self, *, also: str = "") -> Statement[Noun]:
        """Return the INSERT for a noun. The values of the columns in `also` are given beside it."""
        names = [*also.split(), *self._same, *self._other]
        marks = ", ".join("?" * len(names))
        sql = f"INSERT INTO {self.table} ({', '.join(names)}) VALUES ({marks})"
        return Statement(sql, _values(self._same, [*self._other.values()]))

    def update(self, key: str, *, without: str, also: str = "") -> Statement[Noun]:
        """Return the UPDATE by key, without the columns that never change. `also` is as for `insert`."""
        fixed = {key, *without.split()}
        same = [name for name in self._same if name not in fixed]
        other = {name: get for name, get in self._other.items() if name not in fixed}
        given = ", ".join(f"{name} = ?" for name in [*also.split(), *same, *other])
        sql = f"UPDATE {self.table} SET {given} WHERE {key} = ?"
        return Statement(sql, _values(same, [*other.values(), attrgetter(key)]))

    def by_name(self, row: AnyRow) -> dict[str, Any]:
        """Return the values of a row that `select` returned, by column name."""
        return dict(zip(self.read, row, strict=False))


def _values(same: list[str], other: list[Get]) -> Callable[..., AnyRow]:
    """Return a function that reads the column values of a noun. One attrgetter for all equal names costs half."""
    get_same = attrgetter(*same)
    return lambda noun, *also: (*also, *get_same(noun), *[get(noun) for get in other])
