"""Is it the product or the marketplace? A few failures in a row do not tell, so the endpoint is asked about another.

A task whose tries are spent waits while its endpoint has answered nobody else since (`process.py`). Towards the end of
a run nobody else may ask for hours. An answer about another product, even a 404, shows that the trouble is the task's
own; further failures open the endpoint's circuit.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from sellerwatch.agents.answers import Answer
from sellerwatch.agents.ask import Question, ask
from sellerwatch.agents.endpoints import Endpoint
from sellerwatch.agents.marketplace_circuit import MarketplaceCircuit
from sellerwatch.crawling.context import Crawl
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.sellers.seller import SellerStatus

#: How long an endpoint has been silent before it is asked.
SILENT_FOR = timedelta(seconds=10)
#: Products asked about at most in one turn: with the one that failed, enough to open a circuit.
MOST_ASKED = 3
#: Products looked at to find some that have not failed.
LOOKED_AT = 50


def next_check(tx: CrawlTx, _crawl: Crawl, last: datetime | None, _now: datetime) -> datetime | None:
    """Some time after the last failure of an endpoint that has answered nothing since; not more often than that."""
    silent = _silent(tx)
    if not silent or tx.marketplace.pauses():
        return None
    due = min(circuit.recent[-1].at for circuit in silent) + SILENT_FOR
    return due if last is None else max(due, last + SILENT_FOR)


async def check_endpoints(crawl: Crawl) -> int:
    """Ask each silent endpoint about other products until it answers one, or its circuit opens. Returns how many
    answered."""
    return sum([await _answers(crawl, circuit) for circuit in await crawl.store.read(_silent)])


async def _answers(crawl: Crawl, circuit: MarketplaceCircuit) -> bool:
    for question in await crawl.store.read(lambda tx: list(_questions(tx, crawl, circuit))):
        if isinstance(await ask(crawl, question, lambda: crawl.pause.everything), Answer):
            return True
        seen = await crawl.store.read(lambda tx: tx.marketplace.circuits()[circuit.endpoint])
        if not (seen.is_closed and seen.recent):
            return seen.is_closed
    return False


def _silent(tx: CrawlTx) -> list[MarketplaceCircuit]:
    """The token page is asked by who needs a token."""
    circuits = tx.marketplace.circuits().values()
    return [each for each in circuits if each.is_closed and each.recent and each.endpoint is not Endpoint.TOKEN]


def _questions(tx: CrawlTx, crawl: Crawl, circuit: MarketplaceCircuit) -> Iterator[Question]:
    """About what has not failed in this row."""
    failed, marketplace = {each.subject for each in circuit.recent}, crawl.marketplace
    if circuit.endpoint is Endpoint.LIST:
        sellers = {subject.partition("/")[0] for subject in failed}
        active, _ = tx.sellers.page(status=SellerStatus.ACTIVE, offset=0, limit=LOOKED_AT)
        well = [seller.seller_id for seller in active if seller.seller_id not in sellers]
        for seller_id in well[:MOST_ASKED]:
            yield Question(marketplace.list_url(seller_id, 0, 1), circuit.endpoint, f"{seller_id}/total")
        return
    url_of = marketplace.detail_url if circuit.endpoint is Endpoint.DETAIL else marketplace.option_url
    found = tx.product_queries.page(seller_id=None, state=None, cursor=None, limit=LOOKED_AT)
    others = [product.item_no for product in found.content if str(product.item_no) not in failed]
    for item_no in others[:MOST_ASKED]:
        yield Question(url_of(item_no), circuit.endpoint, str(item_no))
