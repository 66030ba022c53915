"""`sellerwatch serve` and `sellerwatch crawl`: the service for good, and one run in the foreground."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from sellerwatch.cli.output import err, language_setting, print_error, print_json, print_table
from sellerwatch.cli.running import LOOK, at_work, follow, has_begun, run_on_uvloop, stop_on_signals

#: A receiver that takes nothing for so long is not waited for.
PATIENCE = 2.0

if TYPE_CHECKING:
    import asyncio

    from sellerwatch.crawling.execution import Execution
    from sellerwatch.crawling.ports import NoteKind
    from sellerwatch.kernel.ids import ExecutionId, SellerId
    from sellerwatch.operations.ports import ServiceTx
    from sellerwatch.sellers.ports import SellersTx
    from sellerwatch.service.service import ProcessRole, Service
    from sellerwatch.settings.load import Loaded
    from sellerwatch.settings.model import Settings
    from sellerwatch.web.serve import Serving


def serve() -> None:
    """Crawl due sellers, deliver what changed, answer the API and serve the console, until stopped. The embedded
    database is made on the way.

    \b
    sellerwatch serve
    SELLERWATCH_PRODUCT_SERVER_URL=https://products.example/events sellerwatch serve
    """
    from sellerwatch.service.service import EVERYTHING  # noqa: PLC0415

    run_on_uvloop(_serve(_loaded(), EVERYTHING))


def api() -> None:
    """Answer the API alone; workers and schedulers are processes of their own, on the same database.

    \b
    sellerwatch api
    """
    from sellerwatch.service.service import ProcessRole  # noqa: PLC0415

    run_on_uvloop(_serve(_loaded(), frozenset({ProcessRole.API})))


def worker() -> None:
    """Crawl and deliver, and nothing else. Start as many as the work needs: each holds what it claimed while it lives.

    \b
    sellerwatch worker
    """
    from sellerwatch.service.service import ProcessRole  # noqa: PLC0415

    run_on_uvloop(_serve(_loaded(), frozenset({ProcessRole.WORKER})))


def scheduler() -> None:
    """Start due sellers and do the periodic jobs. Of several, one does each job; the others take over when it is gone.

    \b
    sellerwatch scheduler
    """
    from sellerwatch.service.service import ProcessRole  # noqa: PLC0415

    run_on_uvloop(_serve(_loaded(), frozenset({ProcessRole.SCHEDULER})))


def crawl(
    sellers: Annotated[list[str], typer.Argument(help="Sellers to crawl, as registered.", metavar="SELLER...")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run one crawl of each seller in the foreground. Shares budget and work with a service on the same database.

    A seller that is being crawled already is not started again: the run that is going is joined.

    Exit code: 0 every task succeeded; 3 some failed; 1 a run could not be started, was ended, or is paused.

    \b
    sellerwatch crawl seller_12345
    sellerwatch crawl seller_1 seller_2 --json
    """
    settings = _loaded(quiet=True).settings
    raise typer.Exit(run_on_uvloop(_crawl(settings, list(dict.fromkeys(sellers)), as_json)))


def _loaded(*, quiet: bool = False) -> Loaded:
    from sellerwatch.logs import configure  # noqa: PLC0415
    from sellerwatch.settings.load import load  # noqa: PLC0415

    loaded = load(os.environ)
    settings = loaded.settings
    configure("error" if quiet and settings.log_level == "info" else settings.log_level, settings.log_format)
    return loaded


async def _serve(loaded: Loaded, roles: frozenset[ProcessRole]) -> None:
    import logging  # noqa: PLC0415
    from contextlib import AsyncExitStack  # noqa: PLC0415

    from sellerwatch.compose.service import open_service  # noqa: PLC0415
    from sellerwatch.service.service import ProcessRole  # noqa: PLC0415

    log, settings = logging.getLogger("sellerwatch"), loaded.settings
    async with AsyncExitStack() as opened:
        service = await opened.enter_async_context(open_service(settings, roles=roles))
        stop_on_signals(service.stop.set)
        where = {"role": service.role, "marketplace": settings.marketplace_url}
        if ProcessRole.API in roles:
            # Imported by whoever answers requests: it is half of what such a process weighs.
            from sellerwatch.web.serve import api_of  # noqa: PLC0415

            serving = await opened.enter_async_context(api_of(service, settings, origins=loaded.origins))
            where |= {"api": serving.address, "console": f"{serving.address}/"}
            if serving.first_password is not None:
                _tell_first_password(serving)
        async with at_work(service) as running:
            await has_begun(service, running)
            if service.begun.is_set():
                log.info("serving", extra={**where, "worker": service.crawl.worker_id})
            await running
        log.info("stopped", extra={"completed": service.progress.completed, "failed": service.progress.failed})


