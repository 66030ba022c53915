"""Readers beside a crawl that is at work: one at a time, in order, and the door rests after each."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from tests.builders import NOW, StoppedClock
from tests.waiting import until

from sellerwatch.web.api.read_throttle import LINGER, MOST, REST, ReadThrottle


class Answering:
    """An app whose answers take a second of its clock, and that says who was inside at the same time."""

    def __init__(self, clock: StoppedClock) -> None:
        self.clock, self.inside, self.most, self.answered = clock, 0, 0, list[str]()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.inside += 1
        self.most = max(self.most, self.inside)
        await asyncio.sleep(0)
        await self.clock.sleep(1)
        if scope["path"].endswith("broken"):
            self.inside -= 1
            raise ValueError("broken")
        self.answered.append(scope["path"])
        self.inside -= 1
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


async def ask(door: ReadThrottle, path: str, method: str = "GET") -> None:
    async def receive() -> Any:
        return {"type": "http.request"}

    async def send(_: Any) -> None:
        return None

    await door({"type": "http", "method": method, "path": path}, receive, send)


async def test_while_a_crawl_is_at_work_readers_pass_one_at_a_time_in_order() -> None:
    clock = StoppedClock(NOW)
    app = Answering(clock)
    door = ReadThrottle(app, clock, lambda: True)
    paths = [f"/api/v1/tasks/{number}" for number in range(5)]
    await asyncio.gather(*(ask(door, path) for path in paths))
    assert (app.most, app.answered) == (1, paths)
    await until(lambda: clock.time - NOW >= timedelta(seconds=5 * (1 + REST)))
    assert (clock.time - NOW).total_seconds() == 5 * (1 + REST)


async def test_one_that_breaks_lets_the_next_pass() -> None:
    clock = StoppedClock(NOW)
    app = Answering(clock)
    door = ReadThrottle(app, clock, lambda: True)
    ends = await asyncio.gather(ask(door, "/api/v1/broken"), ask(door, "/api/v1/tasks"), return_exceptions=True)
    assert isinstance(ends[0], ValueError)
    assert app.answered == ["/api/v1/tasks"]


async def test_a_crawl_counts_as_at_work_a_little_longer_than_it_is_seen_to_be() -> None:
    clock = StoppedClock(NOW)
    app = Answering(clock)
    seen = iter([True, False, False])
    door = ReadThrottle(app, clock, lambda: next(seen, False))
    await asyncio.gather(*(ask(door, "/api/v1/tasks") for _ in range(3)))
    assert app.most == 1
    clock.time += timedelta(seconds=LINGER + 1)
    await asyncio.gather(*(ask(door, "/api/v1/tasks") for _ in range(3 * MOST)))
    assert app.most == MOST


async def test_nobody_waits_while_nothing_is_crawled_and_changes_never_do() -> None:
    clock = StoppedClock(NOW)
    app = Answering(clock)
    for busy, method, path in (
        (False, "GET", "/api/v1/tasks"),
        (True, "POST", "/api/v1/tasks/retry"),
        (True, "GET", "/actuator/health"),
    ):
        app.most = 0
        door = ReadThrottle(app, clock, lambda busy=busy: busy)  # type: ignore[misc]
        await asyncio.gather(*(ask(door, path, method) for _ in range(3)))
        assert app.most == 3
