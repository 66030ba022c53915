"""A product's history, played from the beginning: every state it was ever found in.

An entry says how a state differs from the one before it, and a creation how it differs from nothing. So no entry needs
a copy of the product, and the last state must be the product as it is known now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sellerwatch.catalog.differences import Change, replay
from sellerwatch.catalog.facts import BLANK
from sellerwatch.catalog.ports import HistoryEntry
from sellerwatch.catalog.product import ProductEvent
from sellerwatch.kernel.errors import NotFound
from sellerwatch.kernel.ids import ItemNo

State = Mapping[str, Any]


@dataclass(eq=False)
class VersionNotFound(NotFound):
    """A version that the history does not have."""

    item_no: int
    version: int
    known: str


def states(entries: Iterable[HistoryEntry]) -> Iterator[tuple[HistoryEntry, State]]:
    """Each entry with the state it led to; a creation begins from nothing, also after a removal."""
    state: State = BLANK
    for entry in entries:
        state = replay(BLANK if entry.event is ProductEvent.CREATED else state, entry.changes)
        yield entry, state


def last_change(entries: Sequence[HistoryEntry]) -> tuple[int, int, Sequence[Change]]:
    """The last entry in which anything differs (a removal changes nothing), and the versions it leads from and to.

    They are the same where a change was merged into an event that nobody had seen yet.
    """
    for place in range(len(entries) - 1, -1, -1):
        entry = entries[place]
        if entry.changes:
            is_first = place == 0 or entry.event is ProductEvent.CREATED
            return 0 if is_first else entries[place - 1].version, entry.version, entry.changes
    return 0, 0, ()


def state_at(entries: Iterable[HistoryEntry], item_no: ItemNo, version: int | None) -> tuple[int, State]:
    """The product as it was last found at a version (0: before anything was known), or with None as it is now.

    A version may come more than once, where an event was withdrawn before anybody saw it: the last one counts.
    """
    found: dict[int, State] = {0: BLANK}
    newest = 0
    for entry, state in states(entries):
        newest = entry.version
        found[newest] = state
    wanted = newest if version is None else version
    if wanted not in found:
        known = f"1 to {max(found)}" if max(found) else "none"
        raise VersionNotFound(item_no=item_no, version=wanted, known=known)
    return wanted, found[wanted]
