"""Declare the columns of a noun once: its statements and the values of its rows are derived from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Generic, TypeVar

from sellerwatch.adapters.sql.statements import AnyRow
from sellerwatch.kernel.failure import Failure, failure_columns

Noun = TypeVar("Noun")
Get = Callable[[Any], Any]


#: The four columns of a noun's `failure`.
FAILURE = ("failure_code", "failure_blame", "failure_facts", "failure_at")


@dataclass(frozen=True)
class Statement(Generic[Noun]):
    """A statement for one noun, and the values for its question marks."""

    sql: str
    values: Callable[..., AnyRow]


class Columns(Generic[Noun]):
    """`same` are columns named like fields of the noun, `named` others that hold a field as it is; `other` say how to
    compute a column's value from the noun. `read_as` converts the values of some fields when a row is read.

    `written` are columns that are written for queries and never read back. With `has_failure`, the noun's `failure` is
    kept in four columns.
    """

    def __init__(
        self,
        table: str,
        *,
        same: str,
        named: Mapping[str, str] | None = None,
        other: Mapping[str, Get] | None = None,
        written: str = "",
        read_as: Mapping[str, Get] | None = None,
        has_failure: bool = False,
    ) -> None:
        self.table = table
        self._failure = FAILURE if has_failure else ()
        self._fields = {name: name for name in same.split()} | dict(named or {})
        self._other, self._read_as = dict(other or {}), tuple((read_as or {}).items())
        columns = [name for name in [*self._fields, *self._other] if name not in written.split()]
        self._read = tuple(self._fields.get(name, name) for name in columns)
        self.columns = (*columns, *self._failure)
        self.listed = ", ".join(self.columns)
        self.select = f"SELECT {self.listed} FROM {table}"
        self.select_rows = f"SELECT id, {self.listed} FROM {table} WHERE id IN (:rows)"

    def insert(self, *, also: str = "") -> Statement[Noun]:
        """Return the INSERT for a noun. The values of the columns in `also` are given beside it."""
        names = [*also.split(), *self._fields, *self._failure, *self._other]
        marks = ", ".join("?" * len(names))
        sql = f"INSERT INTO {self.table} ({', '.join(names)}) VALUES ({marks})"
        return Statement(sql, self._values([*self._fields.values()], [*self._other.values()]))

    def update(self, key: str, *, without: str, also: str = "") -> Statement[Noun]:
        """Return the UPDATE by key, without the columns that never change. `also` is as for `insert`. A key that is not
        among the columns is added to the values by the caller."""
        fixed = {key, *without.split()}
        same = {name: field for name, field in self._fields.items() if name not in fixed}
        other = {name: get for name, get in self._other.items() if name not in fixed}
        given = ", ".join(f"{name} = ?" for name in [*also.split(), *same, *self._failure, *other])
        keys = [attrgetter(self._fields[key])] if key in self._fields else []
        sql = f"UPDATE {self.table} SET {given} WHERE {key} = ?"
        return Statement(sql, self._values([*same.values()], [*other.values(), *keys]))

    def by_name(self, row: AnyRow) -> dict[str, Any]:
        """Return the values of a row that `select` returned, by the names of the noun's fields."""
        values = dict(zip(self._read, row, strict=False))
        for name, convert in self._read_as:
            values[name] = convert(values[name])
        if self._failure:
            at = len(self._read)
            # Hardly any row has one.
            values["failure"] = None if row[at] is None else Failure.stored(*row[at : at + 4])
        return values

    def _values(self, same: list[str], other: list[Get]) -> Callable[..., AnyRow]:
        """Return a function that reads the column values of a noun. One attrgetter for all equal names costs half."""
        get_same, has_failure = attrgetter(*same), bool(self._failure)

        def values(noun: Any, *also: Any) -> AnyRow:
            failure = failure_columns(noun.failure) if has_failure else ()
            return (*also, *get_same(noun), *failure, *([get(noun) for get in other] if other else ()))

        return values
