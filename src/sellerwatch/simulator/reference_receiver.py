"""The reference receiver: a product server that stores what it receives in an SQLite file, and checks the sender.

Beside what every product server here checks, it holds each body against the published schema and refuses signatures
that are older than five minutes.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson

from sellerwatch.catalog.event_schemas import EVENT_SHAPES, event_schema
from sellerwatch.kernel.json_schema import problems
from sellerwatch.simulator.events import ReceivedEvent, signing_key
from sellerwatch.simulator.receiving import Reception, Violation, receive
from sellerwatch.simulator.wire import SimulatedAnswer, SimulatedRequest, json_answer, refusal

#: Seconds that the time of a signature may be away from ours.
SIGNATURE_AGE = 300

_TABLES = """
    PRAGMA journal_mode = WAL;
    CREATE TABLE IF NOT EXISTS events (event_key TEXT PRIMARY KEY, digest BLOB NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS products (
        item_no INTEGER PRIMARY KEY, version INTEGER NOT NULL, seller_id TEXT NOT NULL, product_data TEXT
    );
"""


class SqliteLedger:
    """Implements `EventLedger` in a file. `product_data` is null for an item that is gone."""

    def __init__(self, file: Path) -> None:
        self._db = sqlite3.connect(file, isolation_level=None)
        self._db.executescript(_TABLES)

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> SqliteLedger:
        """Begin a transaction; it is committed at the end of the block unless that raises."""
        self._db.execute("BEGIN IMMEDIATE")
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._db.execute("COMMIT" if kind is None else "ROLLBACK")

    def first_digest(self, key: str, digest: bytes) -> bytes | None:
        if self._db.execute("INSERT OR IGNORE INTO events VALUES (?, ?)", (key, digest)).rowcount:
            return None
        found: bytes = self._db.execute("SELECT digest FROM events WHERE event_key = ?", (key,)).fetchone()[0]
        return found

    def version(self, item_no: int) -> int:
        row = self._db.execute("SELECT version FROM products WHERE item_no = ?", (item_no,)).fetchone()
        return 0 if row is None else int(row[0])

    def product(self, item_no: int) -> Mapping[str, Any] | None:
        row = self._db.execute("SELECT product_data FROM products WHERE item_no = ?", (item_no,)).fetchone()
        return None if row is None or row[0] is None else orjson.loads(row[0])

    def store(self, event: ReceivedEvent) -> None:
        data = None if event.removes else orjson.dumps(event.product_data).decode()
        self._db.execute(
            "INSERT OR REPLACE INTO products VALUES (?, ?, ?, ?)", (event.item_no, event.version, event.seller_id, data)
        )

    def count(self) -> int:
        """Return how many products there are."""
        number: int = self._db.execute("SELECT COUNT(*) FROM products WHERE product_data IS NOT NULL").fetchone()[0]
        return number


class ReferenceReceiver:
    """Receives events at any path; `GET` shows what was received and found.

    `report` is called for each request with what it came to, after it was stored and before it is answered.
    """

    def __init__(self, ledger: SqliteLedger, secret: str | None, report: Callable[[Reception], None]) -> None:
        self._ledger, self._report = ledger, report
        self._secrets = () if secret is None else (secret,)
        for each in self._secrets:
            signing_key(each)  # a bad secret is refused here, not with the first event
        self._types: Counter[str] = Counter()
        self.duplicates = 0
        self.violations = 0

    def answer(self, request: SimulatedRequest, now: float) -> SimulatedAnswer:
        if request.method == "GET":
            return json_answer(200, self.summary())
        if request.method != "POST":
            return refusal(405, "events are posted", (("allow", "GET, POST"),))
        with self._ledger as ledger:
            reception = self._checked(request, receive(ledger, request, self._secrets), now)
        self.duplicates += reception.is_duplicate
        self.violations += len(reception.violations)
        if reception.answer.status == 200 and not reception.is_duplicate and reception.event is not None:
            self._types[reception.event.event_type] += 1
        self._report(reception)
        return reception.answer

    def summary(self) -> dict[str, Any]:
        """Return what was received since the start, and how many products there are."""
        return {
            "products": self._ledger.count(),
            "events": dict(self._types),
            "duplicates": self.duplicates,
            "violations": self.violations,
        }

    def _checked(self, request: SimulatedRequest, reception: Reception, now: float) -> Reception:
        """Return what a request came to, with the rules of the schema and of the signature's time that it breaks."""
        if reception.event is None or reception.is_duplicate:
            return reception
        event, broken = reception.event, list(reception.violations)
        item_no = event.item_no if isinstance(event, ReceivedEvent) else None
        if event.event_type in EVENT_SHAPES:
            rules = problems(event_schema(event.event_type), orjson.loads(request.body))
            broken += [Violation(event.event_id, item_no, f"schema: {rule}") for rule in rules]
        if self._secrets and abs(now - int(request.headers["webhook-timestamp"])) > SIGNATURE_AGE:
            broken.append(Violation(event.event_id, item_no, "the signature's time is not ours"))
        return Reception(reception.answer, event, violations=tuple(broken))
