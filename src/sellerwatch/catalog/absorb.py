"""Take a part into a product: compare its facts with what is stored, keep what is new.

Works on one product at a time and on values only; the caller loads and saves in batches.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

from msgspec import Struct

from sellerwatch.catalog.facts import Facts, NormalizedPart
from sellerwatch.catalog.ports import HistoryEntry, PartKey, RawPart, Reader
from sellerwatch.catalog.product import ForeignProduct, PartType, Product
from sellerwatch.catalog.quarantine import HeldPart
from sellerwatch.kernel.ids import ExecutionId, ItemNo, ProductId, SellerId
from sellerwatch.outbox.message import Message


class Part(Struct, frozen=True):
    """A part that was read: its normalized facts, their digest, and the body. Made before the transaction that absorbs
    it.

    Without facts the body equals the last one and need not be read. List entries have no body hash: they are read from
    their page anyway.
    """

    type: PartType
    item_no: ItemNo
    normalized: NormalizedPart | None
    digest: str | None
    body: bytes
    body_hash: str | None = None

    @classmethod
    def of(cls, type_: PartType, item_no: ItemNo, facts: Facts, body: bytes, body_hash: str | None = None) -> Part:
        normalized = NormalizedPart.of(facts)
        return cls(type_, item_no, normalized, normalized.digest, body, body_hash)

    @classmethod
    def same(cls, type_: PartType, item_no: ItemNo) -> Part:
        return cls(type_, item_no, None, None, b"")

    @property
    def key(self) -> PartKey:
        return self.item_no, self.type


def read_part(reader: Reader, type_: PartType, item_no: ItemNo, body: bytes) -> Facts:
    """Return the facts of a body, read with the parser of this version."""
    if type_ is PartType.MINISHOP:
        return reader.read_entry(body)
    return reader.read_detail(body, item_no) if type_ is PartType.DETAIL else reader.read_options(body, item_no)


EntryKey = tuple[ItemNo, str]


@dataclass(frozen=True)
class EntryChanges:
    """List entries that a transaction has `read`, and those that it has `used` and that are not needed again."""

    read: Mapping[EntryKey, NormalizedPart] = field(default_factory=dict)
    used: Collection[EntryKey] = ()


class EntryCache:
    """List entries of products whose event is still to come, by product and digest.

    A product's list entry is read long before the rest of the product; without this it is read again from its body. A
    transaction only looks entries up; what it returns is put in after its commit. When the cache is full, the entries
    that were put in first are dropped.
    """

    MOST = 10_000

    def __init__(self) -> None:
        self._entries: dict[EntryKey, NormalizedPart] = {}

    def get(self, key: EntryKey) -> NormalizedPart | None:
        return self._entries.get(key)

    def update(self, changes: EntryChanges) -> None:
        """Take over the changes of a transaction that is committed."""
        for key in changes.used:
            self._entries.pop(key, None)
        for key, entry in changes.read.items():
            if key not in changes.used:
                self._entries.pop(key, None)
                self._entries[key] = entry
        for key in list(islice(self._entries, max(len(self._entries) - self.MOST, 0))):
            del self._entries[key]


@dataclass
class ProductBatch:
    """The products of one batch during its transaction, and what is written at its end."""

    products: dict[ItemNo, Product]
    stored: Mapping[ProductId, Mapping[PartType, bytes]] = field(default_factory=dict)
    withheld: dict[PartKey, HeldPart | None] = field(default_factory=dict)
    added: set[ItemNo] = field(default_factory=set)
    touched: set[ItemNo] = field(default_factory=set)
    raws: list[RawPart] = field(default_factory=list)
    normalized: dict[PartKey, NormalizedPart] = field(default_factory=dict)
    body_hashes: dict[PartKey, str] = field(default_factory=dict)
    history: list[HistoryEntry] = field(default_factory=list)
    deleted: list[ItemNo] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    listed: set[ItemNo] = field(default_factory=set)
    entries: EntryCache = field(default_factory=EntryCache)
    entries_read: dict[EntryKey, NormalizedPart] = field(default_factory=dict)
    entries_used: set[EntryKey] = field(default_factory=set)
    read: dict[tuple[PartType, datetime], list[ItemNo]] = field(default_factory=dict)

    def note_read(self, part: Part, at: datetime) -> None:
        """Note when a detail or options were read and nothing of them was withheld, whether or not they changed."""
        if self.withheld.get(part.key) is None and part.type is not PartType.MINISHOP:
            self.read.setdefault((part.type, at), []).append(part.item_no)

    def put(self, product: Product, *, new: bool = False) -> None:
        self.products[product.item_no] = product
        (self.added if new else self.touched).add(product.item_no)

    def recall(self, item_no: ItemNo) -> None:
        """Have the list entry of a product at hand, if it is in the cache."""
        digest = self.products[item_no].minishop_hash
        if digest is None:
            return
        key = item_no, digest
        self.entries_used.add(key)
        if (item_no, PartType.MINISHOP) not in self.normalized and (entry := self.entries.get(key)) is not None:
            self.normalized[item_no, PartType.MINISHOP] = entry

    @property
    def entry_changes(self) -> EntryChanges:
        """Return what is put into the cache of entries after the commit."""
        return EntryChanges(self.entries_read, self.entries_used)

    def take_messages(self) -> list[Message]:
        """Return the events to add, once."""
        taken, self.messages = self.messages, []
        return taken

    def take_products(self) -> tuple[list[Product], list[Product], list[Product]]:
        """Return the products to add, to save, and to note as listed, each in a fixed order, once."""
        taken = sorted(self.added), sorted(self.touched - self.added), sorted(self.listed - self.touched - self.added)
        self.added, self.touched, self.listed = set(), set(), set()
        added, changed, listed = ([self.products[item] for item in items] for items in taken)
        return added, changed, listed


def absorb_entry(
    product_batch: ProductBatch,
    part: Part,
    product_id: ProductId,
    seller_id: SellerId,
    execution_id: ExecutionId,
    now: datetime,
) -> Product | None:
    """Take in a product on a list page; create it if unknown. Return None for another seller's product.

    A list does not name the owner of a product. Until a detail names it, the seller who listed it first is the owner.
    """
    known = product_batch.products.get(part.item_no)
    if known is not None and known.seller_id != seller_id and known.detail_hash is not None:
        return None
    product = known or Product.create(product_id, part.item_no, seller_id, now)
    if product.seller_id == seller_id:
        product = product_batch.products[part.item_no] = product.be_listed(execution_id, now)
        product_batch.listed.add(part.item_no)
    return _keep(product_batch, product, part, now, new=known is None)


def absorb_part(product_batch: ProductBatch, part: Part, seller_id: SellerId, now: datetime) -> Product | None:
    """Take in the detail or the options of a product. Return None if the product does not exist (any more).

    A detail that names another seller raises `ForeignProduct`: nothing of it is taken in, and its owner is corrected.
    """
    product = product_batch.products.get(part.item_no)
    if product is None:
        return None
    owner = part.normalized.owner if part.normalized is not None else None
    if owner is not None:
        if owner != seller_id:
            if product.detail_hash is None:
                product_batch.put(product.belong_to(owner, now))
            raise ForeignProduct(item_no=part.item_no, seller_id=seller_id, owner=owner)
        product = product.belong_to(owner, now)
    return _keep(product_batch, product, part, now)


def _keep(product_batch: ProductBatch, product: Product, part: Part, now: datetime, *, new: bool = False) -> Product:
    before, key = product_batch.products.get(part.item_no), part.key
    if part.normalized is not None and part.digest is not None and key not in product_batch.withheld:
        product, changed = product.see_part(part.type, part.digest, now)
        product_batch.normalized[key] = part.normalized
        if changed:
            product_batch.raws.append(RawPart(product.product_id, part.type, part.digest, part.body, now))
            if part.type is PartType.MINISHOP:
                product_batch.entries_read[part.item_no, part.digest] = part.normalized
        if part.body_hash is not None:
            product_batch.body_hashes[key] = part.body_hash
    if new or product is not before:
        product_batch.put(product, new=new)
    return product
