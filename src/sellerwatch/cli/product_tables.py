"""How products and their changes look on a terminal: short and coloured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson
from rich.text import Text

from sellerwatch.catalog.product import ProductEvent
from sellerwatch.catalog.quarantine import HeldStatus
from sellerwatch.cli.output import out, print_facts, print_table
from sellerwatch.cli.session import say

if TYPE_CHECKING:
    from sellerwatch.catalog.product_views import (
        ChangeView,
        HeldPartView,
        HistoryEntryView,
        ProductDetailView,
        ProductEventView,
    )
    from sellerwatch.cli.texts import Texts

#: The family of texts of products, quarantine and removals.
FAMILY = "cli_products"
#: Characters of a value in a cell, and where a change has lines of its own.
IN_A_CELL = 40
ON_A_LINE = 160
#: How much of the equal beginning is shown before the place where two long texts begin to differ.
LEAD = 20


def one_line(value: Any, longest: int = IN_A_CELL) -> str:
    """Return a value on one line, without control characters: names come from outside."""
    text = value if isinstance(value, str) and value else orjson.dumps(value, default=str).decode()
    text = "".join(c if c.isprintable() else " " for c in text)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def before_and_after(before: Any, after: Any, text: Texts, longest: int = IN_A_CELL) -> Text:
    """Return `600000 → 590000`, the first red, the second green."""
    first, second = (text("nothing") if side is None else one_line(side, longest) for side in (before, after))
    return Text.assemble((first, "red"), " → ", (second, "green"))


def print_product(product: ProductDetailView, text: Texts) -> None:
    data = product.product_data or {}
    print_facts(_facts(product, data, text))
    options = data.get("options") or ()
    print_table(
        text("products.options"),
        text.columns("option", "colour", "size", "stock", "size_guide"),
        [
            (o["optionNo"], _text(o["color"]), _text(o["size"]), o["stock"], one_line(o["sizeGuide"] or "-"))
            for o in options
        ],
        empty=text("products.no_options" if data else "products.nothing_read"),
    )
    if product.problem is not None:
        say(text("products.problem", problem=product.problem), "yellow")
    for part in product.held:
        say(_held(part, text), "yellow")
    if product.version:
        say(text("products.look_further", item=str(product.item_no)), "dim")


def _facts(product: ProductDetailView, data: Mapping[str, Any], text: Texts) -> list[tuple[str, Any]]:
    hashes = (("list", product.minishop_hash), ("detail", product.detail_hash), ("options", product.option_hash))
    counts = f"{len(data.get('images') or ())}, {len(data.get('tags') or ())}" if data else None
    return [
        (text("col.item"), product.item_no),
        (text("col.name"), _text(product.name)),
        (text("fact.brand"), _brand(data.get("brand"))),
        (text("fact.categories"), _text(" > ".join(c["name"] for c in data.get("categories") or ()))),
        (text("col.seller"), product.seller_id),
        (text("col.status"), product.state),
        (text("col.version"), product.version),
        (text("fact.prices"), _prices(data.get("prices"), text)),
        (text("col.stock"), _stock(data, text)),
        (text("fact.condition"), _text(data.get("itemStatus"))),
        (text("fact.origin"), _text(data.get("originCountry"))),
        (text("fact.images_tags"), counts),
        (text("fact.hashes"), ", ".join(f"{part} {hash_[:8] if hash_ else '-'}" for part, hash_ in hashes)),
        (text("col.last_seen"), text.when(product.last_seen_at) or text("never")),
        (text("fact.seen_in"), product.last_seen_execution),
        (text("fact.deleted"), text.when(product.deleted_at)),
        (text("fact.last_event"), _event(product.last_event, text)),
    ]


def print_history(entries: Sequence[HistoryEntryView], text: Texts, *, empty: str) -> None:
    print_table(
        text("products.history"),
        text.columns("at", "event", "version", "run", "kind", "field", "change"),
        [row for entry in entries for row in _rows(entry, text)],
        empty=empty,
    )


def print_changes(changes: Sequence[ChangeView], text: Texts) -> None:
    """Print changes like a patch: removed lines red, added lines green."""
    for change in changes:
        name, kind = one_line(change.field, ON_A_LINE), f"  {change.kind}"
        out.print(Text.assemble((name, "bold"), (kind, "dim")), soft_wrap=True)
        for sign, style, line in _lines(change, text):
            out.print(Text(f"  {sign} {line}", style=style), soft_wrap=True)


def _lines(change: ChangeView, text: Texts) -> Iterator[tuple[str, str, str]]:
    """Yield the members that only one of two lists has, and of two long texts the place where they differ."""
    before, after = change.before, change.after
    if isinstance(before, list) and isinstance(after, list):
        removed = [member for member in before if member not in after]
        added = [member for member in after if member not in before]
        yield from (("-", "red", one_line(member, ON_A_LINE)) for member in removed)
        yield from (("+", "green", one_line(member, ON_A_LINE)) for member in added)
        if not removed and not added:
            yield "~", "yellow", text("products.other_order")
        return
    start = _first_difference(before, after)
    for sign, style, side in (("-", "red", before), ("+", "green", after)):
        if side is not None:
            cut = side[start:] if isinstance(side, str) and start else side
            yield sign, style, ("…" if start else "") + one_line(cut, ON_A_LINE)


def _first_difference(before: Any, after: Any) -> int:
    """Return where to begin to show two texts: a little before they differ if one is long, else at their beginning."""
    if not (isinstance(before, str) and isinstance(after, str)) or max(len(before), len(after)) <= ON_A_LINE:
        return 0
    shorter = min(len(before), len(after))
    same = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), shorter)
    return max(0, same - LEAD)


def _rows(entry: HistoryEntryView, text: Texts) -> Iterator[tuple[Any, ...]]:
    has_event = entry.outbox_id is not None
    event = entry.event_type if has_event else text("products.without_event", event=entry.event_type)
    first: tuple[Any, ...] = (entry.at, event, entry.version, entry.execution_id)
    if entry.event_type is ProductEvent.CREATED:
        yield (*first, "", text("products.whole", n=len(entry.changes)), "")
        return
    if not entry.changes:
        yield (*first, "", "", "")
    for change in entry.changes:
        yield (*first, change.kind, change.field, before_and_after(change.before, change.after, text))
        first = ("", "", "", "")


def _text(value: Any) -> str | None:
    return one_line(value, 200) if value else None


def _brand(brand: Mapping[str, Any] | None) -> str | None:
    if brand is None:
        return None
    return _text(f"{brand['name']} ({brand['nameKr']})" if brand["nameKr"] else brand["name"])


def _prices(prices: Mapping[str, Any] | None, text: Texts) -> str | None:
    return None if prices is None else text("products.prices", **prices)


def _stock(data: Mapping[str, Any], text: Texts) -> str | None:
    if data.get("stock") is None:
        return None
    return text("products.sold_out", stock=data["stock"]) if data["soldOut"] else str(data["stock"])


def _event(last: ProductEventView | None, text: Texts) -> str | None:
    if last is None:
        return None
    held = "" if last.held_by is None else f", {text('products.event_held', id=last.held_by)}"
    return f"{last.event_type} {last.outbox_id}: {last.status}{held} ({text.ago(last.created_at)})"


def _held(part: HeldPartView, text: Texts) -> str:
    if part.case_id is None:
        return text("products.part_pending", part=part.part, run=part.execution_id)
    key = "products.part_dropped" if part.status is HeldStatus.DROPPED else "products.part_held"
    return text(key, part=part.part, case=part.case_id)
