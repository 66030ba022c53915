"""Running the service from a command: the event loop, the signals, and following runs to their end."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from sellerwatch.kernel.ids import ExecutionId

if TYPE_CHECKING:
    from sellerwatch.crawling.execution import Execution
    from sellerwatch.operations.ports import ServiceTx
    from sellerwatch.service.service import Service

T = TypeVar("T")

#: How often a progress display looks.
LOOK = 0.2


def run_on_uvloop(main: Coroutine[Any, Any, T]) -> T:
    import uvloop  # noqa: PLC0415 - only commands that serve pay for it

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


def _spare_the_collector() -> None:
    """What is there by now stays: the garbage collector need not look through it again and again, which is a tenth of
    the CPU of a crawl. What a crawl makes is freed by counting; cycles are few and can wait for more of them."""
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)


def stop_on_signals(stop: Callable[[], object]) -> None:
    """Ctrl-C and SIGTERM ask to stop; what is under way finishes or is put back."""
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)


@asynccontextmanager
async def at_work(service: Service) -> AsyncIterator[asyncio.Task[None]]:
    """The service runs while the block does; a loop of it that breaks shows as an error of the block."""
    _spare_the_collector()
    running = asyncio.create_task(service.run())
    try:
        yield running
    finally:
        service.stop.set()
        await running


async def has_begun(service: Service, running: asyncio.Task[None]) -> None:
    """Until it is at work, or has ended before it was."""
    beginning = asyncio.create_task(service.begun.wait())
    await asyncio.wait((beginning, running), return_when=asyncio.FIRST_COMPLETED)
    beginning.cancel()


def _these(tx: ServiceTx, ids: Sequence[ExecutionId]) -> list[Execution]:
    found = [tx.executions.get(id_) for id_ in ids]
    return [execution for execution in found if execution is not None]


async def follow(
    service: Service, running: asyncio.Task[None], ids: Sequence[ExecutionId], show: Callable[[list[Execution]], None]
) -> list[Execution]:
    """Look at the runs until all are over or paused, the service stops, or it breaks."""
    while True:
        found, at_work = await service.store.read(lambda tx: (_these(tx, ids), tx.executions.at_work()))
        show(found)
        going = {run.execution_id for run in at_work}
        if running.done() or service.stop.is_set() or not any(run.execution_id in going for run in found):
            return found
        await service.crawl.clock.sleep(LOOK)
