"""`sellerwatch plan`: whether the sellers fit into what the pool may ask, and when each run would finish."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sellerwatch.cli import session
from sellerwatch.cli.output import ago, lasting, out, print_json, print_table
from sellerwatch.cli.session import AsJson, Desk, Page, Size, say, stamp, this_moment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sellerwatch.agents.limits import Limits
    from sellerwatch.crawling.execution import Execution
    from sellerwatch.kernel.ids import SellerId
    from sellerwatch.operations.ports import ServiceTx
    from sellerwatch.reports.dashboard import Freshness
    from sellerwatch.schedules.forecast import Budget, Finish
    from sellerwatch.schedules.outlook import ExpectedRuns

Agents = Annotated[
    int | None, typer.Option("--agents", min=1, max=100_000, help="As if so many agents were available and rested.")
]
Products = Annotated[
    int, typer.Option("--products", min=0, max=10_000_000, help="As if a seller never crawled had so many products.")
]


@dataclass(frozen=True, slots=True)
class Planned:
    """A seller's next run, or the one that is going on. `ends` is None where that is not within a week."""

    seller: Freshness
    rhythm: ExpectedRuns
    is_going: bool
    starts: datetime
    requests: int
    ends: datetime | None

    @property
    def is_late(self) -> bool:
        """It would not be over when the next one is due."""
        return self.ends is None or self.ends > self.starts + self.rhythm.interval


@dataclass(frozen=True, slots=True)
class CapacityPlan:
    now: datetime
    budget: Budget
    limits: Limits
    runs: Sequence[Planned]

    @property
    def asked(self) -> int:
        """Requests a day in the long run."""
        day = timedelta(days=1)
        again = [run.rhythm for run in self.runs if run.rhythm.next_run_at is not None]
        return round(sum(rhythm.requests * (day / rhythm.interval) for rhythm in again))

    @property
    def allowed(self) -> int:
        return self.budget.within(timedelta(days=1))

    @property
    def fits(self) -> bool:
        return self.asked <= self.allowed and not any(run.is_late for run in self.runs)

    @property
    def agents_needed(self) -> int:
        from sellerwatch.schedules.forecast import agents_needed  # noqa: PLC0415

        return agents_needed(self.asked, self.limits)


def plan(
    agents: Agents = None, products: Products = 0, page: Page = 0, size: Size = 20, as_json: AsJson = False
) -> None:
    """Show whether the sellers fit into the pool's budget, and when each one's next run would finish.

    An estimate from the sizes of the last runs and the limits in force. Exit code 1 when they do not fit.

    \b
    sellerwatch plan
    sellerwatch plan --agents 40 --products 3000 --json
    """
    when = this_moment()

    def work(tx: ServiceTx, at: Desk) -> CapacityPlan:
        from sellerwatch.compose.rules import tuning_in_force  # noqa: PLC0415
        from sellerwatch.schedules.forecast import Budget  # noqa: PLC0415

        tuning = tuning_in_force(at.settings, tx.overrides.all())
        if agents is None:
            standings = tx.pool_report.standings(when, tuning.limits)
            budget = Budget.of(standings, tuning.limits, tuning.host)
        else:
            budget = Budget.of_so_many(agents, tuning.limits, tuning.host)
        going = {run.seller_id: run for run in tx.executions.running()}
        runs = _planned(tx.dashboard.freshness(), going, budget, at.settings.page_size, products, at.now)
        return CapacityPlan(at.now, budget, tuning.limits, runs)

    made = session.look(work)
    shown = made.runs[page * size : (page + 1) * size]
    if as_json:
        print_json(_plan_json(made) | session.page_of([_run_json(run) for run in shown], page, size, len(made.runs)))
    else:
        _print_plan(made, shown, page, products)
    if not made.fits:
        raise typer.Exit(1)


