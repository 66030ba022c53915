"""The history of a product: every state it was found in, rebuilt from the differences.

An entry holds the differences from the state before it, a creation those from an empty product. So no entry needs a
copy of the product, and the last state is the current product.
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
    """A version that is not in the history."""

    item_no: int
    version: int
    known: str


def states(entries: Iterable[HistoryEntry]) -> Iterator[tuple[HistoryEntry, State]]:
    """Yield each entry with the state after it. A creation begins with an empty product, also after a deletion."""
    state: State = BLANK
    for entry in entries:
        state = replay(BLANK if entry.event is ProductEvent.CREATED else state, entry.changes)
        yield entry, state


def last_change(entries: Sequence[HistoryEntry]) -> tuple[int, int, Sequence[Change]]:
    """Return the versions before and after the last entry with changes, and the changes. A deletion has none.

    The versions are equal where the change was merged into an event that had not been sent.
    """
    for place in range(len(entries) - 1, -1, -1):
        entry = entries[place]
        if entry.changes:
            is_first = place == 0 or entry.event is ProductEvent.CREATED
            return 0 if is_first else entries[place - 1].version, entry.version, entry.changes
    return 0, 0, ()


def state_at(entries: Iterable[HistoryEntry], item_no: ItemNo, version: int | None) -> tuple[int, State]:
    """Return the last state of a version and its number: 0 is the empty product, None the current state.

    A version occurs more than once where an event was withdrawn before it was sent: the last one counts.
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
