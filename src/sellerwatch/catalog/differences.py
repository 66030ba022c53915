"""The differences between two states of a product, field by field.

They are computed on productData as events carry it, so that `before` is exactly what the receiver has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_OPTION = re.compile(r"^options\[(\d+)\]")


class ChangeKind(StrEnum):
    """What changed, in the words people search by: prices or stock, not paths."""

    PRICE = "price"
    STOCK = "stock"
    OPTION_ADDED = "option added"
    OPTION_REMOVED = "option removed"
    OPTION_CHANGED = "option changed"
    IMAGES = "images"
    TEXT = "text"
    ATTRIBUTE = "attribute"


_KINDS = {
    "stock": ChangeKind.STOCK,
    "soldOut": ChangeKind.STOCK,
    "images": ChangeKind.IMAGES,
    "name": ChangeKind.TEXT,
    "descriptionHtml": ChangeKind.TEXT,
    "tags": ChangeKind.TEXT,
    "itemStatus": ChangeKind.TEXT,
    "originCountry": ChangeKind.TEXT,
    "brand.name": ChangeKind.TEXT,
    "brand.nameKr": ChangeKind.TEXT,
}


@dataclass(frozen=True, slots=True)
class Change:
    """A field with its value before and after. An added option has no `before`, a removed one no `after`."""

    field: str
    before: Any
    after: Any

    @property
    def general_field(self) -> str:
        """The field without option numbers, so that products can be counted by it: `options[].stock`."""
        return _OPTION.sub("options[]", self.field)

    @property
    def kind(self) -> ChangeKind:
        field = self.general_field
        if field.startswith("prices"):
            return ChangeKind.PRICE
        if field == "options[]":
            return ChangeKind.OPTION_ADDED if self.before is None else ChangeKind.OPTION_REMOVED
        if field.startswith("options[]."):
            return ChangeKind.STOCK if field == "options[].stock" else ChangeKind.OPTION_CHANGED
        return _KINDS.get(field, ChangeKind.ATTRIBUTE)


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Return all changes in the order of the fields; an empty list for equal states."""
    return list(_between("", before, after))


def creation(data: Mapping[str, Any]) -> list[Change]:
    """Return the `differences` from an empty product, without comparing."""
    found = [Change(name, None, value) for name, value in data.items() if name != "options" and value is not None]
    return found + [Change(f"options[{option['optionNo']}]", None, option) for option in data["options"]]


def replay(state: Mapping[str, Any], changes: Iterable[Change]) -> dict[str, Any]:
    """Apply changes to a state: `replay(a, differences(a, b)) == b` for any two states of a product."""
    after = {**state, "options": {option["optionNo"]: option for option in state.get("options") or ()}}
    for change in changes:
        option = _OPTION.match(change.field)
        if option is None:
            after = _with(after, change.field.split("."), change.after)
        else:
            number, inside = int(option.group(1)), change.field[option.end() + 1 :]
            members = dict(after["options"])
            if inside:
                members[number] = _with(members[number], inside.split("."), change.after)
            elif change.after is None:
                del members[number]
            else:
                members[number] = change.after
            after["options"] = members
    return {**after, "options": [after["options"][number] for number in sorted(after["options"])]}


def _with(data: Mapping[str, Any], path: list[str], value: Any) -> dict[str, Any]:
    name, *rest = path
    return {**data, name: _with(data.get(name) or {}, rest, value) if rest else value}


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
            # Images, tags and categories too: their members have no identity, so the whole list is the change.
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
