"""How products and their changes look: for people short and coloured, for scripts whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import orjson
from rich.text import Text

from sellerwatch.catalog.differences import Change
from sellerwatch.catalog.product import Product, ProductEvent
from sellerwatch.catalog.quarantine import HeldPart
from sellerwatch.cli.output import ago, out, print_facts, print_table
from sellerwatch.cli.session import say, stamp

if TYPE_CHECKING:
    from sellerwatch.catalog.ports import HistoryEntry
    from sellerwatch.catalog.queries import LookedAt
    from sellerwatch.outbox.message import Message

#: Characters of a value in a cell, and where a change has lines of its own.
IN_A_CELL = 40
ON_A_LINE = 160
#: How much of what is equal stands before the place where two long texts begin to differ.
LEAD = 20


def value(given: Any, longest: int = IN_A_CELL) -> str:
    """One value on one line. What a terminal would take for an order is not shown as it is: names come from outside."""
    text = given if isinstance(given, str) and given else orjson.dumps(given, default=str).decode()
    text = "".join(c if c.isprintable() else " " for c in text)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def before_and_after(before: Any, after: Any, longest: int = IN_A_CELL) -> Text:
    """`600000 → 590000`, the one red, the other green."""
    return Text.assemble((_side(before, longest), "red"), " → ", (_side(after, longest), "green"))


def change_json(change: Change) -> dict[str, Any]:
    return {"field": change.field, "kind": change.kind, "before": change.before, "after": change.after}


def product_json(product: Product, name: str | None = None) -> dict[str, Any]:
    return {
        "itemNo": product.item_no,
        "productId": product.product_id,
        "sellerId": product.seller_id,
        "state": product.state,
        "name": name,
        "version": product.version,
        "isChanged": product.is_changed,
        "minishopHash": product.minishop_hash,
        "detailHash": product.detail_hash,
        "optionHash": product.option_hash,
        "missingRuns": product.missing_runs,
        "lastSeenAt": stamp(product.last_seen_at),
        "lastSeenExecution": product.last_seen_execution,
        "createdAt": stamp(product.created_at),
        "updatedAt": stamp(product.updated_at),
        "deletedAt": stamp(product.deleted_at),
    }


def looked_at_json(found: LookedAt) -> dict[str, Any]:
    product, data = found.known.product, found.known.data
    return product_json(product, data.get("name")) | {
        "productData": data or None,
        "problem": found.known.problem,
        "lastEvent": None if found.last is None else _event_json(found.last, found.held_by),
        "held": [held_json(part) for part in found.held],
    }


def held_json(part: HeldPart) -> dict[str, Any]:
    return {
        "itemNo": part.item_no,
        "part": part.part,
        "status": part.status,
        "caseId": part.case_id,
        "executionId": part.execution_id,
        "hash": part.hash,
        "heldSince": stamp(part.created_at),
    }


def entry_json(entry: HistoryEntry) -> dict[str, Any]:
    return {
        "at": stamp(entry.created_at),
        "eventType": entry.event,
        "version": entry.version,
        "executionId": entry.execution_id,
        "outboxId": entry.outbox_id,
        "changes": [change_json(change) for change in entry.changes],
    }


def print_product(found: LookedAt, now: datetime) -> None:
    product, data = found.known.product, found.known.data
    hashes = (("list", product.minishop_hash), ("detail", product.detail_hash), ("options", product.option_hash))
    print_facts(
        [
            ("item", product.item_no),
            ("name", _text(data.get("name"))),
            ("brand", _brand(data.get("brand"))),
            ("categories", _text(" > ".join(c["name"] for c in data.get("categories") or ()))),
            ("seller", product.seller_id),
            ("state", product.state),
            ("version", product.version),
            ("prices", _prices(data.get("prices"))),
            ("stock", _stock(data)),
            ("condition", _text(data.get("itemStatus"))),
            ("origin", _text(data.get("originCountry"))),
            ("images, tags", f"{len(data.get('images') or ())}, {len(data.get('tags') or ())}" if data else None),
            ("hashes", ", ".join(f"{part} {hash_[:8] if hash_ else '-'}" for part, hash_ in hashes)),
            ("last seen", _time(product.last_seen_at, now)),
            ("seen in run", product.last_seen_execution),
            ("deleted", _time(product.deleted_at, now) if product.is_deleted else None),
            ("last event", _event(found, now)),
        ]
    )
    options = data.get("options") or ()
    print_table(
        "Options",
        ("option", "color", "size", "stock", "size guide"),
        [
            (o["optionNo"], _text(o["color"]), _text(o["size"]), o["stock"], value(o["sizeGuide"] or "-"))
            for o in options
        ],
        empty="It has no options." if data else "Nothing of it has been read yet.",
    )
    if found.known.problem is not None:
        say(f"Shown as it was last told: {found.known.problem}", "yellow")
    for part in found.held:
        say(_held(part), "yellow")
    if product.version:
        item = product.item_no
        say(f"What changed: sellerwatch products diff {item}; all of it: sellerwatch products history {item}", "dim")


def print_history(entries: Sequence[HistoryEntry], empty: str) -> None:
    print_table(
        "History",
        ("at (UTC)", "event", "version", "execution", "kind", "field", "before → after"),
        [row for entry in entries for row in _rows(entry)],
        empty=empty,
    )


def print_changes(changes: Sequence[Change]) -> None:
    """Like a patch: what was in red, what is in green."""
    for change in changes:
        out.print(Text.assemble((value(change.field, ON_A_LINE), "bold"), (f"  {change.kind}", "dim")), soft_wrap=True)
        for sign, style, line in _lines(change):
            out.print(Text(f"  {sign} {line}", style=style), soft_wrap=True)


def _lines(change: Change) -> Iterator[tuple[str, str, str]]:
    """Of two lists the members that one has and the other has not; of two long texts the place where they differ."""
    before, after = change.before, change.after
    if isinstance(before, list) and isinstance(after, list):
        gone = [member for member in before if member not in after]
        new = [member for member in after if member not in before]
        yield from (("-", "red", value(member, ON_A_LINE)) for member in gone)
        yield from (("+", "green", value(member, ON_A_LINE)) for member in new)
        if not gone and not new:
            yield "~", "yellow", "the same in another order"
        return
    start = 0
    if isinstance(before, str) and isinstance(after, str) and max(len(before), len(after)) > ON_A_LINE:
        same = next(
            (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(map(len, (before, after)))
        )
        start = max(0, same - LEAD)
    for sign, style, side in (("-", "red", before), ("+", "green", after)):
        if side is not None:
            cut = side[start:] if isinstance(side, str) and start else side
            yield sign, style, ("…" if start else "") + value(cut, ON_A_LINE)


def _rows(entry: HistoryEntry) -> Iterator[tuple[Any, ...]]:
    event = entry.event if entry.outbox_id is not None else f"{entry.event} (not told)"
    first: tuple[Any, ...] = (entry.created_at, event, entry.version, entry.execution_id)
    if entry.event is ProductEvent.CREATED:
        yield (*first, "", f"all of it ({len(entry.changes)} fields)", "")
    elif not entry.changes:
        yield (*first, "", "", "")
    for change in () if entry.event is ProductEvent.CREATED else entry.changes:
        yield (*first, change.kind, change.field, before_and_after(change.before, change.after))
        first = ("", "", "", "")


def _side(given: Any, longest: int) -> str:
    return "nothing" if given is None else value(given, longest)


def _text(given: Any) -> str | None:
    return None if not given else value(given, 200)


def _time(time: datetime | None, now: datetime) -> str:
    return "never" if time is None else f"{time:%Y-%m-%d %H:%M:%S} UTC ({ago(time, now)})"


def _brand(brand: Mapping[str, Any] | None) -> str | None:
    if brand is None:
        return None
    return value(brand["name"] if not brand["nameKr"] else f"{brand['name']} ({brand['nameKr']})", 200)


def _prices(prices: Mapping[str, Any] | None) -> str | None:
    if prices is None:
        return None
    normal, selling, discount = (f"{prices[name]:,}" for name in ("normal", "selling", "discount"))
    return f"selling {selling}, normal {normal}, discount {discount}, {prices['rate']} % off"


def _stock(data: Mapping[str, Any]) -> str | None:
    if data.get("stock") is None:
        return None
    return f"{data['stock']}{', sold out' if data['soldOut'] else ''}"


def _event(found: LookedAt, now: datetime) -> str | None:
    last = found.last
    if last is None:
        return None
    held = f", behind {found.held_by} that failed for good" if found.held_by is not None else ""
    return f"{last.event_type} {last.outbox_id}: {last.status}{held} ({ago(last.created_at, now)})"


def _event_json(last: Message, held_by: str | None) -> dict[str, Any]:
    return {
        "outboxId": last.outbox_id,
        "eventType": last.event_type,
        "version": last.version,
        "status": last.status,
        "heldBy": held_by,
        "errorMessage": last.error_message,
        "createdAt": stamp(last.created_at),
        "sentAt": stamp(last.sent_at),
    }


def _held(part: HeldPart) -> str:
    if part.case_id is None:
        return f"A newer {part.part} waits until more of run {part.execution_id} has been judged."
    if part.status == "DROPPED":
        return f"A newer {part.part} was dropped with the case {part.case_id}; the same one is not taken in."
    return f"A newer {part.part} is held: sellerwatch quarantine show {part.case_id}"
