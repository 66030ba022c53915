"""What the catalogue needs of the store, and of a marketplace to read stored bodies again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from sellerwatch.catalog.changes import ChangeFilter, FoundFilter, FoundProducts, ListedChange
from sellerwatch.catalog.differences import Change, ChangeKind
from sellerwatch.catalog.facts import DetailFacts, ListFacts, OptionFacts
from sellerwatch.catalog.product import PartType, Product, ProductEvent, ProductState
from sellerwatch.catalog.quarantine import Case, CaseStatus, HeldPart
from sellerwatch.catalog.removal import Removal, RemovalStatus
from sellerwatch.catalog.resync import Resync, ResyncChoice, ResyncStatus
from sellerwatch.kernel.answer_problem import AnswerProblem
from sellerwatch.kernel.errors import Failed
from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.kernel.ids import CaseId, ExecutionId, ItemNo, OutboxId, ProductId, RemovalId, ResyncId, SellerId
from sellerwatch.kernel.paging import Cursor, Page
from sellerwatch.oversight.backups import BackupsTx
from sellerwatch.sellers.ports import SellersTx

PartKey = tuple[ItemNo, PartType]


class RawPart(Struct, frozen=True):
    """A body to store. It is stored only when the part changed."""

    product_id: ProductId
    part: PartType
    digest: str
    body: bytes
    created_at: datetime


@dataclass(frozen=True, slots=True)
class StoredBody:
    """A stored body of a part. The newest one is what productData is made of."""

    part: PartType
    digest: str
    body: bytes
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ProductCounts:
    """How many products a seller has in the catalogue. `present` leaves out deleted ones; `complete` are present."""

    present: int
    complete: int
    deleted: int


@dataclass(frozen=True, slots=True)
class ListCounts:
    """The list of a run compared with the catalogue: `told` products had an event and are not deleted, `seen` were on
    the list, `missing` had an event and were not on the list."""

    told: int
    seen: int
    missing: int


class Products(Protocol):
    def of_items(self, items: Sequence[ItemNo]) -> dict[ItemNo, Product]: ...

    def add(self, products: Iterable[Product]) -> None: ...

    def save(self, products: Iterable[Product]) -> None: ...

    def note_listed(self, products: Iterable[Product]) -> None:
        """Save only when and in which run these products were listed."""

    def list_counts(self, seller_id: SellerId, execution_id: ExecutionId) -> ListCounts: ...

    def missing(self, seller_id: SellerId, execution_id: ExecutionId) -> Sequence[Product]:
        """Return products that had an event, are not deleted, and are not on the list of this run."""

    def unseen_since(self, seller_id: SellerId, since: datetime, limit: int) -> Sequence[Product]:
        """Return products that had an event, are not deleted, and were on no list since then."""

    def count_unseen_since(self, seller_id: SellerId, since: datetime) -> int: ...

    def present_of(self, seller_id: SellerId, limit: int) -> Sequence[Product]:
        """Return products of a seller that are not deleted, with or without an event."""


class ReadTimes(Protocol):
    """When the detail and the options of products were last read, also where nothing had changed. When their list entry
    was is `last_seen_at`."""

    def note(self, part: PartType, items: Sequence[ItemNo], at: datetime) -> None: ...


class ProductQueries(Protocol):
    """Read-only lists and counts of products, for people."""

    def complete_after(self, row: int, seller_id: SellerId | None, limit: int) -> Sequence[tuple[int, Product]]:
        """Return the next complete products behind a row, each with its row."""

    def page(
        self,
        *,
        seller_id: SellerId | None,
        state: ProductState | None,
        cursor: Cursor | None,
        limit: int,
        search: str | None = None,
        updated: tuple[datetime, datetime] | None = None,
        found: FoundFilter | None = None,
    ) -> Page[Product]:
        """Return the next products behind a cursor, first seen first. `search` is a part of the name in any case.

        `updated`: those that changed from the first of these times until the second, the one that changed first
        first."""

    def count(self, seller_id: SellerId | None = None, state: ProductState | None = None) -> int: ...

    def counts(self, seller_id: SellerId) -> ProductCounts: ...


class ProductBodies(Protocol):
    """The stored bodies of products, and the hashes of the bodies last read."""

    def keep_raw(self, parts: Iterable[RawPart]) -> None: ...

    def latest_raws(
        self, product_ids: Sequence[ProductId], part: PartType | None = None
    ) -> dict[ProductId, dict[PartType, bytes]]:
        """Return the newest body of each part, or of this one."""

    def bodies_of(self, product_id: ProductId, part: PartType | None, limit: int) -> Sequence[StoredBody]:
        """Return stored bodies, newest first."""

    def old_raws(self, before: datetime, limit: int) -> Sequence[int]:
        """Return the rows of bodies older than that which have a newer one of their part."""

    def forget_raws(self, rows: Sequence[int]) -> int: ...

    def body_hashes(self, items: Sequence[ItemNo]) -> dict[PartKey, str]:
        """Return the hashes of the bodies that the parts of these products were last read from."""

    def keep_body_hashes(self, hashes: Mapping[PartKey, str]) -> None: ...

    def forget_body_hashes(self, items: Sequence[ItemNo]) -> None: ...


class TextConversions(Protocol):
    """Texts that older versions stored whole, to be compressed against a stored detail."""

    def are_pending(self) -> bool: ...

    def convert_next(self, rows: int, now: datetime) -> bool:
        """Convert the texts of the next rows of a table. Return whether there was anything left to look at."""


class HistoryEntry(Struct, frozen=True):
    """A state of a product, as its differences from the state before.

    A creation is stored as the `whole` event, and becomes changes only when it is read: most never are.
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
        """Return the entries, oldest first; with a limit the last ones."""


