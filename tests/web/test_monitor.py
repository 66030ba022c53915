"""/metrics tells what a plain recount of the tables tells."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec import structs
from prometheus_client.parser import text_string_to_metric_families
from tests.builders import NOW, a_complete_product, a_message, a_task, an_execution, outbox_id

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.crawling.task import TaskStatus, TaskType
from sellerwatch.kernel.ids import ItemNo, SellerId
from sellerwatch.reports.queries import MOST_SELLERS

from .api_world import KEYS, ApiWorld

Labels = tuple[tuple[str, str], ...]


async def fill(store: SqlStore) -> None:
    """Rows in every table that is counted, in several states."""

    def work(tx: Transaction) -> None:
        tx.executions.add(an_execution())
        types, states = list(TaskType), list(TaskStatus)
        made = [structs.replace(a_task(n, types[n % 3]), item_no=ItemNo(1000 + n)) for n in range(1, 40)]
        tx.tasks.add(made)
        for number, task in enumerate(made):
            status = states[number * 7 % len(states)]
            tx.db.run("UPDATE crawler_tasks SET status = :s WHERE task_id = :t", {"s": status, "t": task.task_id})
        product = a_complete_product()
        tx.products.add([product])
        for number in range(1, 6):
            message = structs.replace(
                a_message(number), outbox_id=outbox_id(number), created_at=NOW - timedelta(seconds=number)
            )
            tx.product_outbox.add(message)
        tx.db.run("UPDATE product_outbox SET status = 'FAILED' WHERE id = 1")
        tx.db.run("UPDATE product_outbox SET status = 'SENDING' WHERE id = 2")
        tx.db.run("UPDATE user_agent_pool SET status = 'SUSPENDED' WHERE agent_id < 8")
        tx.db.run("UPDATE user_agent_pool SET status = 'BLOCKED' WHERE agent_id = 9")
        tx.db.run("UPDATE circuit_breaker_state SET circuit_state = 'OPEN' WHERE agent_id IN (3, 4)")
        for number, case in enumerate(("OPEN", "OPEN", "DROPPED")):
            tx.db.run(
                "INSERT INTO quarantine (case_id, seller_id, execution_id, data_type, kind, field, status, created_at,"
                " updated_at) VALUES (:c, 's', 'e', 'DETAIL', 'SHARE', 'f', :s, :n, :n)",
                {"c": f"case {number}", "s": case, "n": NOW},
            )
        for number, removal in enumerate(("HELD", "CONFIRMED")):
            tx.db.run(
                "INSERT INTO removals (removal_id, seller_id, execution_id, reason, status, unseen_since, created_at)"
                " VALUES (:r, 's', 'e', 'MANY', :s, :n, :n)",
                {"r": f"removal {number}", "s": removal, "n": NOW},
            )

    await store.transact(work)


def samples(text: str) -> dict[str, dict[Labels, float]]:
    found: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def recount(rows: list[dict[str, Any]], **labels: str) -> dict[Labels, float]:
    """By hand: so many rows with these values in these columns."""
    counted = Counter(tuple(sorted((label, row[column]) for label, column in labels.items())) for row in rows)
    return {key: float(value) for key, value in counted.items()}


async def tables(store: SqlStore) -> dict[str, list[dict[str, Any]]]:
    def look(tx: Transaction) -> dict[str, list[dict[str, Any]]]:
        found = {}
        for (name,) in tx.db.rows("SELECT name FROM sqlite_master WHERE type = 'table'"):
            columns = [row[1] for row in tx.db.rows(f"PRAGMA table_info({name})")]
            found[name] = [dict(zip(columns, row, strict=True)) for row in tx.db.rows(f"SELECT * FROM {name}")]  # noqa: S608
        return found

    return await store.read(look)


async def test_the_numbers_are_those_of_the_tables(world: ApiWorld, inline_store: SqlStore) -> None:
    await world.admin.post("/api/v1/sellers", {"sellerId": "seller_0001", "name": "가게"})
    await world.admin.post("/api/v1/sellers", {"sellerId": "seller_0002", "name": "가게"})
    await world.admin.post("/api/v1/sellers/seller_0002/deactivate")
    await world.admin.post("/api/v1/sellers/seller_0001/crawl")
    await fill(inline_store)
    scraped = await world.viewer.get("/metrics")
    assert (scraped.status, scraped.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    told, rows = samples(scraped.body.decode()), await tables(inline_store)
    assert told["sellerwatch_tasks"] == recount(rows["crawler_tasks"], type="task_type", status="status")
    assert told["sellerwatch_executions"] == recount(rows["crawling_schedule_executions"], status="status")
    assert told["sellerwatch_sellers"] == recount(rows["sellers"], status="status")
    assert told["sellerwatch_agents"] == recount(rows["user_agent_pool"], status="status")
    assert told["sellerwatch_circuits"] == recount(rows["circuit_breaker_state"], state="circuit_state")
    states = [
        "DELETED" if p["deleted_at"] else "COMPLETE" if p["is_complete"] else "INCOMPLETE" for p in rows["products"]
    ]
    assert told["sellerwatch_products"] == {(("state", s),): float(n) for s, n in Counter(states).items()}
    messages = [{**m, "outbox": kind} for kind in ("product", "scheduler") for m in rows[f"{kind}_outbox"]]
    assert told["sellerwatch_outbox_messages"] == recount(messages, outbox="outbox", status="status")
    for kind in ("product", "scheduler"):
        waiting = [m["created_at"] for m in rows[f"{kind}_outbox"] if m["status"] in ("WAITING", "SENDING")]
        oldest: datetime = min(waiting)
        lag = told["sellerwatch_outbox_lag_seconds"][(("outbox", kind),)]
        assert lag == (world.clock.now() - oldest).total_seconds()
    assert told["sellerwatch_quarantine_cases_open"][()] == 2
    assert told["sellerwatch_removals_held"][()] == 1
    # The token page is asked as nobody: it counts for the host, not in an agent's window.
    used = sum(permit["agent_id"] != 0 for permit in rows["permits"])
    assert told["sellerwatch_permits_used"][()] == used > 0
    limit = sum(bucket["max_tokens"] for bucket in rows["rate_limit_bucket"])
    assert told["sellerwatch_permits_left"][()] == limit - used
    assert told["sellerwatch_pool_breaker"] == {
        (("state", state),): float(state == "CLOSED") for state in ("CLOSED", "OPEN", "HALF_OPEN")
    }


async def test_answers_are_counted_by_route_and_never_by_what_was_sent(world: ApiWorld) -> None:
    for name in ("a", "b", "' OR 1=1"):
        await world.viewer.get(f"/api/v1/sellers/{name}")
    await world.viewer.get("/api/v1/sellers")
    await world.viewer.ask("HEAD", "/api/v1/sellers")
    await world.nobody.get("/nowhere/at/all")
    await world.nobody.ask("BREW", "/coffee")
    told = samples((await world.viewer.get("/metrics")).body.decode())["sellerwatch_http_requests_total"]
    assert told == {
        (("method", "GET"), ("route", "/api/v1/sellers/{sellerId}"), ("status", "404")): 3.0,
        (("method", "GET"), ("route", "/api/v1/sellers"), ("status", "200")): 1.0,
        (("method", "HEAD"), ("route", "/api/v1/sellers"), ("status", "200")): 1.0,
        (("method", "GET"), ("route", "none"), ("status", "404")): 1.0,
        (("method", "other"), ("route", "none"), ("status", "404")): 1.0,
    }


async def test_paths_that_were_sent_make_no_series(world: ApiWorld) -> None:
    for number in range(50):
        await world.nobody.get(f"/static/{number}/{'x' * 1000}/{number}.js")
        await world.nobody.ask("HEAD", f"/static/{number}/{number}.js")
        await world.viewer.get(f"/api/v1/sellers/{number}{'y' * 1000}")
    page = (await world.viewer.get("/metrics")).body.decode()
    answers = samples(page)["sellerwatch_http_requests_total"]
    routes = {dict(labels)["route"] for labels in answers}
    assert routes == {"/static/{mark}/{name}", "/api/v1/sellers/{sellerId}"}
    assert "xxx" not in page
    assert len(page) < 100_000


async def test_only_the_worst_sellers_have_numbers_of_their_own(world: ApiWorld) -> None:
    await world.register([SellerId(f"seller_{number}") for number in range(MOST_SELLERS + 20)])
    told = samples((await world.viewer.get("/metrics")).body.decode())
    assert len(told["sellerwatch_seller_fresh_share"]) == MOST_SELLERS
    assert len(told["sellerwatch_seller_undelivered"]) == MOST_SELLERS


async def test_an_answer_is_kept_for_a_moment_and_then_counted_anew(world: ApiWorld) -> None:
    async def sellers() -> dict[Labels, float]:
        return samples((await world.viewer.get("/metrics")).body.decode()).get("sellerwatch_sellers", {})

    assert await sellers() == {}
    await world.admin.post("/api/v1/sellers", {"sellerId": "seller_0001", "name": "가게"})
    assert await sellers() == {}
    world.clock.time += timedelta(seconds=5)
    assert await sellers() == {(("status", "ACTIVE"),): 1.0}


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 401), ({"x-api-key": KEYS[0]}, 200), ({"x-api-key": "wrong"}, 401), ({"authorization": "Bearer x"}, 401)],
)
async def test_a_monitor_needs_a_token_or_a_key(world: ApiWorld, headers: dict[str, str], status: int) -> None:
    assert (await world.nobody.ask("GET", "/metrics", headers=headers)).status == status
