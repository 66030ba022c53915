"""Check whether an endpoint answers, by asking it about something that has not failed.

Two cases. An endpoint is silent: a few requests failed and it has answered nothing since. A task whose tries are spent
waits then (`absorb_results.py`), because it may be broken itself or the marketplace may be away. And an endpoint's
circuit is open and its next probe is due, but no task sends one: the only tasks left are about products that failed
before, or there are none. An answer about another product, even a 404, shows that the endpoint is well; further
failures open its circuit or keep it open.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta

from sellerwatch.agents.answers import Answer
from sellerwatch.agents.ask import Question, ask
from sellerwatch.agents.marketplace_circuit import Endpoint, MarketplaceCircuit
from sellerwatch.agents.sessions import probe_token_page
from sellerwatch.crawling.context import Crawl
from sellerwatch.crawling.ports import CrawlTx
from sellerwatch.crawling.task import TaskStatus
from sellerwatch.kernel.ids import ItemNo, SellerId
from sellerwatch.sellers.seller import SellerStatus

#: How long an endpoint has been silent before it is asked.
SILENT_FOR = timedelta(seconds=10)
#: A probe that is due is left to a task for this long: its answer is of more use.
LEFT_TO_TASKS = timedelta(seconds=2)
#: The longest pause between two checks of open endpoints, for one that could not be asked.
LONGEST_PAUSE = timedelta(seconds=30)
#: Products asked about in one check at most: with the one that failed, enough to open a circuit.
MOST_ASKED = 3
#: Products or sellers looked at, beside those that failed, to find some to ask about; and completed tasks.
LOOKED_AT = 50
TASKS_LOOKED_AT = 200


def next_check(tx: CrawlTx, crawl: Crawl, last: datetime | None, now: datetime) -> datetime | None:
    """Return when to check next: some time after the last failure of a silent endpoint, or when the probe of an open
    one is due. After a check that could not ask, the same pause is kept."""
    if any(pause.seller_id is None for pause in tx.marketplace.pauses()):
        return None
    times = []
    for circuit in tx.marketplace.circuits().values():
        if _is_silent(circuit):
            times.append(_later(circuit.recent[-1].at + SILENT_FOR, last, SILENT_FOR))
        elif not circuit.is_closed:
            due = now if circuit.not_before is None else circuit.not_before + LEFT_TO_TASKS
            times.append(_later(due, last, min(crawl.rules.marketplace_circuit.open_for, LONGEST_PAUSE)))
    return min(times, default=None)


def _later(due: datetime, last: datetime | None, pause: timedelta) -> datetime:
    return due if last is None else max(due, last + pause)


async def check_endpoints(crawl: Crawl) -> int:
    """Ask each endpoint that is silent, or whose probe is due. Returns how many answer now."""
    now = crawl.clock.now()

    def work(tx: CrawlTx) -> list[MarketplaceCircuit]:
        return [each for each in tx.marketplace.circuits().values() if _is_silent(each) or each.may_probe(now)]

    return sum([await _answers(crawl, circuit) for circuit in await crawl.store.read(work)])


async def _answers(crawl: Crawl, circuit: MarketplaceCircuit) -> bool:
    if circuit.endpoint is Endpoint.TOKEN:
        await probe_token_page(crawl)
        return (await _look(crawl, Endpoint.TOKEN)).is_closed
    for question in await crawl.store.read(lambda tx: list(_questions(tx, crawl, circuit))):
        if isinstance(await ask(crawl, question, lambda: crawl.pause.everything), Answer):
            return True
        seen = await _look(crawl, circuit.endpoint)
        if not (seen.is_closed and seen.recent):
            return seen.is_closed
    return False


async def _look(crawl: Crawl, endpoint: Endpoint) -> MarketplaceCircuit:
    return await crawl.store.read(lambda tx: tx.marketplace.circuits()[endpoint])


def _is_silent(circuit: MarketplaceCircuit) -> bool:
    """Whether it is closed and has not answered since its last failures. Work asks the token page."""
    return circuit.is_closed and bool(circuit.recent) and circuit.endpoint is not Endpoint.TOKEN


def _questions(tx: CrawlTx, crawl: Crawl, circuit: MarketplaceCircuit) -> Iterator[Question]:
    """Ask about what has not failed. Where there is nothing else, ask about what failed first: as the probe of an open
    endpoint, and for a list, where one seller is enough to open the circuit."""
    failed = tuple(dict.fromkeys((*circuit.failed_subjects, *(each.subject for each in circuit.recent))))
    paused = {pause.seller_id for pause in tx.marketplace.pauses()}
    known = _totals(tx, failed) if circuit.endpoint is Endpoint.LIST else _products(tx, circuit.endpoint, failed)
    subjects = dict.fromkeys(subject for subject, seller_id in known if seller_id not in paused)
    chosen = [subject for subject in subjects if subject not in failed][:MOST_ASKED]
    if not chosen and circuit.endpoint is Endpoint.LIST:
        # Also of a seller that is not ACTIVE any more: there may be no other.
        chosen = [subject for subject in failed if _seller_of(subject) not in paused][:1]
    elif not chosen and not circuit.is_closed:
        chosen = [subject for subject in failed if subject in subjects][:1]
    owners = dict(known)
    for subject in chosen:
        seller_id = _seller_of(subject) if circuit.endpoint is Endpoint.LIST else owners[subject]
        yield Question(_url(crawl, circuit.endpoint, subject), circuit.endpoint, subject, True, seller_id)


def _seller_of(subject: str) -> SellerId:
    """The seller of a page or of a total."""
    return SellerId(subject.rpartition("/")[0])


def _totals(tx: CrawlTx, failed: Collection[str]) -> list[tuple[str, SellerId]]:
    """Return the total of each ACTIVE seller; sellers with a page that failed come last."""
    of_failed = {_seller_of(subject) for subject in failed}
    active, _ = tx.sellers.page(status=SellerStatus.ACTIVE, offset=0, limit=LOOKED_AT + len(of_failed))
    ordered = sorted(active, key=lambda seller: seller.seller_id in of_failed)
    return [(f"{seller.seller_id}/total", seller.seller_id) for seller in ordered]


def _products(tx: CrawlTx, endpoint: Endpoint, failed: Collection[str]) -> list[tuple[str, SellerId]]:
    """Products the endpoint answered about lately, then other products."""
    done = tx.task_queries.newest(execution_id=None, seller_id=None, status=TaskStatus.COMPLETED, limit=TASKS_LOOKED_AT)
    found = tx.product_queries.page(seller_id=None, state=None, cursor=None, limit=LOOKED_AT + len(failed)).content
    answered = [(task.subject, task.seller_id) for task in done if task.endpoint is endpoint]
    return answered + [(str(product.item_no), product.seller_id) for product in found]


def _url(crawl: Crawl, endpoint: Endpoint, subject: str) -> str:
    if endpoint is Endpoint.LIST:
        return crawl.marketplace.list_url(_seller_of(subject), 0, 1)
    url_of = crawl.marketplace.detail_url if endpoint is Endpoint.DETAIL else crawl.marketplace.option_url
    return url_of(ItemNo(int(subject)))
