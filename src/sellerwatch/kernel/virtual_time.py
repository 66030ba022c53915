"""An event loop whose time is virtual: waiting costs nothing and moves the clock.

The loop's own `time()` is the clock, so that `asyncio.timeout`, `call_later` and our `Clock.sleep` agree. When nothing
is ready, the loop jumps to the next timer instead of waiting for it. A loop with nothing ready and no timer would wait
for ever: that is a deadlock of the program under test, and raises `Stuck`.

Where it stops working: threads and sockets run in real time and would break the order of the history, so a program on
this loop uses the inline runner for the store and calls the simulator through the transport port. Iterating over a
`set` of tasks or strings depends on memory addresses and hash seeds: code that must repeat exactly does not do it.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from sellerwatch.kernel.clock import from_timestamp

T = TypeVar("T")

START = datetime(2026, 1, 1, tzinfo=UTC)

#: Seconds the virtual machine has been up when a story begins: nothing is so new that it is still booting.
UPTIME = 100_000.0


class Stuck(RuntimeError):
    """All coroutines wait for one another and no timer is set."""


class _JumpingSelector(selectors.BaseSelector):
    """A selector without files: 'waiting' for a timeout is moving the time by it."""

    def __init__(self) -> None:
        self.elapsed = 0.0
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        # asyncio registers its self-pipe; nothing ever arrives on it here.
        key = selectors.SelectorKey(fileobj, fileobj if isinstance(fileobj, int) else fileobj.fileno(), events, data)
        self._keys[fileobj] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Stuck("nothing is ready and no timer is set: the program waits for ever")
        self.elapsed += max(timeout, 0.0)
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys


class VirtualLoop(asyncio.SelectorEventLoop):
    """Starts at second 0 of virtual time; `clock` tells the same time as a date."""

    def __init__(self, start: datetime = START) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)
        self._start = start.timestamp()
        # Timers closer than this are run together; asyncio takes it from the machine's clock otherwise.
        self._clock_resolution = 1e-7

    def time(self) -> float:
        return self._jumping.elapsed

    def date(self) -> datetime:
        return from_timestamp(self._start + self._jumping.elapsed)

    def jump(self, seconds: float) -> None:
        """Move the wall clock without running anything: a clock that was set back or forward."""
        self._start += seconds


class VirtualClock:
    """The clock of the loop that is running (or was given)."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    @property
    def boot_id(self) -> str:
        return "virtual"

    def now(self) -> datetime:
        return self._loop.date()

    def monotonic(self) -> float:
        return UPTIME + self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def run_virtually(main: Coroutine[Any, Any, T], *, loop: VirtualLoop | None = None) -> T:
    """Run `main` to its end on virtual time and close the loop, as `asyncio.run` does on real time."""
    loop = loop or VirtualLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main)
