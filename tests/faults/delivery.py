"""Delivery to a receiver that fails for some: `python -m tests.faults.delivery --events 1000`, of real processes.

In each case one seller's events fail in some way and another's are fine. Judged by content: what is fine arrived once
and in order, no outage cost a try, and the circuit that opened is the seller's who fails. The measured delay of the
other seller's events is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests import waiting
from tests.builders import execution_id
from tests.faults.processes import Program, run
from tests.faults.resync import opened, report
from tests.outbox.delivery_world import seller_of, stock_event
from tests.waiting import PATIENCE, wait_until
from tests.world import StoreWorld

from sellerwatch.adapters.sql.engine import make_engine
from sellerwatch.adapters.sql.migrate import upgrade
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.kernel.activity import Activity
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.clock import SystemClock
from sellerwatch.kernel.ids import OutboxId, ProductId, SellerId
from sellerwatch.outbox.message import Message, MessageStatus, OutboxKind

#: What failed is tried again soon.
QUICK = {
    "OUTBOX_BACKOFF_SECONDS": 0.3,
    "OUTBOX_BACKOFF_MAX_SECONDS": 1,
    "OUTBOX_CIRCUIT_OPEN_SECONDS": 0.3,
    "OUTBOX_INTERVAL_SECONDS": 1,
}
#: With the settings as they are, the sixth try of an event comes after a quarter of an hour.
LONG = 3600.0
#: Seconds between two events of those that always come.
TRICKLE = 0.3
RETRIES = 5
IDS_OF_A_SELLER = "SELECT outbox_id FROM product_outbox WHERE seller_id = :seller_id ORDER BY id"
UNDELIVERED = "SELECT item_no, status, retry_count, next_attempt_at FROM product_outbox WHERE status <> 'COMPLETED'"
STATES_OF_A_SELLER = "SELECT status, COUNT(*) FROM product_outbox WHERE seller_id = :seller_id GROUP BY status"


class DeliveryProcesses:
    """Services on one database, and a receiver. Products are numbered as in `delivery_world`, each case in a range of
    its own."""

    def __init__(self, folder: Path, database: Path, world: StoreWorld, receiver: str, **settings: object) -> None:
        self._folder = folder
        addresses = {"DATABASE_URL": f"sqlite:///{database}", "PRODUCT_SERVER_URL": f"{receiver}/events"}
        self._settings = {"MARKETPLACE_URL": "http://127.0.0.1:9", "ROBOTS_CHECK": "off", **addresses, **settings}
        self._world = world
        self._receiver = urlsplit(receiver)
        self._products: dict[int, ProductId] = {}
        self._versions = defaultdict[int, int](int)
        self._first = count(0, 100_000)

    def next_range(self) -> int:
        """The first number of a case: of two sellers that no other case has."""
        return next(self._first)

    def start(self) -> Program:
        return Program(self._folder, "serve", **self._settings)

    def resume(self) -> None:
        """`outbox resume`."""
        done = run(self._folder, "outbox", "resume", **self._settings)
        assert done.returncode == 0, done.stderr

    def behave(self, **rules: object) -> None:
        self._ask("POST", "/behave", json.dumps(rules))

    def tell(self, *numbers: int) -> None:
        """One more event of each of these products, in one transaction; as a run does it, with an activity."""
        made, now = [], self._world.now
        for number in numbers:
            product_id = self._products.setdefault(number, ProductId.generate(self._world.ids))
            self._versions[number] += 1
            outbox_id = OutboxId.generate(self._world.ids)
            made.append(stock_event(outbox_id, product_id, number, self._versions[number], now))

        def work(tx: Transaction) -> None:
            tx.product_outbox.add_all(made)
            tx.activity.add(Activity(now, "execution.progress", "execution", execution_id(), {}))

        asyncio.run(self._world.transact(work))

    def until(self, condition: Callable[[], bool], what: str, trickle: Iterator[Sequence[int]] | None = None) -> None:
        """Wait for it; meanwhile events of these products come."""

        def is_so() -> bool:
            if condition():
                return True
            if trickle is not None:
                self.tell(*next(trickle))
            return False

        try:
            wait_until(is_so, what, TRICKLE)
        except AssertionError as error:
            error.add_note("\n".join(map(str, self._state())))
            raise

    def messages(self, seller_id: SellerId) -> list[Message]:
        def work(tx: Transaction) -> list[Message]:
            ids = [OutboxId(row[0]) for row in tx.db.rows(IDS_OF_A_SELLER, {"seller_id": seller_id})]
            return list(tx.product_outbox.get_many(ids))

        return asyncio.run(self._world.read(work))

    def counts(self, seller_id: SellerId) -> Counter[str]:
        """How many events of a seller are in each state."""
        rows = asyncio.run(self._world.read(lambda tx: tx.db.rows(STATES_OF_A_SELLER, {"seller_id": seller_id})))
        return Counter({row[0]: row[1] for row in rows})

    def refused_sellers(self) -> list[SellerId]:
        """The sellers whose circuits are open."""
        circuits = asyncio.run(self._world.read(lambda tx: tx.seller_circuits.of(OutboxKind.PRODUCT)))
        return [seller_id for seller_id, each in circuits.items() if each.state is not CircuitState.CLOSED]

    def is_delivered(self, *sellers: SellerId) -> bool:
        return all(self.counts(seller_id).keys() == {"COMPLETED"} for seller_id in sellers)

    def longest_delay(self, seller_id: SellerId) -> float:
        times = [(each.created_at, each.sent_at) for each in self.messages(seller_id)]
        return max((sent_at - created_at).total_seconds() for created_at, sent_at in times if sent_at is not None)

    def check_arrived(self, *sellers: SellerId, but: Sequence[int] = ()) -> None:
        """All events of the sellers arrived once and in order, but those of some products, of which none did."""
        arrived = self._ask("GET", "/arrived")
        assert arrived["violations"] == []
        versions = defaultdict[int, list[int]](list)
        for event in arrived["events"]:
            versions[event["item_no"] - 900_000_000].append(event["version"])
        for number, told in self._versions.items():
            if seller_of(number) in sellers:
                assert versions[number] == ([] if number in but else [*range(1, told + 1)]), number

    def _state(self) -> list[object]:
        """What a failed test needs to know."""

        def work(tx: Transaction) -> list[object]:
            circuits = tx.seller_circuits.of(OutboxKind.PRODUCT).values()
            return [tx.channels.get(OutboxKind.PRODUCT), *circuits, *tx.db.rows(UNDELIVERED)]

        return asyncio.run(self._world.read(work))

    def _ask(self, method: str, path: str, body: str | None = None) -> Any:
        address = self._receiver
        with closing(HTTPConnection(address.hostname or "", address.port, timeout=PATIENCE)) as connection:
            connection.request(method, path, body)
            answer = connection.getresponse()
            assert answer.status == 200
            return json.loads(answer.read())


def refused_seller(world: DeliveryProcesses, events: int) -> SellerId:
    """A seller's events are always answered with 500: they wait together and lose no try, also when they are tried by
    `outbox resume`, and arrive when the receiver is mended. Returns the seller whose events must not have waited."""
    first = world.next_range()
    bad, good = seller_of(first + 1), seller_of(first + 2001)
    world.behave(fails=[bad])
    world.tell(*range(first + 1, first + 1 + events), *range(first + 2001, first + 2021))
    _until_refused(world, bad, good, first)
    # The failures that opened the circuit may have counted; no event is lost by it.
    assert sum(each.retry_count for each in world.messages(bad)) <= RETRIES
    world.resume()
    world.behave()
    world.until(lambda: world.is_delivered(bad, good), "the refused events are delivered")
    assert world.refused_sellers() == []
    world.check_arrived(bad, good)
    return good


def hanging_for_a_seller(world: DeliveryProcesses, events: int) -> SellerId:
    """No answer to one seller's events: they wait together and lose no try."""
    first = world.next_range()
    bad, good = seller_of(first + 1), seller_of(first + 2001)
    world.behave(hangs=[bad])
    world.tell(*range(first + 1, first + 1 + events), *range(first + 2001, first + 2021))
    _until_refused(world, bad, good, first)
    assert sum(each.retry_count for each in world.messages(bad)) <= RETRIES
    world.behave()
    world.until(lambda: world.is_delivered(bad, good), "they are delivered")
    world.check_arrived(bad, good)
    return good


