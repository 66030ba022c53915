"""`sellerwatch quarantine`: changes that look like a fault of the marketplace's pages, or of our reading, and wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sellerwatch.catalog.quarantine import Case, CaseKind, CaseNotFound, CaseStatus
from sellerwatch.cli import session
from sellerwatch.cli.executions import must_be_known
from sellerwatch.cli.output import ago, print_facts, print_json, print_table, progress
from sellerwatch.cli.products_output import ON_A_LINE, before_and_after, value
from sellerwatch.cli.session import AsJson, Desk, Limit, say, stamp
from sellerwatch.kernel.ids import CaseId, ItemNo, SellerId

if TYPE_CHECKING:
    from sellerwatch.catalog.ports import UnknownField
    from sellerwatch.operations.catalog import Released
    from sellerwatch.operations.ports import ServiceTx

app = typer.Typer(no_args_is_help=True, help="Look at held changes; release them into the catalogue, or drop them.")

#: Items that are named; of the others there is the number.
MOST_ITEMS = 20

CaseArgument = Annotated[str, typer.Argument(metavar="CASE_ID", help="As `quarantine list` shows it.")]


@app.command("list")
def list_(
    seller: Annotated[str | None, typer.Option("--seller", help="Only cases of this seller.")] = None,
    status: Annotated[
        CaseStatus | None, typer.Option("--status", case_sensitive=False, help="Only those in this state.")
    ] = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List cases, newest first: whose products are held, and why.

    \b
    sellerwatch quarantine list --status OPEN
    sellerwatch quarantine list --seller seller_12345 --json
    """
    seller_id = None if seller is None else SellerId.parse(seller)

    def work(tx: ServiceTx, at: Desk) -> tuple[Sequence[Case], Mapping[CaseId, int], datetime]:
        must_be_known(tx, seller_id)
        cases = tx.quarantine.newest(seller_id=seller_id, status=status, limit=limit)
        return cases, tx.held_parts.count_held([case.case_id for case in cases]), at.now

    cases, held, now = session.look(work)
    if as_json:
        print_json({"content": [case_json(case, held.get(case.case_id, 0)) for case in cases], "limit": limit})
        return
    filtered = seller_id is not None or status is not None
    print_table(
        "Quarantine",
        ("case", "seller", "part", "why", "held", "status", "since"),
        [
            (
                c.case_id,
                c.seller_id,
                c.part,
                value(_why(c), 60),
                held.get(c.case_id, 0),
                c.status,
                ago(c.created_at, now),
            )
            for c in cases
        ],
        empty="No case is like that. All of them: sellerwatch quarantine list"
        if filtered
        else "Nothing is in quarantine, and nothing has been.",
    )


@app.command()
def show(case: CaseArgument, as_json: AsJson = False) -> None:
    """Show a case: why, a sample before and after, how many parts are held, and of which products.

    \b
    sellerwatch quarantine show 0198c0de-0000-7000-8008-000000000001
    """
    case_id = CaseId.parse(case)

    def work(tx: ServiceTx, at: Desk) -> tuple[Case, int, Sequence[ItemNo], datetime]:
        found = _found(tx, case_id)
        held = tx.held_parts.count_held([case_id]).get(case_id, 0)
        return found, held, tx.held_parts.items_of_case(case_id, MOST_ITEMS), at.now

    found, held, items, now = session.look(work)
    if as_json:
        print_json(case_json(found, held) | {"items": items})
        return
    more = f" and {held - len(items)} more" if held > len(items) else ""
    print_facts(
        [
            ("case", found.case_id),
            ("seller", found.seller_id),
            ("run", found.execution_id),
            ("part", found.part),
            ("why", value(_why(found), ON_A_LINE)),
            ("status", found.status),
            ("opened", f"{found.created_at:%Y-%m-%d %H:%M:%S} UTC ({ago(found.created_at, now)})"),
            ("decided by", found.decided_by),
            ("sample item", found.sample_item),
            ("sample", _sample(found)),
            ("parts held", held),
            ("of items", (", ".join(map(str, items)) + more) or None),
        ]
    )
    if found.status is CaseStatus.OPEN:
        say(f"Take it in with today's parser: sellerwatch quarantine release {case_id}", "dim")
        say(f"Leave the products as they are: sellerwatch quarantine drop {case_id}", "dim")


@dataclass
class Sum:
    """A release so far."""

    taken: int = 0
    events: int = 0
    unreadable: int = 0
    items: tuple[ItemNo, ...] = ()

    def add(self, step: Released) -> None:
        self.taken += step.taken
        self.events += step.events
        self.unreadable += len(step.unreadable)
        self.items = (*self.items, *step.unreadable)[:MOST_ITEMS]


