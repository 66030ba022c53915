"""What changed between two states of a product, field by field.

Works on productData as it goes over the wire, so that "before" is exactly what the receiver was last told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Change:
    """One field. An added option has no before, a removed one no after."""

    field: str
    before: Any
    after: Any

    def on_the_wire(self) -> dict[str, Any]:
        return {"field": self.field, "before": self.before, "after": self.after}


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """All changes, in the order of the fields. Equal states give an empty list."""
    return list(_between("", before, after))


def _between(path: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    for name in dict.fromkeys((*after, *before)):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        here = f"{path}{name}"
        if name == "options":
            yield from _between_options(old or [], new or [])
        elif isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from _between(f"{here}.", old, new)
        else:
            # Images, tags and categories too: their members have no identity of their own, the list changes whole.
            yield Change(here, old, new)


def _between_options(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> Iterator[Change]:
    old = {option["optionNo"]: option for option in before}
    new = {option["optionNo"]: option for option in after}
    for number in sorted(old.keys() | new.keys()):
        here = f"options[{number}]"
        if number in old and number in new:
            yield from _between(f"{here}.", old[number], new[number])
        else:
            yield Change(here, old.get(number), new.get(number))
