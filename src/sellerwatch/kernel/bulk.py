"""Several things handled one by one: one that is refused is reported and does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar

from sellerwatch.kernel.errors import Conflict, NotFound
from sellerwatch.kernel.ids import PublicId
from sellerwatch.kernel.views import About, View
from sellerwatch.kernel.wording import error_text

Id = TypeVar("Id", bound=PublicId)


@dataclass(frozen=True)
class BulkRefusal:
    """One id that was refused, and why."""

    id: PublicId
    error: NotFound | Conflict


@dataclass(frozen=True)
class BulkResult:
    """The ids that were done and those that were refused."""

    done: tuple[PublicId, ...]
    refused: tuple[BulkRefusal, ...]


@dataclass(frozen=True)
class RefusedView(View):
    """One id that was refused, and why."""

    id: str
    error_code: Annotated[str, About(example="ILLEGAL_MOVE")]
    message: Annotated[str, About("The reason as a sentence in the caller's language.")]


@dataclass(frozen=True)
class BulkResultView(View):
    """The result for several ids: each is either in `done` or in `refused`."""

    done: Sequence[str]
    refused: Sequence[RefusedView]
    dry_run: Annotated[bool, About("Nothing was changed: `done` are the ids that would be.")] = False

    @classmethod
    def of(cls, result: BulkResult, language: str, *, dry_run: bool = False) -> BulkResultView:
        return cls(result.done, refused_views(result, language), dry_run)


def refused_views(result: BulkResult, language: str) -> Sequence[RefusedView]:
    """Return the refused ids, their reasons worded in a language."""
    return [
        RefusedView(one.id, one.error.code, error_text(one.error.code, one.error.facts, language))
        for one in result.refused
    ]


def handle_each(ids: Sequence[Id], handle: Callable[[Id], None]) -> BulkResult:
    """Handle each id once, in order. `handle` must refuse an id before it writes anything for it."""
    done: list[PublicId] = []
    refused: list[BulkRefusal] = []
    for id_ in dict.fromkeys(ids):
        try:
            handle(id_)
            done.append(id_)
        except (NotFound, Conflict) as error:
            refused.append(BulkRefusal(id_, error))
    return BulkResult(tuple(done), tuple(refused))
