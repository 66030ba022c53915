"""`sellerwatch serve` and `sellerwatch crawl`: the service for good, and one run in the foreground."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from sellerwatch.catalog.changes import FoundKind
from sellerwatch.cli.executions import say_found, see_found
from sellerwatch.cli.output import err, language_setting, print_error, print_json, print_table, progress_bars
from sellerwatch.cli.running import LOOK, at_work, follow, has_begun, run_on_uvloop, stop_on_signals
from sellerwatch.cli.session import actor
from sellerwatch.cli.texts import Texts
from sellerwatch.compose.deployment import deployment_of
from sellerwatch.compose.service import open_service, open_session
from sellerwatch.crawling.execution import CrawlInProgress, Execution, ExecutionStatus, RunNotStarted
from sellerwatch.crawling.queries import show_execution
from sellerwatch.crawling.trigger import start, trigger
from sellerwatch.crawling.views import found_products
from sellerwatch.kernel.failure_view import failure_view
from sellerwatch.kernel.ids import ExecutionId, SellerId
from sellerwatch.kernel.wording import failure_text
from sellerwatch.logs import configure
from sellerwatch.operations.session import OperationSession
from sellerwatch.reports.checks import find_unsafe
from sellerwatch.reports.severity import Severity
from sellerwatch.sellers.queries import show_schedule
from sellerwatch.service.service import EVERYTHING, ProcessRole, Service
from sellerwatch.settings.load import Loaded, load
from sellerwatch.settings.model import Settings

if TYPE_CHECKING:
    from sellerwatch.web.serve import Serving

#: The family of texts of these commands.
FAMILY = "cli_serve"
#: A receiver that takes nothing for so long is not waited for.
PATIENCE = 2.0


def serve() -> None:
    """Examples:

    sellerwatch serve
    SELLERWATCH_PRODUCT_SERVER_URL=https://products.example/events sellerwatch serve
    """

    run_on_uvloop(_serve(_loaded(), EVERYTHING))


def api() -> None:
    """Examples:

    sellerwatch api
    """

    run_on_uvloop(_serve(_loaded(), frozenset({ProcessRole.API})))


def worker() -> None:
    """Examples:

    sellerwatch worker
    """

    run_on_uvloop(_serve(_loaded(), frozenset({ProcessRole.WORKER})))


def scheduler() -> None:
    """Examples:

    sellerwatch scheduler
    """

    run_on_uvloop(_serve(_loaded(), frozenset({ProcessRole.SCHEDULER})))


def crawl(
    sellers: Annotated[list[str], typer.Argument(metavar="SELLER...")],
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> None:
    """Examples:

    sellerwatch crawl seller_12345
    sellerwatch crawl seller_1 seller_2 --json
    """
    settings = _loaded(quiet=True).settings
    raise typer.Exit(run_on_uvloop(_crawl(settings, list(dict.fromkeys(sellers)), as_json)))


def _loaded(*, quiet: bool = False) -> Loaded:

    loaded = load(os.environ)
    settings = loaded.settings
    configure("error" if quiet and settings.log_level == "info" else settings.log_level, settings.log_format)
    return loaded


async def _serve(loaded: Loaded, roles: frozenset[ProcessRole]) -> None:

    log, settings = logging.getLogger("sellerwatch"), loaded.settings
    async with AsyncExitStack() as opened:
        service = await opened.enter_async_context(open_service(settings, roles=roles, make=roles == EVERYTHING))
        stop_on_signals(service.stop.set)
        where = {"role": service.role, "marketplace": settings.marketplace_url}
        if ProcessRole.API in roles:
            from sellerwatch.web.serve import api_of  # noqa: PLC0415 - FastAPI: only roles with an API hold it

            serving = await opened.enter_async_context(api_of(service, settings, origins=loaded.origins))
            _log_what_is_unsafe(settings)
            where |= {"api": serving.address, "console": f"{serving.address}/"}
            if serving.first_password is not None:
                _tell_first_password(serving)
        async with at_work(service) as running:
            await has_begun(service, running)
            if service.begun.is_set():
                log.info("serving", extra={**where, "worker": service.crawl.worker_id})
            await running
        log.info("stopped", extra={"completed": service.progress.completed, "failed": service.progress.failed})


def _log_what_is_unsafe(settings: Settings) -> None:
    """On a public address: log what `config check --deploy` shows."""
    deployment = deployment_of(settings, os.environ)
    log = logging.getLogger("sellerwatch")
    for finding in find_unsafe(deployment) if deployment.is_public else ():
        level = logging.ERROR if finding.severity is Severity.ERROR else logging.WARNING
        problem = finding.problem.text(settings.language)
        log.log(level, "unsafe to expose", extra={"setting": finding.setting, "problem": problem})


def _tell_first_password(serving: Serving) -> None:
    """Past the log, which is kept and shipped: for the person who started it, once."""
    text = Texts(FAMILY)
    _note(text("first_start", password=serving.first_password))
    _note(text("first_start.change", address=serving.address))


def _note(sentence: str) -> None:
    err.print(sentence, highlight=False, markup=False, soft_wrap=True)


async def _crawl(settings: Settings, names: list[str], as_json: bool) -> int:

    ids = [SellerId.parse(name) for name in names]
    async with open_service(settings, schedules=False) as service:
        session = open_session(service, settings, actor(), settings.language, {})
        # Before anything starts: a name misspelt among others must not leave half of them running.
        for seller_id in ids:
            await session.ask(show_schedule, seller_id)
        async with at_work(service) as running:
            found = await _follow_runs(service, session, running, ids)
            await _say_paused(session, found)
            _say_waiting(found)
            await _deliver_rest(service, running)
            return _report(found, as_json)


async def _say_paused(session: OperationSession, found: list[Execution]) -> None:
    """A paused run goes on later, with or without us."""
    text = Texts(FAMILY)
    for run in found:
        reason = (await session.ask(show_execution, run.execution_id)).paused
        if reason is not None:
            _note(text("paused", seller=run.seller_id, reason=reason))


def _say_waiting(found: list[Execution]) -> None:
    """A run that could not be started is kept, so that it is not lost."""

    language = language_setting()
    for run in found:
        if run.waits_to_start and run.failure is not None:
            print_error(RunNotStarted(seller_id=run.seller_id, why=failure_text(run.failure, language)))


async def _deliver_rest(service: Service, running: asyncio.Task[None]) -> None:
    """Deliver what the runs found before we end, as far as the receiver takes it; the rest waits for a service."""
    delivery = service.deliveries[0]
    if not delivery.has_receiver:
        return
    clock, delivered, since = service.crawl.clock, delivery.delivered, service.crawl.clock.monotonic()
    while await delivery.pending() and not (service.stop.is_set() or running.done()):
        if delivery.delivered > delivered:
            delivered, since = delivery.delivered, clock.monotonic()
        elif clock.monotonic() - since > PATIENCE:
            return
        await clock.sleep(LOOK)


async def _follow_runs(
    service: Service, session: OperationSession, running: asyncio.Task[None], ids: list[SellerId]
) -> list[Execution]:

    stop_on_signals(service.stop.set)
    started = [await _run_of(service, session, seller_id) for seller_id in ids]
    service.nudge()
    with progress_bars() as progress:
        bars = [progress.add_task(seller_id, total=None) for seller_id in ids]

        def show(found: list[Execution]) -> None:
            for bar, execution in zip(bars, found, strict=True):
                progress.update(bar, completed=execution.ended, total=execution.total_tasks_created)

        return await follow(service, session, running, started, show)


async def _run_of(service: Service, session: OperationSession, seller_id: SellerId) -> ExecutionId:
    """A new run, or the one that is going: of a service beside us, or left by a process that was ended."""

    try:
        return (await trigger(service.crawl, seller_id, actor(), is_check=True)).execution_id
    except CrawlInProgress as going:
        going_id = ExecutionId(going.execution_id)
    run = await session.ask(show_execution, going_id)
    if run.status is ExecutionStatus.PENDING:
        return (await start(service.crawl, going_id, seller_id, is_check=True)).execution_id
    _note(Texts(FAMILY)("joining", seller=seller_id, execution=going_id))
    return going_id


def _counts(run: Execution) -> dict[str, int] | None:
    """Return how many products the run found to be new, changed, gone and unchanged; None where it is not known."""
    counted = found_products(run)
    return None if counted is None else {str(kind): getattr(counted, kind) for kind in FoundKind}


def _numbers(run: Execution) -> list[int | None]:
    counts = _counts(run) or {}
    return [counts.get(kind) for kind in FoundKind]


def _report(found: list[Execution], as_json: bool) -> int:
    """Say how the runs ended; the exit code for it."""

    rows = [
        (e.seller_id, e.status, e.list_total, e.total_tasks_created, e.completed_tasks, e.failed_tasks) for e in found
    ]
    names = ("sellerId", "status", "products", "tasks", "completed", "failed")
    if as_json:
        runs = [
            dict(zip(names, row, strict=True))
            | {"executionId": e.execution_id}
            | {"found": _counts(e), "see": see_found(e.execution_id, found_products(e))}
            | failure_view(e.failure, language_setting())
            for row, e in zip(rows, found, strict=True)
        ]
        print_json({"executions": runs})
    elif not all(e.waits_to_start for e in found):
        text = Texts(FAMILY)
        columns = text.columns("seller", "status", "products", "tasks", "completed", "failed", *FoundKind)
        print_table(text("runs"), columns, [(*row, *_numbers(e)) for row, e in zip(rows, found, strict=True)], empty="")
        for run in found:
            say_found(see_found(run.execution_id, found_products(run)), text)
    if any(e.status is not ExecutionStatus.COMPLETED for e in found):
        return 1
    return 3 if any(e.failed_tasks for e in found) else 0
