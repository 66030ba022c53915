"""What the catalogue needs of the store, and of a marketplace to read stored bodies again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from sellerwatch.catalog.differences import Change
from sellerwatch.catalog.facts import DetailFacts, ListFacts, OptionFacts
from sellerwatch.catalog.product import PartType, Product, ProductEvent, ProductState
from sellerwatch.catalog.quarantine import Case, CaseStatus, HeldPart
from sellerwatch.catalog.removal import Removal, RemovalStatus
from sellerwatch.kernel.errors import Failed
from sellerwatch.kernel.fast_values import quick
from sellerwatch.kernel.ids import CaseId, ExecutionId, ItemNo, OutboxId, ProductId, RemovalId, SellerId
from sellerwatch.kernel.paging import Cursor, Page
from sellerwatch.sellers.ports import SellersTx

PartKey = tuple[ItemNo, PartType]


@quick
@dataclass(frozen=True, slots=True)
class RawPart:
    """A body as it came; a new one is kept only when the part changed."""

    product_id: ProductId
    part: PartType
    digest: str
    body: bytes
    created_at: datetime


@dataclass(frozen=True, slots=True)
class StoredBody:
    """One kept body of a part, for those who look; the newest is what the product is made of."""

    part: PartType
    digest: str
    body: bytes
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ProductCounts:
    """How many products a seller has with us. `present` leaves out the deleted ones; `complete` is of the present."""

    present: int
    complete: int
    deleted: int


@dataclass(frozen=True, slots=True)
class ListStanding:
    """How a run's list compares with what we have: `told` were told to the receiver and not deleted, `seen` stood on
    this run's list, `missing` are told and did not."""

    told: int
    seen: int
    missing: int


class Products(Protocol):
    def of_items(self, items: Sequence[ItemNo]) -> dict[ItemNo, Product]: ...

    def add(self, products: Iterable[Product]) -> None: ...

    def save(self, products: Iterable[Product]) -> None: ...

    def note_listed(self, products: Iterable[Product]) -> None:
        """Write of these only when and in which run they stood on a list."""
        ...

    def list_standing(self, seller_id: SellerId, execution_id: ExecutionId) -> ListStanding: ...

    def missing(self, seller_id: SellerId, execution_id: ExecutionId) -> Sequence[Product]:
        """Told, not deleted, and not on this run's list."""
        ...

    def unseen_since(self, seller_id: SellerId, since: datetime, limit: int) -> Sequence[Product]:
        """Told, not deleted, and on no list since then."""
        ...

    def count_unseen_since(self, seller_id: SellerId, since: datetime) -> int: ...


class ProductQueries(Protocol):
    """Read-only lists and counts of products, for people."""

    def complete_after(self, row: int, seller_id: SellerId | None, limit: int) -> Sequence[tuple[int, Product]]:
        """Return the next complete products behind a row, each with its row."""
        ...

    def page(
        self,
        *,
        seller_id: SellerId | None,
        state: ProductState | None,
        cursor: Cursor | None,
        limit: int,
        search: str | None = None,
    ) -> Page[Product]:
        """In the order in which they were first seen, behind a cursor. `search` is a piece of the name; A is a."""
        ...

    def count(self, seller_id: SellerId | None = None, state: ProductState | None = None) -> int: ...

    def counts(self, seller_id: SellerId) -> ProductCounts: ...


class ProductBodies(Protocol):
    """What the marketplace answered about products, as it came, and the hashes of it."""

    def keep_raw(self, parts: Iterable[RawPart]) -> None: ...

    def latest_raws(
        self, product_ids: Sequence[ProductId], part: PartType | None = None
    ) -> dict[ProductId, dict[PartType, bytes]]:
        """The body of each part, or of this one, that was kept last."""
        ...

    def bodies_of(self, product_id: ProductId, part: PartType | None, limit: int) -> Sequence[StoredBody]:
        """Kept bodies, newest first."""
        ...

    def old_raws(self, before: datetime, limit: int) -> Sequence[int]:
        """Bodies older than that which have a newer one of their part, by row."""
        ...

    def forget_raws(self, rows: Sequence[int]) -> int: ...

    def body_hashes(self, items: Sequence[ItemNo]) -> dict[PartKey, str]:
        """What the parts of these products were last read from."""
        ...

    def keep_body_hashes(self, hashes: Mapping[PartKey, str]) -> None: ...

    def forget_body_hashes(self, items: Sequence[ItemNo]) -> None: ...


