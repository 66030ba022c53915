"""`sellerwatch audit`: who did what, when, and how it was before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from sellerwatch.cli import session
from sellerwatch.cli.output import print_json, print_table
from sellerwatch.cli.session import AsJson, Limit, stamp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sellerwatch.oversight.audit import AuditEntry

app = typer.Typer(no_args_is_help=True, help="Read the audit trail.")

#: What an entry can be about; a subject that is none of these is taken as an id.
SUBJECT_TYPES = (
    "seller",
    "execution",
    "task",
    "message",
    "outbox",
    "agent",
    "product",
    "case",
    "removal",
    "schema",
    "setting",
    "user",
)


@app.command("list")
def list_(
    limit: Limit = 20,
    subject: Annotated[
        str | None, typer.Option("--subject", metavar="TYPE|ID|TYPE:ID", help="What was changed, e.g. seller:seller_1.")
    ] = None,
    actor: Annotated[str | None, typer.Option("--actor", help="Who changed it, e.g. cli:minji or scheduler.")] = None,
    as_json: AsJson = False,
) -> None:
    """List what was done, newest first, with what changed.

    \b
    sellerwatch audit list
    sellerwatch audit list --subject seller:seller_12345
    sellerwatch audit list --actor scheduler --limit 100 --json
    """
    subject_type, subject_id = _subject(subject)
    who = None if actor is None else session.text(actor)
    entries = session.look(
        lambda tx, _: tx.audit.newest(limit=limit, subject_type=subject_type, subject_id=subject_id, actor=who)
    )
    if as_json:
        print_json({"content": [entry_json(entry) for entry in entries], "limit": limit})
        return
    filtered = subject is not None or actor is not None
    print_table(
        "Audit trail",
        ("at (UTC)", "actor", "action", "subject", "what changed"),
        [(e.at, e.actor, e.action, f"{e.subject_type} {e.subject_id}", _told(e)) for e in entries],
        empty="Nothing like that is on the trail. All of it: sellerwatch audit list"
        if filtered
        else "Nothing is on the trail yet: every change made by a person or the scheduler will be.",
    )


def entry_json(entry: AuditEntry) -> dict[str, Any]:
    return {
        "at": stamp(entry.at),
        "actor": entry.actor,
        "action": entry.action,
        "subjectType": entry.subject_type,
        "subjectId": entry.subject_id,
        "before": entry.before,
        "after": entry.after,
        "note": entry.note,
    }


def _subject(given: str | None) -> tuple[str | None, str | None]:
    """`seller` is a type, `seller:x` one of them, anything else an id of whatever type."""
    if given is None:
        return None, None
    kind, colon, name = session.text(given).partition(":")
    if kind not in SUBJECT_TYPES:
        return None, given
    return kind, name if colon else None


def _told(entry: AuditEntry) -> str:
    """Only what differs: `status ACTIVE -> INACTIVE`."""
    before, after = entry.before or {}, entry.after or {}
    changed = [_difference(name, before, after) for name in {**before, **after} if before.get(name) != after.get(name)]
    return "; ".join(filter(None, [", ".join(changed), entry.note]))


def _difference(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    if name not in before:
        return f"{name} {_shown(after[name])}"
    return f"{name} {_shown(before[name])} -> {_shown(after.get(name))}"


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
