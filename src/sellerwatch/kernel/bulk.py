"""Several things handled one by one: what is refused is reported, and keeps nothing else from being done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sellerwatch.kernel.errors import Conflict, NotFound
from sellerwatch.kernel.ids import PublicId

Id = TypeVar("Id", bound=PublicId)


@dataclass(frozen=True)
class BulkRefusal:
    """One of several that could not be handled, and why."""

    id: PublicId
    error: NotFound | Conflict


@dataclass(frozen=True)
class BulkResult:
    """What became of several: those that were done, and those that were refused."""

    done: tuple[PublicId, ...]
    refused: tuple[BulkRefusal, ...]


def handle_each(ids: Sequence[Id], handle: Callable[[Id], None]) -> BulkResult:
    """One by one. A refusal comes before anything of that one is written, so there is nothing to undo."""
    done: list[PublicId] = []
    refused: list[BulkRefusal] = []
    for id_ in dict.fromkeys(ids):
        try:
            handle(id_)
            done.append(id_)
        except (NotFound, Conflict) as error:
            refused.append(BulkRefusal(id_, error))
    return BulkResult(tuple(done), tuple(refused))
