"""Several things handled one by one: what is refused is reported, and keeps nothing else from being done."""

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


@dataclass(frozen=True)
class RefusedView(View):
    """One of several that could not be handled, and why."""

    id: str
    error_code: Annotated[str, About(example="ILLEGAL_MOVE")]
    message: str


@dataclass(frozen=True)
class BulkView(View):
    """What became of several: each is in one of the two lists."""

    done: Sequence[str]
    refused: Sequence[RefusedView]

    @classmethod
    def of(cls, result: BulkResult, language: str) -> BulkView:
        return cls(result.done, refused_views(result, language))


def refused_views(result: BulkResult, language: str) -> Sequence[RefusedView]:
    """Return what was refused, with sentences in this language."""
    words = catalogue(language)
    return [
        RefusedView(each.id, each.error.code, word(each.error.code, each.error.facts, words)) for each in result.refused
    ]
