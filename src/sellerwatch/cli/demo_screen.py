"""What the demo shows while it works: a bar for each seller, the pool, the outbox, and whether both sides agree."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Group
from rich.live import Live
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from sellerwatch.cli.output import err
from sellerwatch.cli.texts import Texts

if TYPE_CHECKING:
    from sellerwatch.crawling.execution import Execution
    from sellerwatch.service.service import Service
    from sellerwatch.simulator.simulator import Simulator
    from sellerwatch.web.serve import Serving


class Screen:
    """A live picture on a terminal; a line per round elsewhere; nothing when quiet and not on a terminal."""

    def __init__(
        self,
        simulator: Simulator,
        service: Service,
        url: str,
        database: Path,
        api: Serving | None = None,
        *,
        quiet: bool,
    ) -> None:
        self._text = Texts("cli_demo")
        self._simulator = simulator
        self._service = service
        self._database = database
        self._url = url
        self._api = api
        self._round = 1
        self._agreed: int | None = None
        self._quiet = quiet and not err.is_terminal
        self._bars: dict[str, TaskID] = {}
        self._progress = Progress(
            TextColumn("{task.description}", style="bold"),
            BarColumn(bar_width=32),
            MofNCompleteColumn(),
            TextColumn("[dim]{task.fields[note]}"),
            TimeElapsedColumn(),
            console=err,
        )
        self._live = Live(self._picture(), console=err, refresh_per_second=8, transient=False)

    def __enter__(self) -> Self:
        if err.is_terminal:
            self._live.start()
        elif not self._quiet:
            for line in self._doors():
                err.print(line, highlight=False, markup=False, soft_wrap=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if err.is_terminal:
            self.refresh()
            self._live.stop()

    def round(self, number: int) -> None:
        self._round = number
        self._agreed = None
        for bar in self._bars.values():
            self._progress.remove_task(bar)
        self._bars.clear()
        if not err.is_terminal and not self._quiet:
            err.print(self._text("round.crawling", round=number, address=self._url), highlight=False)
        self.refresh()

    def runs(self, found: list[Execution]) -> None:
        """How far the runs are."""
        for execution in found:
            if execution.execution_id not in self._bars:
                bar = self._progress.add_task(execution.seller_id, total=None, note="")
                self._bars[execution.execution_id] = bar
            note = self._text("run.note", n=execution.list_total or 0, failed=execution.failed_tasks)
            self._progress.update(
                self._bars[execution.execution_id],
                completed=execution.ended,
                total=execution.total_tasks_created,
                note=note,
            )
        self.refresh()

    def checked(self, mismatches: int) -> None:
        """Both catalogues were compared."""
        self._agreed = mismatches
        if not err.is_terminal and not self._quiet:
            verdict = self._text("equal" if mismatches == 0 else "differ", n=mismatches)
            delivered = self._service.deliveries[0].delivered
            err.print(self._text("round.done", round=self._round, n=delivered, verdict=verdict), highlight=False)
        self.refresh()

    def refresh(self) -> None:
        if err.is_terminal:
            self._live.update(self._picture())

    def _picture(self) -> Panel:
        stats = self._simulator.marketplace.stats()
        facts = Table.grid(padding=(0, 3))
        requests, faults = f"{sum(stats['requests'].values()):,}", f"{_sum(stats['faults']):,}"
        facts.add_row(self._text("requests"), requests, self._text("faults"), faults)
        facts.add_row(
            self._text("delivered"),
            f"{self._service.deliveries[0].delivered:,}",
            self._text("received"),
            f"{self._simulator.product_server.stats()['products']:,}",
        )
        facts.add_row(
            self._text("most_in_window"),
            self._text("of", n=stats["most_in_a_window"], most=self._service.crawl.limits.window_limit),
            self._text("over_budget"),
            Text(str(stats["over_budget"]), style="green" if stats["over_budget"] == 0 else "red"),
        )
        return Panel(
            Group(self._progress, Text(), facts, Text(), self._verdict(), *self._ways_in()),
            title=self._text("title", round=self._round),
            subtitle=self._text("subtitle", address=self._url),
            width=100,
        )

    def _doors(self) -> list[str]:
        """Where the console is and how to log in."""
        if self._api is None:
            return []
        password = self._api.first_password
        return [
            self._text("console", address=self._api.address),
            self._text("log_in", password=password),
        ]

    def _ways_in(self) -> list[Text]:
        """While it stays up, another terminal can look at it with the operator's commands."""
        export = f"export SELLERWATCH_DATABASE_URL=sqlite:///{self._database}"
        return [
            *(Text(line, no_wrap=True) for line in self._doors()),
            Text(self._text("other_terminal"), style="dim"),
            Text(export, style="dim", no_wrap=True),
        ]

    def _verdict(self) -> Text:
        if self._agreed is None:
            return Text(self._text("working"), style="dim")
        if self._agreed:
            return Text(self._text("they_differ", n=self._agreed), style="red")
        return Text(self._text("they_agree"), style="green")


def _sum(faults: object) -> int:
    return sum(faults.values()) if isinstance(faults, dict) else 0