def first_answers_lost(world: DeliveryProcesses, events: int) -> SellerId:
    """The receiver stores each event, and its first answer is lost: each second try is accepted, and none counts."""
    first = world.next_range()
    good = seller_of(first + 1)
    world.behave(loses_first=True)
    world.tell(*range(first + 1, first + 1 + events))
    world.until(lambda: world.is_delivered(good), "each second try is accepted")
    assert {each.retry_count for each in world.messages(good)} == {0}
    world.behave()
    world.check_arrived(good)
    return good


def every_tenth_fails(world: DeliveryProcesses, events: int) -> SellerId:
    """Every tenth event of a seller always fails, for good in the end, and holds only its product."""
    first = world.next_range()
    bad_seller, good = seller_of(first + 1), seller_of(first + 2001)
    all_of_them = range(first, first + events)
    bad = all_of_them[9::10]
    world.behave(fails=[str(900_000_000 + number) for number in bad])
    world.tell(*all_of_them)
    world.tell(*bad[:2])
    trickle = ((first + 900 + number % 90 // 10 * 10 + 1, first + 2001 + number % 900) for number in count())

    world.until(lambda: world.counts(bad_seller)["FAILED"] == len(bad), "the broken events fail for good", trickle)
    world.until(lambda: world.is_delivered(good), "the other seller's are delivered")
    world.until(lambda: world.counts(bad_seller)["WAITING"] == 2, "all but the held ones are delivered")
    left = [each for each in world.messages(bad_seller) if each.status is not MessageStatus.COMPLETED]
    failed, held = (
        {(each.item_no or 0) - 900_000_000: each.retry_count for each in left if each.status is status}
        for status in (MessageStatus.FAILED, MessageStatus.WAITING)
    )
    assert failed == dict.fromkeys(bad, RETRIES)
    assert held == dict.fromkeys(bad[:2], 0)
    assert world.refused_sellers() == []
    world.check_arrived(bad_seller, good, but=bad)
    return good


CASES: dict[str, Callable[[DeliveryProcesses, int], SellerId]] = {
    "a seller is refused": refused_seller,
    "first answers are lost": first_answers_lost,
    "every tenth fails": every_tenth_fails,
    "a seller hangs": hanging_for_a_seller,
}


def _until_refused(world: DeliveryProcesses, bad: SellerId, good: SellerId, first: int) -> None:
    """The circuit of this seller opens and no other, and what is told of the other seller meanwhile arrives."""
    trickle = ((number,) for number in count(first + 2101))
    world.until(lambda: bad in world.refused_sellers(), "the seller's circuit opens", trickle)
    world.until(lambda: world.is_delivered(good), "the other seller's events are delivered")
    assert world.refused_sellers() == [bad]
    assert world.counts(bad).keys() <= {"WAITING", "SENDING"}


@contextmanager
def delivery_processes(folder: Path, database: Path, **settings: object) -> Iterator[DeliveryProcesses]:
    """A receiver in a process; services are started by `start`."""
    with ExitStack() as stack:
        command = [sys.executable, "-m", "tests.faults.failing_receiver"]
        root = Path(__file__).parents[2]
        receiver = subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True)
        stack.callback(receiver.wait)
        stack.callback(receiver.kill)
        assert receiver.stdout is not None
        stack.callback(receiver.stdout.close)
        address = receiver.stdout.readline().strip()
        world = stack.enter_context(opened(database))
        yield DeliveryProcesses(folder, database, world, address, **settings)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1000, help="of which every tenth fails")
    parser.add_argument("--quick", action="store_true", help="with short waits between tries")
    options = parser.parse_args(arguments)
    waiting.PATIENCE = LONG
    numbers = {"a seller is refused": 150, "every tenth fails": options.events}
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as made:
            folder, database = Path(made), Path(made) / "sellerwatch.db"
            engine = make_engine(f"sqlite:///{database}")
            upgrade(engine, SystemClock().now())
            engine.dispose()
            settings = QUICK if options.quick else {}
            with (
                delivery_processes(folder, database, **settings) as world,
                world.start() as service,
                world.start() as other,
            ):
                for each in (service, other):
                    each.until_it_says('"serving"')
                good = case(world, numbers.get(name, 20))
                delay = world.longest_delay(good)
                report(f"{name}: all that is fine arrived once and in order; {good} after {delay:.1f} s at most")
                assert service.end(signal.SIGTERM) == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