def _tell_first_password(serving: Serving) -> None:
    """Past the log, which is kept and shipped: for the person who started it, once."""
    password = serving.first_password
    err.print(f"First start: log in as admin with the one-time password {password}", highlight=False, markup=False)
    err.print(
        f"It is shown only now; log in to the console at {serving.address}/ and choose another there, "
        "by POST /api/v1/auth/password, or by `sellerwatch auth user password`.",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


async def _crawl(settings: Settings, names: list[str], as_json: bool) -> int:
    from sellerwatch.compose.service import open_service  # noqa: PLC0415
    from sellerwatch.kernel.ids import SellerId  # noqa: PLC0415

    ids = [SellerId.parse(name) for name in names]
    async with open_service(settings, schedules=False) as service:
        await service.store.read(lambda tx: _must_be_known(tx, ids))
        async with at_work(service) as running:
            found = await _follow_runs(service, running, ids)
            await _say_paused(service, found)
            _say_waiting(found)
            await _deliver_rest(service, running)
            return _report(found, as_json)


async def _say_paused(service: Service, found: list[Execution]) -> None:
    """A paused run goes on later, with or without us."""
    from sellerwatch.crawling.ports import NoteKind  # noqa: PLC0415

    for run in found:
        notes = await service.store.read(partial(_notes_of, execution_id=run.execution_id))
        for reason in notes[NoteKind.PAUSED] if run.is_open else ():
            err.print(
                f"The run of {run.seller_id} is paused: {reason}. "
                "While a service runs it is re-checked, and goes on by itself once the answers are readable. "
                f"To decide its case now: `sellerwatch quarantine list --seller {run.seller_id}`.",
                highlight=False,
                soft_wrap=True,
            )


def _say_waiting(found: list[Execution]) -> None:
    """A run that could not be started is kept, so that it is not lost."""
    from sellerwatch.crawling.execution import RunNotStarted  # noqa: PLC0415
    from sellerwatch.kernel.wording import failure_text  # noqa: PLC0415

    language = language_setting()
    for run in found:
        if run.waits_to_start and run.failure is not None:
            print_error(RunNotStarted(seller_id=run.seller_id, why=failure_text(run.failure, language)))


def _notes_of(tx: ServiceTx, execution_id: ExecutionId) -> dict[NoteKind, dict[str, int]]:
    return tx.run_notes.of(execution_id)


async def _deliver_rest(service: Service, running: asyncio.Task[None]) -> None:
    """What the runs found is told before we go, as far as the receiver takes it; the rest waits for a service."""
    delivery = service.deliveries[0]
    if not delivery.has_receiver:
        return
    clock, told, since = service.crawl.clock, delivery.delivered, service.crawl.clock.monotonic()
    while await delivery.pending() and not (service.stop.is_set() or running.done()):
        if delivery.delivered > told:
            told, since = delivery.delivered, clock.monotonic()
        elif clock.monotonic() - since > PATIENCE:
            return
        await clock.sleep(LOOK)


def _must_be_known(tx: SellersTx, ids: list[SellerId]) -> None:
    """Before anything starts: a name misspelt among others must not leave half of them running."""
    from sellerwatch.sellers.seller import SellerNotFound  # noqa: PLC0415

    for seller_id in ids:
        if tx.sellers.get(seller_id) is None:
            raise SellerNotFound(seller_id=seller_id)


async def _follow_runs(service: Service, running: asyncio.Task[None], ids: list[SellerId]) -> list[Execution]:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    stop_on_signals(service.stop.set)
    started = [await _run_of(service, seller_id) for seller_id in ids]
    service.nudge()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    with Progress(*columns, TimeElapsedColumn(), console=err, disable=not err.is_terminal) as progress:
        bars = [progress.add_task(seller_id, total=None) for seller_id in ids]

        def show(found: list[Execution]) -> None:
            for bar, execution in zip(bars, found, strict=True):
                progress.update(bar, completed=execution.ended, total=execution.total_tasks_created)

        return await follow(service, running, started, show)


async def _run_of(service: Service, seller_id: SellerId) -> ExecutionId:
    """A new run, or the one that is going: of a service beside us, or left by a process that was ended."""
    from sellerwatch.cli.session import actor  # noqa: PLC0415
    from sellerwatch.crawling.execution import CrawlInProgress  # noqa: PLC0415
    from sellerwatch.crawling.trigger import start, trigger  # noqa: PLC0415
    from sellerwatch.kernel.ids import ExecutionId  # noqa: PLC0415

    try:
        return (await trigger(service.crawl, seller_id, actor(), is_check=True)).execution_id
    except CrawlInProgress as going:
        going_id = ExecutionId(going.execution_id)
    run = await service.store.read(lambda tx: tx.executions.get(going_id))
    if run is not None and run.waits_to_start:
        return (await start(service.crawl, going_id, seller_id, is_check=True)).execution_id
    err.print(f"{seller_id} is being crawled already; joining run {going_id}.", highlight=False)
    return going_id


def _report(found: list[Execution], as_json: bool) -> int:
    """Say how the runs ended; the exit code for it."""
    from sellerwatch.crawling.execution import ExecutionStatus  # noqa: PLC0415
    from sellerwatch.kernel.failure_view import failure_view  # noqa: PLC0415

    rows = [
        (e.seller_id, e.status, e.list_total, e.total_tasks_created, e.completed_tasks, e.failed_tasks) for e in found
    ]
    names = ("sellerId", "status", "products", "tasks", "completed", "failed")
    if as_json:
        runs = [
            dict(zip(names, row, strict=True))
            | {"executionId": e.execution_id}
            | failure_view(e.failure, language_setting())
            for row, e in zip(rows, found, strict=True)
        ]
        print_json({"executions": runs})
    elif not all(e.waits_to_start for e in found):
        print_table("Runs", names, rows, empty="")
    if any(e.status is not ExecutionStatus.COMPLETED for e in found):
        return 1
    return 3 if any(e.failed_tasks for e in found) else 0
