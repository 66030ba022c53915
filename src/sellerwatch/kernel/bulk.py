"""Several things handled one by one: what is refused is reported, and the others are handled all the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar

from sellerwatch.kernel.errors import Conflict, NotFound
from sellerwatch.kernel.ids import PublicId
from sellerwatch.kernel.views import About, View
from sellerwatch.kernel.wording import catalogue, word

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


@dataclass(frozen=True)
class RefusalView(View):
    """One of several that could not be handled, and why."""

    id: str
    error_code: Annotated[str, About(example="ILLEGAL_MOVE")]
    message: str

    @classmethod
    def of(cls, refusal: BulkRefusal, language: str) -> RefusalView:
        error = refusal.error
        return cls(refusal.id, error.code, word(error.code, error.facts, catalogue(language)))


@dataclass(frozen=True)
class BulkResultView(View):
    """What became of several, or with `dryRun` would: each is in one of the two lists."""

    dry_run: bool
    done: Sequence[str]
    refused: Sequence[RefusalView]

    @classmethod
    def of(cls, result: BulkResult, language: str, *, dry_run: bool) -> BulkResultView:
        return cls(dry_run, result.done, [RefusalView.of(each, language) for each in result.refused])


def handle_each(ids: Sequence[Id], handle: Callable[[Id], None]) -> BulkResult:
    """Handle each id once. A refusal comes before anything is written for that id, so there is nothing to undo."""
    done: list[PublicId] = []
    refused: list[BulkRefusal] = []
    for id_ in dict.fromkeys(ids):
        try:
            handle(id_)
            done.append(id_)
        except (NotFound, Conflict) as error:
            refused.append(BulkRefusal(id_, error))
    return BulkResult(tuple(done), tuple(refused))