class Changes(Protocol):
    """The feed of changes. It is written with the history."""

    def page(self, choice: ChangeFilter, cursor: Cursor | None, limit: int) -> Page[ListedChange]:
        """Return the next changes behind a cursor, newest first. A page may be short and not the last."""
        ...

    def found_by(self, execution_id: ExecutionId, seller_id: SellerId, since: datetime) -> FoundProducts:
        """Count the products of a seller's run that began at `since`. What a later run has listed is not `unchanged`
        by this one any more."""
        ...

    def count_by_kind(self, seller_id: SellerId, since: datetime, until: datetime) -> Mapping[ChangeKind, int]:
        """Count the changes of a seller found from `since` on and before `until`."""
        ...


class Quarantine(Protocol):
    def open_cases(self, seller_id: SellerId) -> Sequence[Case]: ...

    def get(self, case_id: CaseId) -> Case | None: ...

    def add(self, case: Case) -> None: ...

    def save(self, case: Case) -> None: ...

    def page(
        self, *, seller_id: SellerId | None, status: CaseStatus | None, cursor: Cursor | None, limit: int
    ) -> Page[Case]:
        """Return the next entries behind a cursor, newest first."""

    def pending_runs(self) -> Sequence[ExecutionId]:
        """Return the runs with pending parts."""


class HeldParts(Protocol):
    """Parts that are held under a case, or pending until more parts of their run were checked."""

    def held(self, items: Sequence[ItemNo]) -> dict[PartKey, HeldPart]:
        """Return the held parts of these products, without bodies."""

    def pending(self, execution_id: ExecutionId, part: PartType | None) -> Sequence[HeldPart]:
        """Return the pending parts of a run, with bodies."""

    def of_case(self, case_id: CaseId, after: ItemNo, limit: int) -> Sequence[HeldPart]:
        """Return the parts held under a case with an item number above `after`, in that order, with bodies."""

    def items_of_case(self, case_id: CaseId, limit: int) -> Sequence[ItemNo]:
        """Return the first item numbers held under a case."""

    def count_held(self, case_ids: Sequence[CaseId]) -> dict[CaseId, int]: ...

    def put(self, parts: Iterable[HeldPart]) -> None:
        """Save held parts; each replaces an earlier one of the same part."""

    def free(self, keys: Iterable[PartKey]) -> None: ...

    def free_case(self, case_id: CaseId) -> int:
        """Delete what is held under a case; return how many parts that were."""

    def drop(self, case_id: CaseId) -> int:
        """Delete the bodies held under a case and keep their hashes; return how many parts that were."""


