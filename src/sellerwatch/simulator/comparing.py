"""Differences between two `productData`, named as event.md names the fields of a change.

Written from event.md alone, apart from the crawler's own differences, so that the two can catch each other's mistakes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_NESTED = ("brand", "prices", "shipping")


@dataclass(frozen=True, slots=True)
class FieldDifference:
    field: str
    before: Any
    after: Any


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[FieldDifference]:
    """Return the differences field by field: `prices.selling`, `options[4134224619].stock`, `options[4134224619]`,
    `tags`.

    Values may come from any source: where a shape is not the expected one, the whole field is the difference.
    """
    for name in {**before, **after}:
        old, new = before.get(name), after.get(name)
        if name in _NESTED and isinstance(old, dict) and isinstance(new, dict):
            yield from _members(f"{name}.", old, new)
        elif name == "options" and (were := _numbered(old)) is not None and (are := _numbered(new)) is not None:
            yield from _options(were, are)
        elif not _same(old, new):
            yield FieldDifference(name, old, new)


def value_at(product_data: Mapping[str, Any], field: str) -> Any:
    """Return the value that a change's field name points at; None without one."""
    name, _, member = field.partition(".")
    if name.startswith("options[") and name.endswith("]"):
        options = _numbered(product_data.get("options")) or {}
        number = name.removeprefix("options[").removesuffix("]")
        found = options.get(int(number)) if number.isdecimal() else None
    else:
        found = product_data.get(name)
    if not member:
        return found
    return found.get(member) if isinstance(found, dict) else None


def _same(old: Any, new: Any) -> bool:
    """Compare as JSON does: in Python True equals 1 and 1 equals 1.0, for a receiver they differ."""
    return type(old) is type(new) and bool(old == new)


def _members(prefix: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[FieldDifference]:
    for member in {**old, **new}:
        if not _same(old.get(member), new.get(member)):
            yield FieldDifference(prefix + member, old.get(member), new.get(member))


def _options(old: dict[int, dict[str, Any]], new: dict[int, dict[str, Any]]) -> Iterator[FieldDifference]:
    for number in {**old, **new}:
        if number in old and number in new:
            yield from _members(f"options[{number}].", old[number], new[number])
        else:
            yield FieldDifference(f"options[{number}]", old.get(number), new.get(number))
    if old.keys() == new.keys() and list(old) != list(new):
        yield FieldDifference("options", list(old), list(new))


def _numbered(options: Any) -> dict[int, dict[str, Any]] | None:
    """Return options by number; None unless they are a list of numbered objects, each number once."""
    if not isinstance(options, list):
        return None
    if not all(isinstance(option, dict) and isinstance(option.get("optionNo"), int) for option in options):
        return None
    numbered = {option["optionNo"]: option for option in options}
    return numbered if len(numbered) == len(options) else None
