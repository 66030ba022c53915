"""Share slots among sellers, so that none waits for another's flood or slow answers."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from sellerwatch.kernel.ids import SellerId


def fair_shares(
    slots: int, sellers: Sequence[SellerId], busy: Mapping[SellerId, int], most: Mapping[SellerId, int]
) -> dict[SellerId, int]:
    """Return how many of the free slots each seller gets: one at a time to the seller that has fewest, `busy` ones
    included, and no more than its `most`. Among equals the order of `sellers` decides."""
    shares: dict[SellerId, int] = {}
    waiting = [(busy.get(seller, 0), place, seller) for place, seller in enumerate(sellers)]
    heapq.heapify(waiting)
    while slots > 0 and waiting:
        has, place, seller = waiting[0]
        if has >= most[seller]:
            heapq.heappop(waiting)
            continue
        shares[seller] = shares.get(seller, 0) + 1
        slots -= 1
        heapq.heapreplace(waiting, (has + 1, place, seller))
    return shares
