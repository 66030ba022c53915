"""`sellerwatch audit`: who did what, when, and how it was before and after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import orjson
import typer

from sellerwatch.cli import session
from sellerwatch.cli.help import CommandApp
from sellerwatch.cli.output import print_facts, print_view
from sellerwatch.cli.session import AsJson, CursorOption, Limit
from sellerwatch.cli.tables import Columns, print_page
from sellerwatch.oversight import queries
from sellerwatch.oversight.ports import AuditFilter
from sellerwatch.oversight.queries import AuditEntryView

app = CommandApp()

TEXTS = "cli_audit"

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


def _what_changed(entry: AuditEntryView) -> str:
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


ENTRIES: Columns[AuditEntryView] = {
    "entry": lambda entry, _: entry.entry_id,
    "at": lambda entry, _: entry.at,
    "actor": lambda entry, _: entry.actor,
    "action": lambda entry, _: entry.action,
    "subject": lambda entry, _: f"{entry.subject_type} {entry.subject_id}",
    "changed": lambda entry, _: _what_changed(entry),
}


@app.command("list")
def list_(
    limit: Limit = 20,
    subject: Annotated[str | None, typer.Option("--subject", metavar="TYPE|ID|TYPE:ID")] = None,
    actor: str | None = None,
    cursor: CursorOption = None,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch audit list
    sellerwatch audit list --subject seller:seller_12345
    sellerwatch audit list --actor scheduler --limit 100 --json
    """
    subject_type, subject_id = _subject(subject)
    who = None if actor is None else session.text(actor)
    chosen = AuditFilter(subject_type, subject_id, who)
    with session.command_session() as at:
        page, text = at.ask(queries.list_audit, chosen, cursor, limit), at.texts(TEXTS)
    empty = text("list.empty" if chosen == AuditFilter() else "list.none_found")
    print_page(page, ENTRIES, text, "audit", empty, limit=limit, as_json=as_json)


@app.command()
def show(
    entry: Annotated[int, typer.Argument(metavar="ENTRY", min=1)],
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch audit show 42
    """
    with session.command_session() as at:
        found, text = at.ask(queries.show_audit_entry, entry), at.texts(TEXTS)
    if as_json:
        print_view(found)
        return
    facts = {
        "entry": found.entry_id,
        "at": found.at,
        "actor": found.actor,
        "action": found.action,
        "subject": f"{found.subject_type} {found.subject_id}",
        "before": None if found.before is None else _shown(found.before),
        "after": None if found.after is None else _shown(found.after),
        "note": found.note,
    }
    print_facts((text(f"fact.{name}"), value) for name, value in facts.items())


def _subject(given: str | None) -> tuple[str | None, str | None]:
    """`seller` is a type, `seller:x` one of them, anything else an id of whatever type."""
    if given is None:
        return None, None
    kind, colon, name = session.text(given).partition(":")
    if kind not in SUBJECT_TYPES:
        return None, given
    return kind, name if colon else None
