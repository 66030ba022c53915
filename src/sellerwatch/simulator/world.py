"""The truth: the sellers, what they sell, and the order of their lists."""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain
from random import Random
from typing import Any

from sellerwatch.simulator.changes import CHANGES
from sellerwatch.simulator.generation import FIRST_ITEM_NO, generate
from sellerwatch.simulator.product import SimulatedProduct, truth
from sellerwatch.simulator.recent import LruCache

STRANGER = "stranger_0001"
"""A seller on no list: its items turn up on a seller's pages when there is no second seller to take them from."""
_STRANGER_ITEMS = range(FIRST_ITEM_NO - 100_000, FIRST_ITEM_NO - 99_900)
_FIRST_SELLER_NO = 678
_PRODUCTS_AT_HAND = 8_192


class MutationKind(Enum):
    """What was done to a product."""

    CHANGED = "changed"
    APPEARED = "appeared"
    VANISHED = "vanished"
    BUMPED = "bumped"


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change of the world; `how` names the change of a changed product."""

    kind: MutationKind
    item_no: int
    seller_id: str
    how: str = ""


LIFELIKE: Mapping[MutationKind, int] = {
    MutationKind.CHANGED: 80,
    MutationKind.APPEARED: 8,
    MutationKind.VANISHED: 6,
    MutationKind.BUMPED: 6,
}
"""How often each kind of change is made, relative to the others, in an ordinary mutation."""
CHANGES_ONLY: Mapping[MutationKind, int] = {MutationKind.CHANGED: 1}


class World:
    """Sellers `seller_0001`, `seller_0002`, ... with the same number of products each, generated from a seed.

    Products are generated on request and only changed ones are kept, so memory grows with the changes (about 3 KB a
    changed product), not with the size of the catalogue: 200,000 untouched products take 2 MB, and the 8,192 used last
    some 20 MB more. `vanish` and `bump` walk one seller's list, so a single seller of millions would be slow.
    """

    def __init__(
        self,
        seed: int | str = 0,
        sellers: int = 3,
        products_per_seller: int = 100,
        detail_kb: int | None = None,
        random_text: bool = False,
    ) -> None:
        self._seed = str(seed)
        self._per_seller = products_per_seller
        self._detail_kb = detail_kb
        self._random_text = random_text
        self._lists = {f"seller_{number + 1:04d}": array("q", self._initial_items(number)) for number in range(sellers)}
        self._seller_nos = {seller: _FIRST_SELLER_NO + at for at, seller in enumerate(self._lists)}
        self._sellers = tuple(self._lists)
        self._end_of_initial = FIRST_ITEM_NO + sellers * products_per_seller
        self._next_item_no = self._end_of_initial
        self._changed: dict[int, SimulatedProduct] = {}
        self._newcomers: dict[int, str] = {}
        self._gone: set[int] = set()
        self._at_hand: LruCache[int, SimulatedProduct] = LruCache(_PRODUCTS_AT_HAND)

    def _initial_items(self, seller: int) -> range:
        """Newest first, as the LATEST order has it."""
        first = FIRST_ITEM_NO + seller * self._per_seller
        return range(first + self._per_seller - 1, first - 1, -1)

    @property
    def sellers(self) -> tuple[str, ...]:
        return self._sellers

    def __len__(self) -> int:
        """Return how many products there are."""
        return sum(map(len, self._lists.values()))

    def count(self, seller_id: str) -> int:
        return len(self._lists.get(seller_id, ()))

    def listing(self, seller_id: str, start: int = 0, stop: int | None = None) -> Sequence[int]:
        """Return item numbers of a seller as its list shows them, from `start` up to `stop`; none for an unknown
        seller."""
        items = self._lists.get(seller_id)
        return items[start:stop] if items is not None else ()

    def seller_of(self, item_no: int) -> str | None:
        """Return the seller of a product, existing or not; None for a number that never existed."""
        if FIRST_ITEM_NO <= item_no < self._end_of_initial:
            return self._sellers[(item_no - FIRST_ITEM_NO) // self._per_seller]
        if item_no in _STRANGER_ITEMS:
            return STRANGER
        return self._newcomers.get(item_no)

    def product(self, item_no: int) -> SimulatedProduct | None:
        """Return the product as it is now; None when it is gone or never existed."""
        seller_id = self.seller_of(item_no)
        if seller_id is None or item_no in self._gone:
            return None
        product = self._changed.get(item_no) or self._at_hand.get(item_no)
        if product is None:
            seller_no = self._seller_nos.get(seller_id, 1)
            product = generate(self._seed, item_no, seller_id, seller_no, self._detail_kb, self._random_text)
            self._at_hand.put(item_no, product)
        return product

    def keep_all(self) -> None:
        """Keep every generated product, about 3 KB each."""
        self._at_hand.keep_all()

    def truth(self, item_no: int) -> dict[str, Any] | None:
        """Return the `productData` of event.md that the product server must hold; None when it must hold nothing."""
        product = self.product(item_no)
        return truth(product) if product else None

    def catalogue(self, seller_id: str | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield every listed item of one seller, or of all, with its truth. Do not change the world meanwhile."""
        lists = self._lists.values() if seller_id is None else (self._lists.get(seller_id, array("q")),)
        for item_no in chain.from_iterable(lists):
            product = self.product(item_no)
            if product is not None:
                yield item_no, truth(product)

    def stranger_to(self, seller_id: str, rng: Random) -> int:
        """Return an item that exists but is not this seller's."""
        others = [other for other in self._sellers if other != seller_id and self._lists[other]]
        return rng.choice(self._lists[rng.choice(others)]) if others else rng.choice(_STRANGER_ITEMS)

    def put(self, product: SimulatedProduct) -> SimulatedProduct:
        """Replace a product. Returns it as stored, with its next revision."""
        current = self._existing(product.item_no)
        kept = replace(product, revision=current.revision + 1)
        self._changed[product.item_no] = kept
        self._at_hand.forget(product.item_no)
        return kept

    def change(self, item_no: int, rng: Random, how: str | None = None) -> Mutation:
        """Change a product, by the named change or a random one. Its productData differs afterwards."""
        product = self._existing(item_no)
        before = truth(product)
        names = [how] if how else rng.sample(list(CHANGES), len(CHANGES))
        for name in names:
            changed = CHANGES[name](product, rng)
            if truth(changed) != before:
                self.put(changed)
                return Mutation(MutationKind.CHANGED, item_no, product.seller_id, name)
        raise ValueError(f"{how} changes nothing about item {item_no}")

    def appear(self, seller_id: str) -> Mutation:
        """Add a new product at the top of the seller's list."""
        items = self._lists[seller_id]
        item_no = self._next_item_no
        self._next_item_no += 1
        self._newcomers[item_no] = seller_id
        items.insert(0, item_no)
        return Mutation(MutationKind.APPEARED, item_no, seller_id)

    def vanish(self, item_no: int) -> Mutation:
        """Remove a product from its list; its detail answers 404."""
        product = self._existing(item_no)
        self._lists[product.seller_id].remove(item_no)
        self._gone.add(item_no)
        self._changed.pop(item_no, None)
        self._at_hand.forget(item_no)
        return Mutation(MutationKind.VANISHED, item_no, product.seller_id)

    def bump(self, item_no: int) -> Mutation:
        """Move a product to the top of its list, which moves others to the next page; nothing else of it changes."""
        product = self._existing(item_no)
        items = self._lists[product.seller_id]
        items.remove(item_no)
        items.insert(0, item_no)
        return Mutation(MutationKind.BUMPED, item_no, product.seller_id)

    def mutate(
        self, count: int, rng: Random, mix: Mapping[MutationKind, int] = LIFELIKE, how: str | None = None
    ) -> tuple[Mutation, ...]:
        """Apply a mix of changes to `count` different products, or to all if there are fewer. `how` names the change of
        all changed products; without it each gets a random one.

        At most a tenth of a seller vanishes in one call: more would look like a mass removal, which a crawler holds.
        """
        everything = list(chain.from_iterable(self._lists.values()))
        chosen = rng.sample(everything, min(count, len(everything)))
        kinds = rng.choices(list(mix), list(mix.values()), k=len(chosen))
        may_vanish = {seller: len(items) // 10 for seller, items in self._lists.items()}
        done = []
        for item_no, kind in zip(chosen, kinds, strict=True):
            seller_id = self._existing(item_no).seller_id
            if kind is MutationKind.VANISHED:
                may_vanish[seller_id] -= 1
            if kind is MutationKind.VANISHED and may_vanish[seller_id] >= 0:
                done.append(self.vanish(item_no))
            elif kind is MutationKind.APPEARED:
                done.append(self.appear(seller_id))
            elif kind is MutationKind.BUMPED:
                done.append(self.bump(item_no))
            else:
                done.append(self.change(item_no, rng, how))
        return tuple(done)

    def _existing(self, item_no: int) -> SimulatedProduct:
        product = self.product(item_no)
        if product is None or product.seller_id == STRANGER:
            raise KeyError(f"no product {item_no} in this world")
        return product
