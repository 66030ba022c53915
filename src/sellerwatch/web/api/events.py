"""/api/v1/events: what happens, as it happens, as server-sent events.

One reader for each process follows the activity table by its numbers while there are followers, and sends what it finds
to all of them: a thousand followers cost the database what one does. A follower that was away names the last number it
has seen (`Last-Event-ID`) and gets the rest. One that reads more slowly than events are made gets a `gap` event and is
disconnected, so that nothing piles up in memory; it comes back by its last number.

A stream ends when the service stops, and when its token is no longer valid: that is looked at with every beat.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sellerwatch.kernel.activity import Activity
from sellerwatch.kernel.clock import stamp
from sellerwatch.kernel.errors import Unauthenticated, Unavailable
from sellerwatch.reports.queries import activity_after, activity_span
from sellerwatch.web.api.authorization import Follower, still_follows
from sellerwatch.web.api.context import Parts, parts_of
from sellerwatch.web.api.view_route import StrictRoute

log = logging.getLogger(__name__)

#: Seconds between two looks at the table: an event is sent at most this late.
LOOK = 0.5
#: A silent stream says that it lives; proxies cut those that do not.
BEAT = 15.0
#: What a watcher may lag behind before it is let go.
MOST_WAITING = 500
AT_ONCE = 500
MOST_STREAMS = 200
#: Of one caller: nobody takes all of them.
MOST_STREAMS_OF_ONE = 20
#: A watcher that takes nothing for so long is gone.
SEND_PATIENCE = 20.0

_GAP = b"event: gap\ndata: {}\n\n"
_BEAT = b": beat\n\n"
_HELLO = b"retry: 2000\n\n"


@dataclass(eq=False)
class TooManyStreams(Unavailable):
    most: int = MOST_STREAMS
    retry_after: float | None = 30.0

    @property
    def facts(self) -> dict[str, object]:
        return {"most": self.most}


@dataclass(eq=False)
class Watcher:
    """One stream: what it still has to be sent, from `since` on. None is the end."""

    since: int
    actor: str = ""
    waiting: asyncio.Queue[tuple[int, bytes] | None] = field(default_factory=lambda: asyncio.Queue(MOST_WAITING))
    is_late: bool = False

    def offer(self, number: int, frame: bytes) -> None:
        if self.is_late:
            return
        try:
            self.waiting.put_nowait((number, frame))
        except asyncio.QueueFull:
            self.is_late = True
            self.end()

    def end(self) -> None:
        """Drop what waits: a late follower gets it again by its number."""
        while not self.waiting.empty():
            self.waiting.get_nowait()
        self.waiting.put_nowait(None)


class Stream:
    """The one reader of this process and everybody who watches."""

    def __init__(self, parts: Parts) -> None:
        self.clock = parts.clock
        self.session = parts.quiet_session()
        self._watchers: set[Watcher] = set()
        self._reading: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._closed = False
        self.position = 0

    async def join(self, actor: str) -> Watcher:
        if len(self._watchers) >= MOST_STREAMS or self._closed:
            raise TooManyStreams
        if sum(watcher.actor == actor for watcher in self._watchers) >= MOST_STREAMS_OF_ONE:
            raise TooManyStreams(most=MOST_STREAMS_OF_ONE)
        if self._reading is None or self._reading.done():
            highest = (await self.session.ask(activity_span))[1]
            if self._reading is None or self._reading.done():
                self.position = highest
                self._reading = asyncio.create_task(self._read())
        watcher = Watcher(self.position, actor)
        self._watchers.add(watcher)
        return watcher

    def leave(self, watcher: Watcher) -> None:
        self._watchers.discard(watcher)

    def close(self) -> None:
        """The service stops: every stream ends."""
        self._closed = True
        self._wake.set()
        for watcher in self._watchers:
            watcher.end()

    async def look(self) -> int:
        """Hand out what is new; says how much that was."""
        rows = await self.session.ask(activity_after, self.position, AT_ONCE)
        for number, activity in rows:
            frame = frame_of(number, activity)
            for watcher in self._watchers:
                watcher.offer(number, frame)
        if rows:
            self.position = rows[-1][0]
        return len(rows)

    async def _read(self) -> None:
        while not self._closed:
            try:
                found = await self.look()
            except Exception:
                log.exception("what happens cannot be read; it is tried again")
                found = 0
            if not found:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK):
                        await self._wake.wait()
            if not self._watchers:
                return


def frame_of(number: int, activity: Activity) -> bytes:
    body: dict[str, Any] = {
        "at": stamp(activity.at),
        "kind": activity.kind,
        "subjectType": activity.subject_type,
        "subjectId": activity.subject_id,
        "data": activity.data,
    }
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (number, activity.kind.encode(), orjson.dumps(body))


class EventStream(Response):
    """Sends frames as they come, and stops when the other side is gone or takes nothing."""

    media_type = "text/event-stream"

    def __init__(self, frames: Callable[[], AsyncIterator[bytes]], leave: Callable[[], None]) -> None:
        super().__init__(headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._frames, self._leave = frames, leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        gone = asyncio.create_task(_gone(receive))
        sending = asyncio.create_task(self._send(send))
        try:
            await asyncio.wait((gone, sending), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._leave()
            for task in (gone, sending):
                task.cancel()
            await asyncio.gather(gone, sending, return_exceptions=True)

    async def _send(self, send: Send) -> None:
        async for frame in self._frames():
            async with asyncio.timeout(SEND_PATIENCE):
                await send({"type": "http.response.body", "body": frame, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


router = APIRouter(tags=["events"], route_class=StrictRoute)


@router.get(
    "/events",
    status_code=200,
    response_class=EventStream,
    responses={
        200: {
            "description": "Frames with id, event and data, until either side ends it.",
            "content": {
                "text/event-stream": {
                    "schema": {
                        "type": "object",
                        "description": "One frame. `data` is JSON: at, kind, subjectType, subjectId, data.",
                        "properties": {name: {"type": "string"} for name in ("id", "event", "data")},
                        "required": ["event", "data"],
                    },
                    "example": {"id": "7", "event": "execution.completed", "data": '{"kind": "execution.completed"}'},
                }
            },
        }
    },
)
async def stream_events(
    request: Request,
    caller: Follower,
    last_event_id: Annotated[
        int | None, Header(ge=0, le=2**63 - 1, description="The last number seen: the stream goes on behind it.")
    ] = None,
    seconds: Annotated[
        float | None, Query(ge=0, le=86400, allow_inf_nan=False, description="Ends after so long; else it does not.")
    ] = None,
) -> EventStream:
    """What happens, as it happens: runs, progress, deliveries, agents, cases, and what people do."""
    stream: Stream = request.app.state.stream
    watcher = await stream.join(caller.actor)
    still = _still(request, seconds)
    return EventStream(lambda: _frames(stream, watcher, last_event_id, still), lambda: stream.leave(watcher))


def _still(request: Request, seconds: float | None) -> Callable[[], Awaitable[float]]:
    """How long the stream may go on without being asked again: a beat, or what is left of its time; 0 at its end."""
    clock = parts_of(request).clock
    until = None if seconds is None else clock.monotonic() + seconds

    async def left() -> float:
        try:
            await still_follows(request)
        except Unauthenticated:
            return 0.0
        return BEAT if until is None else min(BEAT, until - clock.monotonic())

    return left


async def _frames(
    stream: Stream, watcher: Watcher, after: int | None, still: Callable[[], Awaitable[float]]
) -> AsyncIterator[bytes]:
    yield _HELLO
    async for frame in _missed(stream, after, watcher.since):
        yield frame
    clock = stream.clock
    while (left := await still()) > 0:
        asked_again = clock.monotonic() + left
        while (rest := asked_again - clock.monotonic()) > 0:
            item: tuple[int, bytes] | None = (0, _BEAT)
            # Not around the yield: what the time-out would cut off there is the sending, not the waiting.
            with suppress(TimeoutError):
                async with asyncio.timeout(rest):
                    item = await watcher.waiting.get()
            if item is None:
                if watcher.is_late:
                    yield _GAP
                return
            yield item[1]


async def _missed(stream: Stream, after: int | None, until: int) -> AsyncIterator[bytes]:
    """What came behind `after` up to where the live part begins. A gap where the numbers do not fit together: some were
    forgotten meanwhile, or they are of another database."""
    if after is None:
        return
    lowest, highest = await stream.session.ask(activity_span)
    if after > highest or (lowest and after < lowest - 1):
        yield _GAP
    if after > highest:
        return
    while after < until:
        rows = await stream.session.ask(activity_after, after, AT_ONCE)
        for number, activity in rows:
            if number > until:
                return
            yield frame_of(number, activity)
            after = number
        if not rows:
            return
