"""The stream of what happens: followed by number, resumed, let go when late, ended with the service."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest
from tests.builders import a_context

from sellerwatch.access.commands import remove_user
from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.kernel.activity import Activity
from sellerwatch.web.api import events

from .api_world import ApiWorld
from .served import Served, post, served, watching


@pytest.fixture
async def api(store: SqlStore) -> AsyncIterator[Served]:
    async with served(store) as made:
        yield made


async def tell(api: Served, kind: str, number: int = 1) -> None:
    now = api.service.crawl.clock.now()

    def work(tx: object) -> None:
        for n in range(number):
            tx.activity.add(Activity(now, kind, "test", str(n), {"n": n}))  # type: ignore[attr-defined]

    await api.service.crawl.store.transact(work)


async def test_what_happens_is_told_to_everybody_who_watches(api: Served) -> None:
    async with watching(api) as one, watching(api) as another:
        assert await post(api, "/api/v1/sellers", {"sellerId": "seller_0001", "name": "가게"}) == 201
        for watcher in (one, another):
            frame = await watcher.frame()
            told = json.loads(frame["data"])
            assert frame["event"] == told["kind"] == "seller.register"
            assert (told["subjectType"], told["subjectId"]) == ("seller", "seller_0001")
            assert told["data"]["actor"] == "token:admin@practice"
        assert await post(api, "/api/v1/sellers/seller_0001/crawl") == 202
        kinds = [(await one.frame())["event"] for _ in range(3)]
        assert kinds == ["execution.pending", "execution.running", "crawl.start"]


async def test_a_watcher_that_was_away_is_told_the_rest_once_and_in_order(api: Served) -> None:
    await tell(api, "before")
    async with watching(api) as first:
        await tell(api, "seen")
        seen = await first.frame()
    await tell(api, "missed", 1200)
    async with watching(api, **{"last-event-id": seen["id"]}) as again:
        await tell(api, "live", 3)
        frames = [await again.frame() for _ in range(1203)]
    assert [frame["event"] for frame in frames] == ["missed"] * 1200 + ["live"] * 3
    numbers = [int(frame["id"]) for frame in frames]
    assert numbers == list(range(int(seen["id"]) + 1, int(seen["id"]) + 1204))


@pytest.mark.parametrize(("forgotten", "number"), [(True, "1"), (False, "999999")])
async def test_a_number_that_does_not_fit_is_told_as_a_gap(api: Served, forgotten: bool, number: str) -> None:
    await tell(api, "old", 5)
    if forgotten:
        now = api.service.crawl.clock.now()
        await api.service.crawl.store.transact(lambda tx: tx.activity.forget(now.replace(year=now.year + 1), 4))
    async with watching(api, **{"last-event-id": number}) as late:
        await tell(api, "new")
        kinds = [(await late.frame())["event"] for _ in range(3 if forgotten else 2)]
    assert kinds == (["gap", "old", "new"] if forgotten else ["gap", "new"])


async def test_a_watcher_that_is_too_slow_is_let_go_with_a_gap(world: ApiWorld) -> None:
    """Nothing is kept for it beyond its measure, and nobody else waits for it."""
    stream = events.Stream(world.parts)
    slow, quick = events.Watcher(0), events.Watcher(0)
    stream._watchers.update((slow, quick))
    total = events.MOST_WAITING + 10

    def work(tx: object) -> None:
        for n in range(total):
            tx.activity.add(Activity(world.clock.now(), "test", "test", str(n)))  # type: ignore[attr-defined]

    await world.transact(work)
    taken = 0
    while await stream.look():
        while not quick.waiting.empty():
            assert quick.waiting.get_nowait() is not None
            taken += 1
    assert (taken, quick.is_late) == (total, False)
    assert slow.is_late
    assert (slow.waiting.qsize(), slow.waiting.get_nowait()) == (1, None)


async def test_a_stream_ends_with_its_user(api: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "BEAT", 0.2)
    login = {"user": "admin", "password": "correct horse battery"}
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{api.address}/api/v1/auth/login", json=login) as done:
            headers = {"authorization": f"Bearer {(await done.json())['token']}"}
        async with session.get(f"{api.address}/api/v1/events", headers=headers) as response:
            assert response.status == 200
            now = api.service.crawl.clock.now()
            await api.service.crawl.store.transact(lambda tx: remove_user(tx, a_context(now), "admin"))
            async with asyncio.timeout(600):
                said = await response.content.read()
    assert said.startswith(b"retry: 2000\n\n")


async def test_a_stream_ends_after_the_time_that_was_asked_for(api: Served) -> None:
    async with watching(api, "/api/v1/events?seconds=0") as short:
        assert await short.frame() == {}


async def test_streams_do_not_keep_the_service_from_stopping(store: SqlStore) -> None:
    async with asyncio.timeout(600):
        async with served(store) as api:
            opened = watching(api)
            stream = await opened.__aenter__()
        assert await stream.frame() == {}
        await opened.__aexit__(None, None, None)


async def test_a_watcher_that_goes_is_forgotten(api: Served) -> None:
    async with watching(api):
        await tell(api, "x")
    async with watching(api) as another:
        await tell(api, "y")
        kinds = [(await another.frame())["event"]]
        while kinds[-1] != "y":
            # The reader looks every so often: what happened just before may still be told.
            kinds.append((await another.frame())["event"])
        assert set(kinds) <= {"x", "y"}


@pytest.mark.parametrize("number", ["x", "-1", "1.5", "9" * 30])
async def test_a_last_number_that_is_none_is_refused(world: ApiWorld, number: str) -> None:
    refused = await world.viewer.ask("GET", "/api/v1/events", headers={"last-event-id": number})
    assert refused.status == 400


async def test_only_so_many_watch_at_once(world: ApiWorld) -> None:
    stream = events.Stream(world.parts)
    stream._watchers.update(events.Watcher(0) for _ in range(events.MOST_STREAMS))
    with pytest.raises(events.TooManyStreams):
        await stream.join("api:x")


async def test_who_asks_for_the_head_of_the_stream_gets_no_stream(api: Served) -> None:
    async with (
        asyncio.timeout(600),
        aiohttp.ClientSession() as session,
        session.head(f"{api.address}/api/v1/events", headers=api.headers()) as response,
    ):
        assert (response.status, await response.read()) == (200, b"")
        async with session.head(f"{api.address}/api/v1/sellers", headers=api.headers()) as another:
            assert (another.status, await another.read()) == (200, b"")
