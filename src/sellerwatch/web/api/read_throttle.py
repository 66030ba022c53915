"""Readers, of the API and of the console, beside a running crawl: while one is at work, reading takes no more than its
fair share of the process.

Both live on one event loop, and hundreds of readers would leave a crawl a few hundredths of it. So while the crawl is
busy they pass one at a time, in the order they came, and after each the gate stays closed for as long as it took:
at least half of the time is the crawl's. While nothing is crawled a few pass at once, so that a crowd that is inside
when a crawl begins is soon out. Only reading is held up; a change is rare, and may wait for the marketplace. A stream
has passed as soon as it has begun.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sellerwatch.kernel.clock import Clock

READING = ("GET", "HEAD")
#: What is let through: cheap, or asked by machines that must not wait.
FREE = ("/static/", "/actuator/", "/api/internal/", "/metrics", "/docs", "/openapi.json", "/login")
#: Seconds of rest for each of reading: halves, and more for the crawl, whose own work goes on while somebody reads.
REST = 1.0
#: Seconds for which a crawl counts as busy after it was last seen busy: between two claims nothing is under way.
LINGER = 2.0
#: Readers inside at once while nothing is crawled.
MOST = 8


class ReadThrottle:
    def __init__(self, app: ASGIApp, clock: Clock, is_busy: Callable[[], bool]) -> None:
        self._app, self._clock, self._is_busy = app, clock, is_busy
        self._room, self._gate = asyncio.Semaphore(MOST), asyncio.Lock()
        self._seen_busy: float | None = None
        self._resting: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reads = scope["type"] == "http" and scope["method"] in READING and not scope["path"].startswith(FREE)
        if not reads:
            await self._app(scope, receive, send)
            return
        leave = await self._enter()

        async def send_and_leave(message: Message) -> None:
            """An answer that begins is made already; what is left of it is the network's."""
            if message["type"] == "http.response.start":
                leave()
            await send(message)

        try:
            await self._app(scope, receive, send_and_leave)
        finally:
            leave()

    async def _enter(self) -> Callable[[], None]:
        """Wait until this request may read. Call what is returned when it has read; a second call does nothing."""
        await self._room.acquire()
        is_alone = self._crawls()
        if is_alone:
            try:
                await self._gate.acquire()
            except BaseException:
                self._room.release()
                raise
        began, inside = self._clock.monotonic(), True

        def leave() -> None:
            nonlocal inside
            if inside:
                inside = False
                took = self._clock.monotonic() - began if is_alone and self._crawls() else 0.0
                rest = asyncio.create_task(self._open_after(REST * took, is_alone=is_alone))
                self._resting.add(rest)
                rest.add_done_callback(self._resting.discard)

        return leave

    async def _open_after(self, seconds: float, *, is_alone: bool) -> None:
        try:
            await self._clock.sleep(seconds)
        finally:
            if is_alone:
                self._gate.release()
            self._room.release()

    def _crawls(self) -> bool:
        now = self._clock.monotonic()
        if self._is_busy():
            self._seen_busy = now
        return self._seen_busy is not None and now - self._seen_busy <= LINGER