def _planned(
    sellers: Sequence[Freshness],
    going: Mapping[SellerId, Execution],
    budget: Budget,
    page_size: int,
    unread: int,
    now: datetime,
) -> list[Planned]:
    """The next run of each seller, or what is left of the one that is going on, soonest first.

    All runs of the coming day are played through together, the ones after the next too: they are in the others' way.
    What starts later is played through by itself.
    """
    from sellerwatch.schedules.forecast import DAY, finishes  # noqa: PLC0415
    from sellerwatch.schedules.outlook import Due  # noqa: PLC0415

    rhythms = {seller.seller_id: seller.rhythm(page_size, unread) for seller in sellers}
    runs = [run for rhythm in rhythms.values() for run in rhythm.starts(now, now + DAY)]
    for seller_id, execution in going.items():
        left = max(rhythms[seller_id].requests, execution.total_tasks_created) - execution.ended
        runs.append(Due(execution.started_at or now, seller_id, max(1, left)))
    first: dict[SellerId, Finish] = {}
    for finish in sorted(finishes(runs, budget, now), key=lambda finish: finish.run.at):
        first.setdefault(finish.run.seller_id, finish)
    for rhythm in rhythms.values():
        if rhythm.seller_id not in first and rhythm.next_run_at is not None:
            run = Due(rhythm.next_run_at, rhythm.seller_id, rhythm.requests)
            first[rhythm.seller_id] = finishes([run], budget.rested(), run.at)[0]
    planned = [
        Planned(
            seller,
            rhythms[seller.seller_id],
            seller.seller_id in going,
            max(first[seller.seller_id].run.at, now),
            first[seller.seller_id].run.requests,
            first[seller.seller_id].at,
        )
        for seller in sellers
        if seller.seller_id in first
    ]
    return sorted(planned, key=lambda run: (run.starts, run.seller.seller_id))


def _plan_json(made: CapacityPlan) -> dict[str, Any]:
    return {
        "fits": made.fits,
        "requestsPerDay": made.asked,
        "allowedPerDay": made.allowed,
        "agents": made.budget.agents,
        "agentsNeeded": made.agents_needed,
        "late": sum(run.is_late for run in made.runs),
    }


def _run_json(run: Planned) -> dict[str, Any]:
    return {
        "sellerId": run.seller.seller_id,
        "products": run.seller.products,
        "isRead": run.seller.fresh_as_of is not None,
        "interval": {"amount": run.seller.interval.amount, "unit": run.seller.interval.unit},
        "isGoing": run.is_going,
        "requests": run.requests,
        "startsAt": stamp(run.starts),
        "endsAt": stamp(run.ends),
        "isLate": run.is_late,
    }


def _print_plan(made: CapacityPlan, shown: Sequence[Planned], page: int, products: int) -> None:
    total = len(made.runs)
    nothing = "No seller is crawled: nothing to plan. Register one: sellerwatch sellers add SELLER_ID --name NAME"
    if total:
        nothing = f"Page {page} is empty: there are {total} sellers. Begin with: sellerwatch plan"
    print_table(
        f"Next runs ({total})",
        ("seller", "products", "every", "requests", "starts", "would end (UTC)", "takes", ""),
        [
            (
                run.seller.seller_id,
                run.seller.products if run.seller.fresh_as_of else "not read yet",
                str(run.seller.interval).removeprefix("every "),
                run.requests,
                "going on" if run.is_going else "now" if run.starts <= made.now else ago(run.starts, made.now),
                run.ends or "not within a week",
                lasting(run.ends - run.starts) if run.ends else None,
                "late: the next one is due by then" if run.is_late else "",
            )
            for run in shown
        ],
        empty=nothing,
    )
    if (page + 1) * len(shown) < total and shown:
        say(f"More: sellerwatch plan --page {page + 1}", "dim")
    if total:
        out.print()
        _print_verdict(made)
        unread = sum(run.seller.fresh_as_of is None for run in made.runs)
        if unread and not products:
            say(f"{unread} of them were never read: say how large they may be with --products N.", "dim")


def _print_verdict(made: CapacityPlan) -> None:
    budget = f"{made.allowed:,} that {made.budget.agents} available agents may ask"
    if made.allowed:
        budget += f" ({100 * made.asked / made.allowed:.1f} %)"
    who = "1 seller asks" if len(made.runs) == 1 else f"{len(made.runs)} sellers ask"
    asked = f"{who} for {made.asked:,} requests a day, of the {budget}."
    if made.fits:
        say(f"Fits: {asked}", "green")
        return
    say(f"Does not fit: {asked}", "red")
    if not made.budget.agents:
        say("No agent is available. Look why: sellerwatch agents status")
    elif made.asked > made.allowed:
        say(
            f"It takes {made.agents_needed} agents. Add some (sellerwatch agents add), crawl less often "
            "(sellerwatch sellers interval), or raise what an agent may ask (sellerwatch limits set)."
        )
    else:
        say(
            "The day has room for all, but some runs would not be over when their next one is due: crawl those less "
            "often (sellerwatch sellers interval), or add agents (sellerwatch agents add)."
        )
