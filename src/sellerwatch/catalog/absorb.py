"""Taking a part into a product: compare its facts with what is known, keep what is new.

Works on one product at a time and on values alone; the caller loads and saves in groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from sellerwatch.catalog.facts import Facts, NormalizedPart
from sellerwatch.catalog.ports import HistoryEntry, PartKey, RawPart, Reader
from sellerwatch.catalog.product import ForeignProduct, PartType, Product
from sellerwatch.catalog.quarantine import HeldPart
from sellerwatch.kernel.fast_values import fast_frozen
from sellerwatch.kernel.ids import ExecutionId, ItemNo, ProductId, SellerId
from sellerwatch.outbox.message import Message


@fast_frozen
@dataclass(frozen=True, slots=True)
class Part:
    """A part that was read: what it said, its digest and the body. Made before the transaction that absorbs it.

    With nothing said it is the same body as last time, which need not be read. List entries have no hash of a body:
    they are read out of their page in any case.
    """

    type: PartType
    item_no: ItemNo
    said: NormalizedPart | None
    digest: str | None
    body: bytes
    body_hash: str | None = None

    @classmethod
    def of(cls, type_: PartType, item_no: ItemNo, facts: Facts, body: bytes, body_hash: str | None = None) -> Part:
        said = NormalizedPart.of(facts)
        return cls(type_, item_no, said, said.digest, body, body_hash)

    @classmethod
    def same(cls, type_: PartType, item_no: ItemNo) -> Part:
        return cls(type_, item_no, None, None, b"")

    @property
    def key(self) -> PartKey:
        return self.item_no, self.type


def read_part(reader: Reader, type_: PartType, item_no: ItemNo, body: bytes) -> Facts:
    """The facts of a body, by today's parser."""
    if type_ is PartType.MINISHOP:
        return reader.read_entry(body)
    return reader.read_detail(body, item_no) if type_ is PartType.DETAIL else reader.read_options(body, item_no)


class EntryCache:
    """What list pages said of products whose event is still to come, so that it need not be read from its body again:
    a product's list entry comes long before the rest of it.

    One that is not here (too many, another process, a restart) is read again; the digest says which is meant.
    """

    MOST = 10_000

    def __init__(self) -> None:
        self._said: dict[tuple[ItemNo, str], NormalizedPart] = {}

    def keep(self, item_no: ItemNo, digest: str, said: NormalizedPart) -> None:
        if len(self._said) < self.MOST:
            self._said[item_no, digest] = said

    def take(self, item_no: ItemNo, digest: str | None) -> NormalizedPart | None:
        """It is wanted once."""
        return None if digest is None else self._said.pop((item_no, digest), None)


@dataclass
class ProductBatch:
    """The products of one group, as they stand during its transaction, and what has to be written at its end."""

    products: dict[ItemNo, Product]
    stored: Mapping[ProductId, Mapping[PartType, bytes]] = field(default_factory=dict)
    withheld: dict[PartKey, HeldPart | None] = field(default_factory=dict)
    added: set[ItemNo] = field(default_factory=set)
    touched: set[ItemNo] = field(default_factory=set)
    raws: list[RawPart] = field(default_factory=list)
    said: dict[PartKey, NormalizedPart] = field(default_factory=dict)
    body_hashes: dict[PartKey, str] = field(default_factory=dict)
    history: list[HistoryEntry] = field(default_factory=list)
    deleted: list[ItemNo] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    listed: set[ItemNo] = field(default_factory=set)
    entries: EntryCache = field(default_factory=EntryCache)

    def put(self, product: Product, *, new: bool = False) -> None:
        self.products[product.item_no] = product
        (self.added if new else self.touched).add(product.item_no)

    def recall(self, item_no: ItemNo) -> None:
        """Have at hand what the list said of a product, if it is remembered."""
        if (item_no, PartType.MINISHOP) not in self.said:
            said = self.entries.take(item_no, self.products[item_no].minishop_hash)
            if said is not None:
                self.said[item_no, PartType.MINISHOP] = said

    def take_messages(self) -> list[Message]:
        """Events to add; handed out once."""
        taken, self.messages = self.messages, []
        return taken

    def take_products(self) -> tuple[list[Product], list[Product], list[Product]]:
        """Products to add, to save, and to note as listed, each in a fixed order; handed out once."""
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
    """A product on a list page; made if unknown. None: it is known to be another seller's, and is left alone.

    A list does not say whose an item is. Until a detail has said it, the item stands with whoever showed it first.
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
    """A detail or the options of a product. None: the product is not there (any more).

    A detail that names another seller raises `ForeignProduct`: nothing of it is taken in, and the product stands with
    its owner from then on.
    """
    product = product_batch.products.get(part.item_no)
    if product is None:
        return None
    owner = part.said.owner if part.said is not None else None
    if owner is not None:
        if owner != seller_id:
            if product.detail_hash is None:
                product_batch.put(product.belong_to(owner, now))
            raise ForeignProduct(item_no=part.item_no, seller_id=seller_id, owner=owner)
        product = product.belong_to(owner, now)
    return _keep(product_batch, product, part, now)


def _keep(product_batch: ProductBatch, product: Product, part: Part, now: datetime, *, new: bool = False) -> Product:
    before, key = product_batch.products.get(part.item_no), part.key
    if part.said is not None and part.digest is not None and key not in product_batch.withheld:
        product, changed = product.see_part(part.type, part.digest, now)
        product_batch.said[key] = part.said
        if changed:
            product_batch.raws.append(RawPart(product.product_id, part.type, part.digest, part.body, now))
            if part.type is PartType.MINISHOP:
                product_batch.entries.keep(part.item_no, part.digest, part.said)
        if part.body_hash is not None:
            product_batch.body_hashes[key] = part.body_hash
    if new or product is not before:
        product_batch.put(product, new=new)
    return product