@app.command()
def release(case: CaseArgument, as_json: AsJson = False) -> None:
    """Take what is held under a case into the catalogue, with today's parser, and tell what changed.

    Exit code 3 when some cannot be read by it either: those stay held, and the case open.

    \b
    sellerwatch quarantine release 0198c0de-0000-7000-8008-000000000001
    """
    case_id = CaseId.parse(case)
    done = Sum()
    with session.command_session() as command_session:
        total = command_session.look(lambda tx, _: _count(tx, case_id))
        with progress("releasing", total) as advance:
            after: ItemNo | None = ItemNo(0)
            while after is not None:
                step = _release(command_session, case_id, after)
                done.add(step)
                advance(step.taken + len(step.unreadable))
                after = step.after
    if as_json:
        counts = {"taken": done.taken, "events": done.events, "unreadable": done.unreadable, "items": done.items}
        print_json(case_json(step.case, step.left) | counts)
    else:
        said = f"{done.taken} part(s) taken in, {done.events} event(s) written"
        say(f"{said}; the case is {step.case.status}.", "green" if not done.unreadable else "yellow")
        if done.unreadable:
            listed = ", ".join(map(str, done.items))
            say(f"{done.unreadable} cannot be read by today's parser either and stay held: items {listed}", "red")
            say("Mend the parser and release again, or drop the case.", "dim")
    if done.unreadable:
        raise typer.Exit(3)


@app.command()
def drop(case: CaseArgument, as_json: AsJson = False) -> None:
    """Forget what is held under a case: the products stay as they are, and the same facts are not held again.

    \b
    sellerwatch quarantine drop 0198c0de-0000-7000-8008-000000000001
    """
    case_id = CaseId.parse(case)

    def work(tx: ServiceTx, at: Desk) -> tuple[Case, int]:
        from sellerwatch.operations.catalog import drop_case  # noqa: PLC0415

        return drop_case(tx, case_id, actor=at.actor, now=at.now)

    found, number = session.change(work)
    if as_json:
        print_json(case_json(found, 0) | {"dropped": number})
        return
    say(f"{number} held part(s) dropped; their products stay as they were last told, no event was written.", "green")
    say("Only facts that differ from the dropped ones are looked at again.", "dim")


@app.command()
def drift(as_json: AsJson = False) -> None:
    """The drift report: fields in the marketplace's answers that the contract does not have.

    \b
    sellerwatch quarantine drift
    """

    def work(tx: ServiceTx, at: Desk) -> tuple[Sequence[UnknownField], datetime]:
        return tx.drift.all(), at.now

    fields, now = session.look(work)
    if as_json:
        print_json({"content": [_drift_json(field) for field in fields]})
        return
    print_table(
        "Unknown fields",
        ("endpoint", "field", "answers", "first in item", "first seen", "last seen"),
        [
            (
                f.endpoint,
                value(f.path, ON_A_LINE),
                f.times,
                f.item_no,
                ago(f.first_seen_at, now),
                ago(f.last_seen_at, now),
            )
            for f in fields
        ],
        empty="No unknown field has been met: the answers are as the contract says.",
    )


def case_json(case: Case, held: int) -> dict[str, Any]:
    return {
        "caseId": case.case_id,
        "sellerId": case.seller_id,
        "executionId": case.execution_id,
        "part": case.part,
        "kind": case.kind,
        "field": case.field,
        "status": case.status,
        "held": held,
        "sampleItemNo": case.sample_item,
        "sampleBefore": case.sample_before,
        "sampleAfter": case.sample_after,
        "createdAt": stamp(case.created_at),
        "updatedAt": stamp(case.updated_at),
        "decidedBy": case.decided_by,
    }


def _drift_json(field: UnknownField) -> dict[str, Any]:
    return {
        "endpoint": field.endpoint,
        "field": field.path,
        "answers": field.times,
        "firstItemNo": field.item_no,
        "firstSeenAt": stamp(field.first_seen_at),
        "lastSeenAt": stamp(field.last_seen_at),
    }


def _why(case: Case) -> str:
    if case.kind is CaseKind.UNREADABLE:
        return f"cannot be read: {case.field.partition(' ')[2] or case.field}"
    return f"{case.field} changed in too many products of one run"


def _sample(case: Case) -> Any:
    if case.kind is CaseKind.UNREADABLE:
        return value(case.sample_after or "", ON_A_LINE)
    return before_and_after(case.sample_before, case.sample_after, ON_A_LINE)


def _found(tx: ServiceTx, case_id: CaseId) -> Case:
    case = tx.quarantine.get(case_id)
    if case is None:
        raise CaseNotFound(case_id=case_id)
    return case


def _count(tx: ServiceTx, case_id: CaseId) -> int:
    _found(tx, case_id)
    return tx.held_parts.count_held([case_id]).get(case_id, 0)


def _release(command_session: session.CommandSession, case_id: CaseId, after: ItemNo) -> Released:
    def work(tx: ServiceTx, at: Desk) -> Released:
        from sellerwatch.operations.catalog import release_case  # noqa: PLC0415

        return release_case(tx, case_id, at.rules, after=after, actor=at.actor, ids=at.ids, now=at.now)

    return command_session.change(work)
