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
            err.print(f"round {number}: crawling {self._url}", highlight=False)
        self.refresh()

    def runs(self, found: list[Execution]) -> None:
        """How far the runs are."""
        for execution in found:
            if execution.execution_id not in self._bars:
                bar = self._progress.add_task(execution.seller_id, total=None, note="")
                self._bars[execution.execution_id] = bar
            note = f"{execution.list_total or 0} products, {execution.failed_tasks} failed"
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
            verdict = "the catalogues are equal" if mismatches == 0 else f"{mismatches} fields differ"
            delivered = self._service.deliveries[0].delivered
            err.print(f"round {self._round}: {delivered} events delivered, {verdict}", highlight=False)
        self.refresh()

    def refresh(self) -> None:
        if err.is_terminal:
            self._live.update(self._picture())

    def _picture(self) -> Panel:
        stats = self._simulator.marketplace.stats()
        facts = Table.grid(padding=(0, 3))
        facts.add_row("requests", f"{sum(stats['requests'].values()):,}", "faults met", f"{_sum(stats['faults']):,}")
        facts.add_row(
            "events delivered",
            f"{self._service.deliveries[0].delivered:,}",
            "receiver's products",
            f"{self._simulator.product_server.stats()['products']:,}",
        )
        facts.add_row(
            "most in a window",
            f"{stats['most_in_a_window']} of {self._service.crawl.limits.window_limit}",
            "over budget",
            Text(str(stats["over_budget"]), style="green" if stats["over_budget"] == 0 else "red"),
        )
        return Panel(
            Group(self._progress, Text(), facts, Text(), self._verdict(), *self._ways_in()),
            title=f"sellerwatch demo, round {self._round}",
            subtitle=f"marketplace {self._url}",
            width=100,
        )

    def _doors(self) -> list[str]:
        """Where the console is and how to log in."""
        if self._api is None:
            return []
        password = self._api.first_password
        return [
            f"console: {self._api.address}/  (API: {self._api.address}/docs)",
            f"log in: admin / {password}",
        ]

    def _ways_in(self) -> list[Text]:
        """While it stays up, another terminal can look at it with the operator's commands."""
        export = f"export SELLERWATCH_DATABASE_URL=sqlite:///{self._database}"
        return [
            *(Text(line, no_wrap=True) for line in self._doors()),
            Text("From another terminal: sellerwatch sellers list, executions list, tasks list ... after", style="dim"),
            Text(export, style="dim", no_wrap=True),
        ]

    def _verdict(self) -> Text:
        if self._agreed is None:
            return Text("crawling and delivering ...", style="dim")
        if self._agreed:
            return Text(f"{self._agreed} fields differ between marketplace and product server", style="red")
        return Text("The product server's catalogue equals the marketplace's. Ctrl-C ends the demo.", style="green")


def _sum(faults: object) -> int:
    return sum(faults.values()) if isinstance(faults, dict) else 0