class Removals(Protocol):
    def held_of(self, seller_id: SellerId) -> Removal | None: ...

    def get(self, removal_id: RemovalId) -> Removal | None: ...

    def add(self, removal: Removal) -> None: ...

    def save(self, removal: Removal) -> None: ...

    def page(
        self, *, seller_id: SellerId | None, status: RemovalStatus | None, cursor: Cursor | None, limit: int
    ) -> Page[Removal]:
        """Return the next entries behind a cursor, newest first."""


@dataclass(frozen=True, slots=True)
class ResyncCounts:
    """The products of a choice: those that a resync is about, the deleted ones of them, those left out because they
    never had an event, and the row of the last one."""

    products: int
    deleted: int
    left_out: int
    last_row: int


class Resyncs(Protocol):
    def add(self, resync: Resync) -> None: ...

    def save(self, resync: Resync) -> None: ...

    def get(self, resync_id: ResyncId) -> Resync | None: ...

    def open_of(self, seller_id: SellerId | None) -> Resync | None:
        """Return the unfinished resync of this seller; without a seller that of all sellers."""

    def running(self) -> Sequence[ResyncId]: ...

    def page(
        self, *, seller_id: SellerId | None, status: ResyncStatus | None, cursor: Cursor | None, limit: int
    ) -> Page[Resync]:
        """Return the next entries behind a cursor, newest first."""

    def counts(self, choice: ResyncChoice) -> ResyncCounts: ...

    def products(self, resync: Resync, limit: int) -> Sequence[tuple[int, ItemNo]]:
        """Return the next products that are not written yet, each with its row."""

    def waiting(self, seller_id: SellerId | None) -> int:
        """Count the snapshots, of one seller or of all, that are on their way and not held."""


@dataclass(frozen=True, slots=True)
class UnknownField:
    """A field that the contract does not have, with how often it was found."""

    endpoint: str
    path: str
    times: int
    item_no: ItemNo | None
    first_seen_at: datetime
    last_seen_at: datetime


class Drift(Protocol):
    """The drift report: fields in the marketplace's answers that the contract does not have."""

    def note(self, endpoint: str, paths: Iterable[str], item_no: ItemNo | None, now: datetime) -> None: ...

    def all(self) -> Sequence[UnknownField]: ...


@dataclass(eq=False)
class Unparsable(Failed):
    """An answer that does not follow the contract; `problem` names the field and what is wrong with it."""

    endpoint: str
    problem: AnswerProblem
    #: Cut off, an error page, or about another item. That may pass; an answer of another shape does not.
    is_garbled: bool = False

    def failure(self, at: datetime) -> Failure:
        """Return what it is for the task or the start that asked."""
        return Failure.of(FailureCode.UNREADABLE, at, None, endpoint=self.endpoint, **self.problem.failure_facts)


class Reader(Protocol):
    """Reads the bodies of the three parts: the half of a marketplace without requests."""

    def read_entry(self, raw: bytes) -> ListFacts: ...

    def read_detail(self, body: bytes, item_no: ItemNo) -> DetailFacts: ...

    def read_options(self, body: bytes, item_no: ItemNo) -> OptionFacts: ...


class CatalogTx(SellersTx, BackupsTx, Protocol):
    @property
    def products(self) -> Products: ...

    @property
    def read_times(self) -> ReadTimes: ...

    @property
    def product_queries(self) -> ProductQueries: ...

    @property
    def bodies(self) -> ProductBodies: ...

    @property
    def text_conversions(self) -> TextConversions: ...

    @property
    def history(self) -> History: ...

    @property
    def changes(self) -> Changes: ...

    @property
    def quarantine(self) -> Quarantine: ...

    @property
    def held_parts(self) -> HeldParts: ...

    @property
    def removals(self) -> Removals: ...

    @property
    def resyncs(self) -> Resyncs: ...

    @property
    def drift(self) -> Drift: ...
