"""The API and the console, measured: every list and page over a large database, and readers beside a running crawl.

    python benchmarks/api.py [--tasks 1000000] [--products 200000] [--readers 500] [--small]

First: server CPU per call (this process and its threads: routing, who may, the query, the answer) of each list over a
SQLite file with that many rows, for the first page, a page in the middle and one near the end, by each filter, with the
query plans. The bar is 50 ms. Second: the console's pages over the same file; there the bar is 200 ms. Third: a crawl
with the API served beside it over real sockets, without and with that many readers, each of whom asks for the next list
as soon as it has one. Two kinds of work in one process: the crawl's fair share is half of it. Its share is what its
tasks cost without readers, of all the CPU that was spent with them; its speed falls further where the readers
themselves, or others, take the machine from it. Trust CPU and ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

SELLERS, RUN = 20, 5_000
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
BAR_MS, PAGE_BAR_MS = 50.0, 200.0
CALLS = 9
SELLER = "seller_0001"
RAISED = {
    "WINDOW_LIMIT": 1_000_000,
    "WINDOW_SECONDS": 60,
    "REQUESTS_PER_SECOND": 1_000_000,
    "DEPARTURE_MARGIN_SECONDS": 0,
    "API_REQUESTS_PER_MINUTE": 1_000_000,
}

# One row for each number of the counter; times rise with it, as they do in life.
NUMBERS = "WITH RECURSIVE n(i) AS (SELECT :first UNION ALL SELECT i + 1 FROM n WHERE i < :last)"
AT = "strftime('%Y-%m-%d %H:%M:%S', :began + i * 10, 'unixepoch') || '.000000'"
RUN_ID = "printf('0198c0de-0000-7000-8002-%012x', i / :run)"
SELLER_ID = "printf('seller_%04d', i / :run % :sellers)"

TASKS = f"""{NUMBERS} INSERT INTO crawler_tasks (task_id, execution_id, seller_id, task_type, purpose, item_no, page_no,
    request_url, status, failure_code, failure_blame, failure_facts, failure_at, available_at, created_at, updated_at)
SELECT printf('0198c0de-0000-7000-8001-%012x', i), {RUN_ID}, {SELLER_ID},
    CASE WHEN i % :run < 10 THEN 'MINISHOP' WHEN i % 2 THEN 'PRODUCT_DETAIL' ELSE 'PRODUCT_OPTION' END, 'CRAWL',
    CASE WHEN i % :run < 10 THEN NULL ELSE 900000000 + i / 2 % 200000 END, CASE WHEN i % :run < 10 THEN i % :run END,
    '/facade-api/v1/item/' || i, CASE WHEN i % 50 = 0 THEN 'FAILED' WHEN i % 997 = 0 THEN 'RETRY' ELSE 'COMPLETED' END,
    CASE WHEN i % 50 = 0 THEN 'SERVER_ERROR' END, CASE WHEN i % 50 = 0 THEN 'MARKETPLACE' END,
    CASE WHEN i % 50 = 0 THEN '{{"status": 503}}' END, CASE WHEN i % 50 = 0 THEN {AT} END, {AT}, {AT}, {AT} FROM n"""

RUNS = f"""{NUMBERS} INSERT INTO crawling_schedule_executions (execution_id, schedule_id, seller_id, created_at, status,
    total_tasks_created, completed_tasks, failed_tasks, progress_rate, success_rate, started_at, completed_at)
SELECT printf('0198c0de-0000-7000-8002-%012x', i), printf('0198c0de-0000-7000-8003-%012x', i % :sellers),
    printf('seller_%04d', i % :sellers), {AT}, CASE WHEN i % 10 THEN 'COMPLETED' ELSE 'FAILED' END, :run, :run, 0,
    100, 98, {AT}, {AT} FROM n"""

PRODUCTS = f"""{NUMBERS} INSERT INTO products (product_id, item_no, seller_id, created_at, updated_at,
    minishop_data_hash, detail_data_hash, option_data_hash, is_complete, is_changed, version, missing_runs,
    last_seen_at, deleted_at)
SELECT printf('0198c0de-0000-7000-8004-%012x', i), 900000000 + i, printf('seller_%04d', i % :sellers), {AT}, {AT},
    'a', 'b', CASE WHEN i % 100 THEN 'c' END, i % 100 > 0, 0, 1, 0, {AT}, CASE WHEN i % 1000 = 0 THEN {AT} END FROM n"""

MESSAGES = f"""{NUMBERS} INSERT INTO product_outbox (outbox_id, product_id, item_no, seller_id, event_type, version,
    payload, status, next_attempt_at, created_at, updated_at)
