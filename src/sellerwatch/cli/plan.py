"""`sellerwatch plan`: whether the sellers fit into what the pool may ask, and when each run would finish."""

from __future__ import annotations

from typing import Annotated

import typer

from sellerwatch.cli.output import lasting, out, print_table, print_view
from sellerwatch.cli.session import AsJson, Page, Size, command_session, say
from sellerwatch.cli.texts import Texts
from sellerwatch.reports.capacity import PlannedRunView, PlanView, show_plan

#: The family of texts of this command.
FAMILY = "cli_plan"
Agents = Annotated[int | None, typer.Option("--agents", min=1, max=100_000)]
Products = Annotated[int, typer.Option("--products", min=0, max=10_000_000)]


def plan(
    agents: Agents = None, products: Products = 0, page: Page = 0, size: Size = 20, as_json: AsJson = False
) -> None:
    """Examples:

    sellerwatch plan
    sellerwatch plan --agents 40 --products 3000 --json
    """
    with command_session() as at:
        session = at.operations
        view = at.ask(show_plan, session.pool, session.rules.page_size, page, size, agents, products)
        text = at.texts(FAMILY)
    if as_json:
        print_view(view)
    else:
        _print_plan(view, products, text)
    if not view.fits:
        raise typer.Exit(1)


def _print_plan(view: PlanView, products: int, text: Texts) -> None:
    total = view.total_elements
    print_table(
        text("title", n=total),
        text.columns("seller", "products", "every", "requests", "starts", "would_end", "takes", "note"),
        [_row(run, text) for run in view.content],
        empty=text("page_empty", page=view.page, n=total) if total else text("empty"),
    )
    if view.content and (view.page + 1) * view.size < total:
        say(text("more", page=view.page + 1), "dim")
    if not total:
        return
    out.print()
    _print_verdict(view, text)
    if view.unread and not products:
        say(text("unread", n=view.unread), "dim")


def _row(run: PlannedRunView, text: Texts) -> tuple[object, ...]:
    if run.is_going:
        starts: object = text("going")
    else:
        starts = text("now") if run.starts_at <= text.now else text.ago(run.starts_at)
    return (
        run.seller_id,
        run.products if run.is_read else text("not_read"),
        text(f"interval.{run.interval.unit}", n=run.interval.amount),
        run.requests,
        starts,
        run.ends_at or text("not_within_a_week"),
        lasting(run.ends_at - run.starts_at) if run.ends_at else None,
        text("late") if run.is_late else "",
    )


def _print_verdict(view: PlanView, text: Texts) -> None:
    share = f"{100 * view.requests_per_day / view.allowed_per_day:.1f} %" if view.allowed_per_day else "-"
    numbers = {"requests": view.requests_per_day, "allowed": view.allowed_per_day, "agents": view.agents}
    say(
        text("fits" if view.fits else "does_not_fit", n=view.total_elements, share=share, **numbers),
        "green" if view.fits else "red",
    )
    if view.fits:
        return
    if not view.agents:
        say(text("no_agent"))
    elif view.requests_per_day > view.allowed_per_day:
        say(text("more_agents", n=view.agents_needed))
    else:
        say(text("some_late"))
