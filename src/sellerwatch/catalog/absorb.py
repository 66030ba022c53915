"""Taking a part into a product: compare its facts with what is known, keep what is new.

Works on one product at a time and on values alone; the caller loads and saves in groups.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from sellerwatch.catalog.facts import DetailFacts, Facts, digest
from sellerwatch.catalog.ports import RawPart
from sellerwatch.catalog.product import ForeignProduct, PartType, Product
from sellerwatch.kernel.ids import ExecutionId, ItemNo, ProductId, SellerId


@dataclass(frozen=True, slots=True)
class Part:
    """A part that was read: its facts, their digest and the body. Made before the transaction that absorbs it."""

    type: PartType
    item_no: ItemNo
    facts: Facts
    digest: str
    body: bytes

    @classmethod
    def of(cls, type_: PartType, item_no: ItemNo, facts: Facts, body: bytes) -> Part:
        return cls(type_, item_no, facts, digest(facts), body)


@dataclass
class Shelf:
    """The products of one group, as they stand during its transaction, and what has to be written at its end."""

    products: dict[ItemNo, Product]
    added: set[ItemNo] = field(default_factory=set)
    touched: set[ItemNo] = field(default_factory=set)
    raws: list[RawPart] = field(default_factory=list)
    facts: dict[tuple[ItemNo, PartType], Facts] = field(default_factory=dict)

    def put(self, product: Product, *, new: bool = False) -> None:
        self.products[product.item_no] = product
        (self.added if new else self.touched).add(product.item_no)

    def written(self) -> tuple[list[Product], list[Product]]:
        """Products to add and products to save, each in a fixed order."""
        changed = sorted(self.touched - self.added)
        return [self.products[i] for i in sorted(self.added)], [self.products[i] for i in changed]


def absorb_entry(
    shelf: Shelf, part: Part, product_id: ProductId, seller_id: SellerId, execution_id: ExecutionId, now: datetime
) -> Product | None:
    """A product on a list page; made if unknown. None: it is known to be another seller's, and is left alone.

    A list does not say whose an item is. Until a detail has said it, the item stands with whoever showed it first.
    """
    known = shelf.products.get(part.item_no)
    if known is not None and known.seller_id != seller_id and known.detail_hash is not None:
        return None
    product = known or Product.create(product_id, part.item_no, seller_id, now)
    product = product.be_listed(execution_id, now) if product.seller_id == seller_id else product
    return _keep(shelf, product, part, now, new=known is None)


def absorb_part(shelf: Shelf, part: Part, seller_id: SellerId, now: datetime) -> Product | None:
    """A detail or the options of a product. None: the product is not there (any more).

    A detail that names another seller raises `ForeignProduct`: nothing of it is taken in, and the product stands with
    its owner from then on.
    """
    product = shelf.products.get(part.item_no)
    if product is None:
        return None
    if isinstance(part.facts, DetailFacts):
        owner = part.facts.seller_id
        if owner != seller_id:
            if product.detail_hash is None:
                shelf.put(product.belong_to(owner, now))
            raise ForeignProduct(item_no=part.item_no, seller_id=seller_id, owner=owner)
        product = product.belong_to(owner, now)
    return _keep(shelf, product, part, now)


def _keep(shelf: Shelf, product: Product, part: Part, now: datetime, *, new: bool = False) -> Product:
    before = shelf.products.get(part.item_no)
    product, changed = product.see_part(part.type, part.digest, now)
    shelf.facts[part.item_no, part.type] = part.facts
    if changed:
        shelf.raws.append(RawPart(product.product_id, part.type, part.digest, part.body, now))
    if new or product is not before:
        shelf.put(product, new=new)
    return product