SELECT printf('0198c0de-0000-7000-8005-%012x', i), printf('0198c0de-0000-7000-8004-%012x', i), 900000000 + i,
    printf('seller_%04d', i % :sellers), 'PRODUCT_CREATED', 1,
    replace(replace(:payload, '"ITEM"', 900000000 + i), 'MESSAGE', printf('0198c0de-0000-7000-8005-%012x', i)),
    CASE WHEN i % 100 = 0 THEN 'FAILED' WHEN i % 25 = 0 THEN 'WAITING' ELSE 'COMPLETED' END, {AT}, {AT}, {AT} FROM n"""

AUDIT = f"""{NUMBERS} INSERT INTO audit (at, actor, action, subject_type, subject_id, note)
SELECT {AT}, 'cli:minji' || (i % 50), 'seller.change' || (i % 20), 'seller', printf('seller_%04d', i % :sellers),
    '메모 🗒' FROM n"""


@dataclass(frozen=True)
class Measured:
    """One list asked in one way: CPU of the server in milliseconds, and how it found its rows."""

    name: str
    entries: int
    cpu_ms: float
    worst_ms: float
    plans: tuple[str, ...]


@dataclass(frozen=True)
class PageMeasured:
    """One page of the console: CPU of the server in milliseconds, and how much it is."""

    path: str
    kilobytes: float
    cpu_ms: float
    worst_ms: float


@dataclass(frozen=True)
class Beside:
    """A crawl with so many readers beside it."""

    readers: int
    tasks: int
    seconds: float
    cpu: float
    answers: int
    wrong: int

    @property
    def rate(self) -> float:
        return self.tasks / self.seconds


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def pin(core: int) -> None:
    with_cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {with_cores[core % len(with_cores)]})


def fill(database: Path, tasks: int, products: int) -> None:
    """As years of crawling would have left it; in one step for each hundred thousand rows."""
    from sellerwatch.adapters.sql.engine import make_engine
    from sellerwatch.adapters.sql.migrate import upgrade
    from sellerwatch.adapters.sql.transaction import Transaction
    from sellerwatch.kernel.ids import ItemNo, OutboxId, ScheduleId, SellerId
    from sellerwatch.outbox.event import data_json, event_body
    from sellerwatch.schedules.interval import CrawlingInterval
    from sellerwatch.schedules.schedule import Schedule
    from sellerwatch.sellers.seller import Seller

    engine = make_engine(f"sqlite:///{database}")
    upgrade(engine, BEGAN)
    with engine.connect() as connection, connection.begin():
        for number in range(SELLERS):
            seller = Seller.register(
                SellerId(f"seller_{number:04d}"), "럭셔리하우스 👜", CrawlingInterval.of_days(1), BEGAN
            )
            schedule, _ = Schedule.create(
                ScheduleId(f"0198c0de-0000-7000-8003-{number:012x}"), seller.seller_id, seller.interval, BEGAN
            )
            tx = Transaction(connection)
            tx.sellers.add(seller)
            tx.schedules.add(schedule)
    engine.dispose()
    data = {"name": "울 100% 반팔 티셔츠 🧵", "prices": {"normal": 1000, "selling": 900}, "html": "<p>설명</p>" * 20}
    payload = event_body(
        OutboxId("MESSAGE"), "PRODUCT_CREATED", ItemNo(1), SellerId(SELLER), 1, BEGAN, (), data_json(data)
    )
    given = {"began": int(BEGAN.timestamp()), "sellers": SELLERS, "run": RUN, "payload": payload.decode()}
    with closing(sqlite3.connect(database, isolation_level=None)) as opened:
        opened.execute("PRAGMA synchronous = OFF")
        parts = (
            ("runs", RUNS, max(1, tasks // RUN)),
            ("tasks", TASKS, tasks),
            ("products", PRODUCTS, products),
            ("messages", MESSAGES, products),
            ("audit", AUDIT, products // 2),
        )
        for what, statement, total in parts:
            for first in range(0, total, 100_000):
                last = min(first + 100_000, total) - 1
                needed = {name: value for name, value in given.items() if f":{name}" in statement}
                opened.execute(statement, needed | {"first": first, "last": last})
                say(f"  {what}: {last + 1:,} of {total:,}")


def questions(tasks: int, products: int) -> Iterator[tuple[str, str, dict[str, object]]]:
    """Every list by each of its filters: its beginning, its middle and near its end."""
    from sellerwatch.kernel.paging import Cursor, encode_cursor

    run = f"0198c0de-0000-7000-8002-{tasks // RUN // 2:012x}"
    seller = "seller_0003"
    lists: list[tuple[str, str, int, list[dict[str, object]]]] = [
        (
            "tasks",
            "tasks",
            tasks,
            [
                {},
                {"status": "FAILED"},
                {"status": "RETRY"},
                {"status": "COMPLETED"},
                {"sellerId": seller},
                {"sellerId": seller, "status": "FAILED"},
                {"sellerId": seller, "status": "IN_PROGRESS"},
                {"executionId": run},
                {"executionId": run, "status": "FAILED"},
                {"executionId": run, "taskType": "MINISHOP"},
                {"taskType": "MINISHOP"},
                {"taskType": "MINISHOP", "status": "RETRY"},
                {"taskType": "MINISHOP", "sellerId": seller, "status": "COMPLETED"},
            ],
        ),
        ("executions", "executions", tasks // RUN, [{}, {"status": "FAILED"}, {"sellerId": seller}]),
        (
            "products",
            "products",
            products,
            [
                {},
                {"sellerId": seller},
                {"state": "DELETED"},
                {"state": "INCOMPLETE"},
                {"sellerId": seller, "state": "COMPLETE"},
                {"sellerId": seller, "state": "DELETED"},
            ],
        ),
        (
            "outbox",
            "product",
            products,
            [
                {},
                {"status": "FAILED"},
                {"status": "WAITING", "sellerId": seller},
                {"sellerId": seller},
                {"eventType": "PRODUCT_DELETED"},
                {"since": "2026-01-03T00:00:00Z", "until": "2026-01-04T00:00:00Z"},
            ],
        ),
        (
            "audit",
            "audit",
            products // 2,
            [
                {},
                {"actor": "cli:minji7"},
                {"action": "seller.change3"},
                {"subjectType": "seller", "subjectId": seller},
                {"subjectId": "nobody"},
            ],
        ),
    ]
    for noun, name, total, filters in lists:
        for query in filters:
            for where, share in (("first", None), ("middle", 0.5), ("end", 0.01)):
                row = total if share is None else int(total * (1 - share if noun == "products" else share))
                # A run's own rows are where it ran.
                if "executionId" in query and share is not None:
                    row = int((tasks // RUN // 2 + share) * RUN)
                place = None if share is None else Cursor(BEGAN + timedelta(seconds=row * 10), row)
                asked = query | ({} if place is None else {"cursor": encode_cursor(name, place)})
                shown = ", ".join(f"{key}={value}" for key, value in query.items() if key != "executionId")
                shown = ", ".join(filter(None, ["executionId" if "executionId" in query else "", shown]))
                yield f"{noun} [{shown or 'all'}] {where}", f"/api/v1/{noun}", asked
    yield "outbox status", "/api/v1/outbox/status", {}
    yield "a run with its progress", f"/api/v1/executions/{run}", {}
    yield "user agents", "/api/v1/user-agents/status", {}


def pages(tasks: int, products: int) -> list[tuple[str, dict[str, object]]]:
    """Every page of the console that reads much, by its filters."""
    run = f"0198c0de-0000-7000-8002-{tasks // RUN // 2:012x}"
    task = f"0198c0de-0000-7000-8001-{tasks // 2 + 100:012x}"
    event = f"0198c0de-0000-7000-8005-{products // 2:012x}"
    # One that is gone: the others' bodies were never there to be read.
    item, seller = 900000000 + products // 2000 * 1000, "seller_0003"
    return [
        ("/", {}),
        ("/sellers", {}),
        ("/sellers", {"fresh": "late"}),
        (f"/sellers/{seller}", {}),
        ("/executions", {}),
        (f"/executions/{run}", {}),
        ("/tasks", {}),
        ("/tasks", {"status": "FAILED"}),
        ("/tasks", {"seller": seller, "status": "FAILED"}),
        ("/tasks", {"type": "MINISHOP"}),
        ("/products", {}),
        ("/products", {"seller": seller}),
        ("/products", {"state": "DELETED"}),
        (f"/products/{item}", {}),
        (f"/why/product/{item}", {}),
        (f"/why/task/{task}", {}),
        (f"/why/event/{event}", {}),
        ("/outbox", {}),
        ("/outbox", {"status": "FAILED"}),
        ("/outbox", {"seller": seller}),
        (f"/outbox/{event}", {}),
        ("/agents", {}),
        ("/agents/1", {}),
        ("/quarantine", {}),
        ("/removals", {}),
        ("/schedules", {}),
        ("/audit", {}),
        ("/audit", {"actor": "cli:minji7"}),
        ("/settings", {}),
    ]


async def ask(app: Any, token: str, path: str, query: dict[str, object]) -> Any:
    """One call without a socket: what is measured is ours."""
    return json.loads(await answer_of(app, path, query, (b"authorization", f"Bearer {token}".encode())))


async def answer_of(app: Any, path: str, query: dict[str, object], who: tuple[bytes, bytes]) -> bytes:
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": urlencode(query).encode(),
        "headers": [who, (b"host", b"bench")],
        "client": ("127.0.0.1", 1),
        "server": ("bench", 80),
        "root_path": "",
    }
    sent: list[Any] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in sent)
    assert sent[0]["status"] == 200, (path, body[:500])
    return body


@contextmanager
def recording() -> Iterator[list[str]]:
    """Every SELECT that the driver runs meanwhile, with its values in place."""
    from sqlalchemy import event
    from sqlalchemy.pool import Pool

    sent: list[str] = []

    def note(statement: str) -> None:
        if statement.startswith("SELECT"):
            sent.append(statement)

    def watch(connection: Any, *_: object) -> None:
        connection.set_trace_callback(note)

    def leave(connection: Any, *_: object) -> None:
        connection.set_trace_callback(None)

    event.listen(Pool, "checkout", watch)
    event.listen(Pool, "checkin", leave)
    try:
        yield sent
    finally:
        event.remove(Pool, "checkout", watch)
        event.remove(Pool, "checkin", leave)


async def lists(database: Path, tasks: int, products: int, calls: int = CALLS) -> list[Measured]:
    from sellerwatch.compose.service import open_service
    from sellerwatch.settings.load import load
    from sellerwatch.web.api.app import make_app
    from sellerwatch.web.api.context import Parts
    from sellerwatch.web.api.credentials import Role
    from sellerwatch.web.serve import credentials_of

    values = {"DATABASE_URL": f"sqlite:///{database}", "MARKETPLACE_URL": "http://127.0.0.1:9"} | RAISED
    settings = load({f"SELLERWATCH_{name}": str(value) for name, value in values.items()}).settings
    measured = []
    async with open_service(settings, schedules=False) as service:
        credentials = credentials_of(settings)
        app = make_app(Parts(service, settings, credentials))
        token = credentials.issue("bench", Role.VIEWER, timedelta(hours=1), service.crawl.clock.now())
        with closing(sqlite3.connect(database)) as explaining:
            for name, path, query in questions(tasks, products):
                # NormalizedPart once with its statements, and asked again for the figures.
                with recording() as sent:
                    answer = await ask(app, token, path, query)
                plans = dict.fromkeys(
                    " | ".join(row[3] for row in explaining.execute(f"EXPLAIN QUERY PLAN {statement}"))
                    for statement in sent
                )
                spent = []
                for _ in range(calls):
                    began = time.process_time()
                    await ask(app, token, path, query)
                    spent.append(1000 * (time.process_time() - began))
                entries = len(answer.get("content", ()))
                measured.append(Measured(name, entries, statistics.median(spent), max(spent), tuple(plans)))
    return measured


async def console(database: Path, tasks: int, products: int, calls: int = CALLS) -> list[PageMeasured]:
    from sellerwatch.access.commands import add_user
    from sellerwatch.access.login_sessions import LoginKind
    from sellerwatch.access.logins import LoginAttempt, complete_login
    from sellerwatch.access.queries import find_user
    from sellerwatch.access.users import Role
    from sellerwatch.compose.service import open_service
    from sellerwatch.settings.load import load
    from sellerwatch.web import sessions
    from sellerwatch.web.api.app import make_app
    from sellerwatch.web.api.context import Parts
    from sellerwatch.web.serve import credentials_of

    values = {"DATABASE_URL": f"sqlite:///{database}", "MARKETPLACE_URL": "http://127.0.0.1:9"} | RAISED
    settings = load({f"SELLERWATCH_{name}": str(value) for name, value in values.items()}).settings
    measured = []
    async with open_service(settings, schedules=False) as service:
        parts = Parts(service, settings, credentials_of(settings))
        app = make_app(parts)
        session = parts.session("bench", "en")
        await session.run(add_user, "bench", Role.ADMIN, "no hash")
        user = await session.ask(lambda tx, _: find_user(tx, "bench"))
        attempt = LoginAttempt("bench", "127.0.0.1")
        login = await session.run(complete_login, attempt, user, LoginKind.CONSOLE, parts.session_limits)
        sealed = sessions.seal(parts, login.session)
        who = (b"cookie", f"{sessions.COOKIE}={sealed}".encode())
        for path, query in pages(tasks, products):
            body = await answer_of(app, path, query, who)
            spent = []
            for _ in range(calls):
                began = time.process_time()
                await answer_of(app, path, query, who)
                spent.append(1000 * (time.process_time() - began))
            shown = f"{path}?{urlencode(query)}" if query else path
            measured.append(PageMeasured(shown, len(body) / 1000, statistics.median(spent), max(spent)))
    return measured


@contextmanager
def simulator(products: int) -> Iterator[str]:
    """The marketplace in a process of its own, on the first core."""
    command = [sys.executable, "-m", "sellerwatch", "simulator", "--port", "0", "--json", "--sellers", "1"]
    command += ["--products", str(products), "--window-limit", "100000000", "--requests-per-second", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: pin(0))
    try:
        assert process.stdout is not None
        text = ""
        while not text.rstrip().endswith("}"):
            text += process.stdout.readline()
        yield json.loads(text)["marketplace"]
    finally:
        process.terminate()
        process.wait(timeout=10)


async def served(url: str, database: Path) -> None:
    """The service as `serve` runs it, crawling one seller while the API is served beside it; on the second core."""
    from sellerwatch.compose.service import open_service
    from sellerwatch.crawling.trigger import trigger
    from sellerwatch.kernel.clock import moment
    from sellerwatch.kernel.ids import ReplayableIds, SellerId
    from sellerwatch.kernel.operations import OperationContext
    from sellerwatch.sellers.commands import register_seller
    from sellerwatch.settings.load import load
    from sellerwatch.web.api.credentials import Role
    from sellerwatch.web.serve import api_of, credentials_of

    values = {"DATABASE_URL": f"sqlite:///{database}", "MARKETPLACE_URL": url, "PORT": 0} | RAISED
    settings = load({f"SELLERWATCH_{name}": str(value) for name, value in values.items()}).settings
    async with open_service(settings, schedules=False, make=True) as service, api_of(service, settings) as serving:
        crawl, seller = service.crawl, SellerId(SELLER)
        token = credentials_of(settings).issue("bench", Role.VIEWER, timedelta(hours=1), crawl.clock.now())
        running = asyncio.create_task(service.run())
        draw, now = ReplayableIds(crawl.ids), moment(crawl.clock)
        await crawl.store.transact(
            lambda tx: register_seller(tx, OperationContext("bench", now, draw.replay()), seller, "bench", None)
        )
        print(json.dumps([serving.address, token]), flush=True)
        # Whoever started us says when.
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        began, cpu = time.perf_counter(), time.process_time()
        await trigger(crawl, seller, "bench")
        service.nudge()
        while True:
            if await crawl.store.read(lambda tx: tx.executions.open_of(seller)) is None:
                break
            await asyncio.sleep(0.05)
        measured = time.perf_counter() - began, time.process_time() - cpu
        (run,) = await crawl.store.read(lambda tx: tx.execution_queries.newest(seller_id=seller, status=None, limit=1))
        print(json.dumps([run.completed_tasks, *measured]), flush=True)
        # Readers end before what they read from.
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        service.stop.set()
        await running


async def read(address: str, token: str, readers: int, seconds: asyncio.Event) -> tuple[int, int]:
    """Each reader asks for the next list as soon as it has one."""
    import aiohttp

    paths = ("tasks?status=COMPLETED", "executions", "products", "outbox", "user-agents/status", "outbox/status")
    answers = wrong = 0
    headers = {"Authorization": f"Bearer {token}"}
    connector = aiohttp.TCPConnector(limit=readers)
    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:

        async def reader(number: int) -> None:
            nonlocal answers, wrong
            turn = number
            while not seconds.is_set():
                async with session.get(f"{address}/api/v1/{paths[turn % len(paths)]}") as answer:
                    await answer.read()
                    answers, wrong = answers + 1, wrong + (answer.status != 200)
                turn += 1

        ends = await asyncio.gather(*(reader(number) for number in range(readers)), return_exceptions=True)
    return answers, wrong + sum(isinstance(end, BaseException) for end in ends)


async def crawl_beside(url: str, database: Path, readers: int) -> Beside:
    command = [sys.executable, __file__, "--served", url, "--database", str(database)]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=lambda: pin(1)
    )
    assert process.stdin is not None
    assert process.stdout is not None
    address, token = json.loads(await process.stdout.readline())
    over = asyncio.Event()
    reading = asyncio.create_task(read(address, token, readers, over))
    await asyncio.sleep(1 if readers else 0)
    process.stdin.write(b"go\n")
    await process.stdin.drain()
    said = await process.stdout.readline()
    over.set()
    answers, wrong = await reading
    process.stdin.write(b"stop\n")
    await process.stdin.drain()
    await process.wait()
    tasks, seconds, cpu = json.loads(said)
    return Beside(readers, tasks, seconds, cpu, answers, wrong)


def show(measured: list[Measured], seen: list[PageMeasured], beside: list[Beside]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(width=130)
    table = Table(
        title=f"the console: server CPU per page, median of {CALLS} (bar {PAGE_BAR_MS:g} ms)", title_justify="left"
    )
    for column in ("page", "kB", "CPU ms", "worst ms"):
        table.add_column(column, justify="left" if column == "page" else "right")
    for page in seen:
        table.add_row(escape(page.path), f"{page.kilobytes:.0f}", f"{page.cpu_ms:.1f}", f"{page.worst_ms:.1f}")
    if seen:
        console.print(table)
    table = Table(title=f"server CPU per call, median of {CALLS} (bar {BAR_MS:g} ms)", title_justify="left")
    for column in ("list", "entries", "CPU ms", "worst ms"):
        table.add_column(column, justify="left" if column == "list" else "right")
    for one in measured:
        table.add_row(escape(one.name), str(one.entries), f"{one.cpu_ms:.1f}", f"{one.worst_ms:.1f}")
    if measured:
        console.print(table)
        console.print("How the rows are found:")
    told: set[str] = set()
    for one in measured:
        for plan in one.plans:
            if plan not in told:
                told.add(plan)
                console.print(f"  {one.name}: {plan}", style="dim", soft_wrap=True, markup=False, highlight=False)
    for run in beside:
        console.print(
            f"{run.readers} readers: {run.rate:,.0f} tasks/s ({run.tasks:,} in {run.seconds:.1f} s, "
            f"CPU {run.cpu:.1f} s), {run.answers:,} answers, {run.wrong} wrong"
        )
    if len(beside) == 2:
        kept = 100 * beside[1].rate / beside[0].rate
        share = 100 * beside[1].tasks * beside[0].cpu / beside[0].tasks / beside[1].cpu
        console.print(
            f"The crawl keeps {kept:.0f} % of its speed and gets {share:.0f} % of the process's CPU; fair is 50 %."
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--products", type=int, default=200_000)
    parser.add_argument("--readers", type=int, default=500)
    parser.add_argument("--crawl", type=int, default=3_000, help="products of the crawl beside the readers")
    parser.add_argument("--small", action="store_true", help="a few thousand rows and readers: to see that it runs")
    parser.add_argument("--only", choices=["lists", "pages", "readers"])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--served", help=argparse.SUPPRESS)
    parser.add_argument("--database", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if args.served:
            runner.run(served(args.served, args.database))
            return
        calls = 1 if args.small else CALLS
        if args.small:
            args.tasks, args.products, args.readers, args.crawl = 20_000, 2_000, 5, 60
        measured: list[Measured] = []
        seen: list[PageMeasured] = []
        beside: list[Beside] = []
        with tempfile.TemporaryDirectory() as name:
            if args.only != "readers":
                database = Path(name) / "api.db"
                fill(database, args.tasks, args.products)
                say("asking ...")
                if args.only != "pages":
                    measured = runner.run(lists(database, args.tasks, args.products, calls))
                if args.only != "lists":
                    seen = runner.run(console(database, args.tasks, args.products, calls))
            if args.only in (None, "readers"):
                pin(0)
                with simulator(args.crawl) as url:
                    for readers in (0, args.readers):
                        say(f"a crawl with {readers} readers ...")
                        path = Path(name) / f"crawl{readers}.db"
                        beside.append(runner.run(crawl_beside(url, path, readers)))
    if args.json:
        print(
            json.dumps(
                {
                    "lists": [asdict(one) for one in measured],
                    "pages": [asdict(one) for one in seen],
                    "readers": [asdict(one) for one in beside],
                }
            )
        )
    else:
        show(measured, seen, beside)
    if any(run.wrong for run in beside):
        raise SystemExit("some answers were wrong: the figures above are worth nothing")


if __name__ == "__main__":
    main()
