"""Run the service from a command: the event loop, the signals, and following runs to their end."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import uvloop

from sellerwatch.crawling.queries import follow_runs
from sellerwatch.kernel.ids import ExecutionId

if TYPE_CHECKING:
    from sellerwatch.crawling.execution import Execution
    from sellerwatch.operations.session import OperationSession
    from sellerwatch.service.service import Service

T = TypeVar("T")

#: Seconds between two looks of a progress display.
LOOK = 0.2


def run_on_uvloop(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


def _spare_the_collector() -> None:
    """Keep the garbage collector from scanning the objects that exist by now, which is a tenth of the CPU of a crawl.
    What a crawl makes is freed by reference counting; cycles are few, so collecting them can wait."""
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)


def stop_on_signals(stop: Callable[[], object]) -> None:
    """Stop on Ctrl-C and SIGTERM: requests in flight finish, other work is put back."""
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)


@asynccontextmanager
async def at_work(service: Service) -> AsyncIterator[asyncio.Task[None]]:
    """Run the service while the block runs. An error in one of its loops is raised at the end of the block."""
    _spare_the_collector()
    running = asyncio.create_task(service.run())
    try:
        yield running
    finally:
        service.stop.set()
        await running


async def has_begun(service: Service, running: asyncio.Task[None]) -> None:
    """Wait until the service has started, or has ended before that."""
    beginning = asyncio.create_task(service.begun.wait())
    await asyncio.wait((beginning, running), return_when=asyncio.FIRST_COMPLETED)
    beginning.cancel()


async def follow(
    service: Service,
    session: OperationSession,
    running: asyncio.Task[None],
    ids: Sequence[ExecutionId],
    show: Callable[[list[Execution]], None],
) -> list[Execution]:
    """Show the runs until all of them have ended or are paused, or the service stops."""
    while True:
        followed = await session.ask(follow_runs, ids)
        show(followed.runs)
        if running.done() or service.stop.is_set() or not followed.is_any_working:
            return followed.runs
        await service.crawl.clock.sleep(LOOK)