@quick
@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One state a product was found in: how it differs from the one before.

    A creation is written as the `whole` product, in JSON, and read as its changes from nothing: most are never read.
    """

    product_id: ProductId
    item_no: ItemNo
    seller_id: SellerId
    execution_id: ExecutionId | None
    outbox_id: OutboxId | None
    event: ProductEvent
    version: int
    changes: tuple[Change, ...]
    created_at: datetime
    whole: bytes = b""


class History(Protocol):
    def add(self, entries: Iterable[HistoryEntry]) -> None: ...

    def of_product(self, product_id: ProductId, limit: int | None = None) -> Sequence[HistoryEntry]:
        """In the order it happened; with a limit the last so many."""
        ...


class Quarantine(Protocol):
    def open_cases(self, seller_id: SellerId) -> Sequence[Case]: ...

    def get(self, case_id: CaseId) -> Case | None: ...

    def add(self, case: Case) -> None: ...

    def save(self, case: Case) -> None: ...

    def page(
        self, *, seller_id: SellerId | None, status: CaseStatus | None, cursor: Cursor | None, limit: int
    ) -> Page[Case]:
        """Newest first, behind a cursor."""
        ...

    def pending_runs(self) -> Sequence[ExecutionId]:
        """Runs of which something waits."""
        ...


class HeldParts(Protocol):
    """Parts of products that wait in a case or for the judgement of their run."""

    def held(self, items: Sequence[ItemNo]) -> dict[PartKey, HeldPart]:
        """What stands of these products, without the bodies."""
        ...

    def pending(self, execution_id: ExecutionId, part: PartType | None) -> Sequence[HeldPart]:
        """What waits for the run's judgement, with the bodies."""
        ...

    def of_case(self, case_id: CaseId, after: ItemNo, limit: int) -> Sequence[HeldPart]:
        """Held under a case, in the order of the items behind `after`, with the bodies."""
        ...

    def items_of_case(self, case_id: CaseId, limit: int) -> Sequence[ItemNo]:
        """The first items held under a case."""
        ...

    def count_held(self, case_ids: Sequence[CaseId]) -> dict[CaseId, int]: ...

    def put(self, parts: Iterable[HeldPart]) -> None:
        """In cursor of whatever stood for the part."""
        ...

    def free(self, keys: Iterable[PartKey]) -> None: ...

    def free_case(self, case_id: CaseId) -> int:
        """Delete what is held under a case; return how many parts that were."""
        ...

    def drop(self, case_id: CaseId) -> int:
        """Forget the bodies of a case and keep their hashes; says how many."""
        ...


class Removals(Protocol):
    def held_of(self, seller_id: SellerId) -> Removal | None: ...

    def get(self, removal_id: RemovalId) -> Removal | None: ...

    def add(self, removal: Removal) -> None: ...

    def save(self, removal: Removal) -> None: ...

    def page(
        self, *, seller_id: SellerId | None, status: RemovalStatus | None, cursor: Cursor | None, limit: int
    ) -> Page[Removal]:
        """Newest first, behind a cursor."""
        ...


@dataclass(frozen=True, slots=True)
class UnknownField:
    """A field the contract does not have, as it was met."""

    endpoint: str
    path: str
    times: int
    item_no: ItemNo | None
    first_seen_at: datetime
    last_seen_at: datetime


class Drift(Protocol):
    """The drift report: fields that are new at the marketplace."""

    def note(self, endpoint: str, paths: Iterable[str], item_no: ItemNo | None, now: datetime) -> None: ...

    def all(self) -> Sequence[UnknownField]: ...


@dataclass(eq=False)
class Unparsable(Failed):
    """An answer that is not what the contract says; `problem` names the field and what was wrong with it."""

    endpoint: str
    problem: str
    #: Cut off, an error page, or about another item. That may pass; an answer of another shape does not.
    is_garbled: bool = False


class Reader(Protocol):
    """Reads the three bodies: the pure half of a marketplace."""

    def read_entry(self, raw: bytes) -> ListFacts: ...

    def read_detail(self, body: bytes, item_no: ItemNo) -> DetailFacts: ...

    def read_options(self, body: bytes, item_no: ItemNo) -> OptionFacts: ...


class CatalogTx(SellersTx, Protocol):
    @property
    def products(self) -> Products: ...

    @property
    def product_queries(self) -> ProductQueries: ...

    @property
    def bodies(self) -> ProductBodies: ...

    @property
    def history(self) -> History: ...

    @property
    def quarantine(self) -> Quarantine: ...

    @property
    def held_parts(self) -> HeldParts: ...

    @property
    def removals(self) -> Removals: ...

    @property
    def drift(self) -> Drift: ...
