"""/api/v1/products: the catalogue as it is known, how it came to be so, and what it was read from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field

from sellerwatch.catalog.differences import Change, differences
from sellerwatch.catalog.history import last_change, state_at
from sellerwatch.catalog.ports import HistoryEntry, StoredBody
from sellerwatch.catalog.product import NAMES, PARTS, BodyNotFound, PartName, Product, ProductState
from sellerwatch.catalog.quarantine import HeldPart
from sellerwatch.catalog.queries import LookedAt, found_product, look_at, told_data
from sellerwatch.kernel.ids import ItemNo, OutboxId
from sellerwatch.kernel.paging import Cursor, decode_cursor, encode_cursor
from sellerwatch.operations.catalog import Rereading, reparse
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.outbox.message import Message
from sellerwatch.web.api.authorization import Admin, Viewer
from sellerwatch.web.api.context import Desk, parts_of
from sellerwatch.web.api.cursors import (
    EPOCH,
    CursorParameter,
    DryRun,
    ItemPath,
    SellerFilter,
    cursor_page,
    known_seller,
    seller_of,
)
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.models import CursorPage, PageSize, ResponseModel, Stamp

router = APIRouter(prefix="/products", tags=["products"])

LIST, REPARSE = "products", "reparse"
MOST_BODIES = 1000
MOST_PROBLEMS = 20

PartPath = Annotated[PartName, Path(alias="part", examples=["detail"])]
BodyNumber = Annotated[int, Query(alias="number", ge=1, le=MOST_BODIES, description="1 is the newest body.")]


class ProductShown(ResponseModel):
    item_no: int = Field(examples=[900000001])
    product_id: str
    seller_id: str = Field(examples=["seller_12345"])
    state: ProductState
    name: str | None = Field(examples=["울 코트"])
    version: int
    is_changed: bool
    missing_runs: int
    last_seen_at: Stamp | None
    last_seen_execution: str | None
    created_at: Stamp
    updated_at: Stamp
    deleted_at: Stamp | None


class LastEvent(ResponseModel):
    outbox_id: str
    event_type: str
    version: int
    status: str
    held_by: str | None
    error_message: str | None
    created_at: Stamp
    sent_at: Stamp | None


class HeldShown(ResponseModel):
    """A newer part that is not taken in."""

    part: str
    status: str
    case_id: str | None
    execution_id: str
    held_since: Stamp


class ProductDetail(ProductShown):
    """`productData` is as today's parser reads it, or with a `problem` as it was last told."""

    product_data: dict[str, Any] | None
    problem: str | None
    last_event: LastEvent | None
    held: list[HeldShown]


class Body(ResponseModel):
    """A body as it came; one that is no JSON is told as text."""

    part: PartName
    hash: str
    stored_at: Stamp
    body: Any


class Bodies(ResponseModel):
    item_no: int
    content: list[Body]


class ChangeShown(ResponseModel):
    field: str = Field(examples=["prices.selling"])
    kind: str = Field(examples=["price"])
    before: Any = Field(examples=[600000])
    after: Any = Field(examples=[590000])


class HistoryEntryShown(ResponseModel):
    """A state a product was found in. Without an `outboxId` nobody was told."""

    at: Stamp
    event_type: str
    version: int
    execution_id: str | None
    outbox_id: str | None
    changes: list[ChangeShown]


class HistoryShown(ResponseModel):
    """In the order it happened."""

    item_no: int
    content: list[HistoryEntryShown]


class DiffShown(ResponseModel):
    item_no: int
    from_version: int
    to_version: int
    changes: list[ChangeShown]


class FieldCount(ResponseModel):
    field: str
    products: int


class ReadingProblem(ResponseModel):
    item_no: int
    message: str


class Reparsed(ResponseModel):
    """One step of reading again; the next one begins at `next`."""

    dry_run: bool
    read: int
    differing: int
    events: int
    unreadable: int
    fields: list[FieldCount]
    items: list[int] = Field(description="Those that differ.")
    problems: list[ReadingProblem]
    next: str | None


@router.get("", responses=refusals(404))
async def list_products(
    request: Request,
    _: Viewer,
    seller_id: SellerFilter = None,
    state: Annotated[ProductState | None, Query()] = None,
    search: Annotated[str | None, Query(min_length=1, max_length=100, description="A piece of the name.")] = None,
    cursor: CursorParameter = None,
    size: PageSize = 20,
) -> CursorPage[ProductShown]:
    """Products in the order they were first seen. A slice may be short and not the last: only `next: null` is the end.

    `name` is as it was last told.
    """
    wanted, position = seller_of(seller_id), decode_cursor(LIST, cursor)

    def work(tx: ServiceTx) -> CursorPage[ProductShown]:
        known_seller(tx, wanted)
        piece = tx.product_queries.page(seller_id=wanted, state=state, cursor=position, limit=size, search=search)
        return cursor_page(LIST, piece, lambda product: ProductShown(**_product(product, told_data(tx, product))))

    return await parts_of(request).read(work)


@router.post("/reparse", responses=refusals(404))
async def reparse_products(
    request: Request,
    caller: Admin,
    seller_id: SellerFilter = None,
    dry_run: DryRun = False,
    cursor: CursorParameter = None,
) -> Reparsed:
    """Read the stored bodies of the next 100 products again with today's parser, and tell what differs."""
    parts, wanted, position = parts_of(request), seller_of(seller_id), decode_cursor(REPARSE, cursor)

    def work(tx: ServiceTx, desk: Desk) -> Rereading:
        known_seller(tx, wanted)
        return reparse(
            tx,
            parts.service.crawl.rules,
            seller_id=wanted,
            after=0 if position is None else position.row,
            dry_run=dry_run,
            actor=desk.actor,
            ids=desk.ids,
            now=desk.now,
        )

    if dry_run:
        nothing_new = Desk(caller.actor, parts.clock.now(), iter(()))
        return _reparsed(await parts.read(lambda tx: work(tx, nothing_new)), dry_run=True)
    return _reparsed(await parts.change(caller.actor, work), dry_run=False)


@router.get("/{itemNo}", responses=refusals(404))
async def get_product(item_no: ItemPath, request: Request, _: Viewer) -> ProductDetail:
    """One product as it is known now, its last event, and what of it is held."""
    reader = parts_of(request).service.crawl.marketplace
    return await parts_of(request).read(lambda tx: _detail(look_at(tx, ItemNo(item_no), reader)))


@router.get("/{itemNo}/raw", responses=refusals(404))
async def get_bodies(
    item_no: ItemPath,
    request: Request,
    _: Viewer,
    number: BodyNumber = 1,
) -> Bodies:
    """The body of each part that a product was read from."""
    found = await parts_of(request).read(lambda tx: _bodies(tx, ItemNo(item_no), [*PartName], number))
    return Bodies(
        item_no=item_no,
        content=[
            Body(part=NAMES[body.part], hash=body.digest, stored_at=body.created_at, body=_json(body.body))
            for body in found
        ],
    )


@router.get(
    "/{itemNo}/raw/{part}",
    responses={200: {"content": {"application/json": {}}, "description": "The body."}, **refusals(404)},
    response_class=Response,
)
async def get_body(item_no: ItemPath, part: PartPath, request: Request, _: Viewer, number: BodyNumber = 1) -> Response:
    """One body, byte for byte as it came."""
    found = await parts_of(request).read(lambda tx: _bodies(tx, ItemNo(item_no), [part], number))
    return Response(found[0].body, media_type="application/json")


@router.get("/{itemNo}/history", responses=refusals(404))
async def get_history(item_no: ItemPath, request: Request, _: Viewer) -> HistoryShown:
    """Every state a product was found in: when, in which run, and how it differed from the one before."""
    entries = (await parts_of(request).read(lambda tx: _history(tx, ItemNo(item_no))))[1]
    return HistoryShown(item_no=item_no, content=[_entry(entry) for entry in entries])


@router.get("/{itemNo}/diff", responses=refusals(404))
async def get_diff(
    item_no: ItemPath,
    request: Request,
    _: Viewer,
    from_version: Annotated[int | None, Query(alias="from", ge=0, le=2**31, description="0: before anything.")] = None,
    to_version: Annotated[int | None, Query(alias="to", ge=1, le=2**31, description="Otherwise as it is now.")] = None,
) -> DiffShown:
    """What differs between two versions, field by field; by default the last change.

    With `to` alone from the version before that one, with `from` alone up to now.
    """
    product, entries = await parts_of(request).read(lambda tx: _history(tx, ItemNo(item_no)))
    if from_version is None and to_version is None:
        first, last, changes = last_change(entries)
    else:
        start = from_version if from_version is not None or to_version is None else to_version - 1
        last, after = state_at(entries, product.item_no, to_version)
        first, before = state_at(entries, product.item_no, start)
        changes = differences(before, after)
    shown = [_change(change) for change in changes]
    return DiffShown(item_no=item_no, from_version=first, to_version=last, changes=shown)


def _product(product: Product, data: Any) -> dict[str, Any]:
    return vars(product) | {"state": product.state, "name": data.get("name")}


def _detail(found: LookedAt) -> ProductDetail:
    data = found.known.data
    return ProductDetail(
        **_product(found.known.product, data),
        product_data=dict(data) or None,
        problem=found.known.problem,
        last_event=None if found.last is None else _event(found.last, found.held_by),
        held=[_held(part) for part in found.held],
    )


def _event(last: Message, held_by: OutboxId | None) -> LastEvent:
    return LastEvent(**vars(last), held_by=held_by)


def _held(part: HeldPart) -> HeldShown:
    return HeldShown(
        part=part.part,
        status=part.status,
        case_id=part.case_id,
        execution_id=part.execution_id,
        held_since=part.created_at,
    )


def _bodies(tx: ServiceTx, item_no: ItemNo, parts: Sequence[PartName], number: int) -> list[StoredBody]:
    product_id = found_product(tx, item_no).product_id
    kept = {name: tx.bodies.bodies_of(product_id, PARTS[name], number) for name in parts}
    chosen = [body for name in parts for body in kept[name][number - 1 :]]
    if not chosen:
        part = parts[0] if len(parts) == 1 else "any part"
        raise BodyNotFound(item_no=item_no, part=part, kept=sum(map(len, kept.values())))
    return chosen


def _json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return body.decode("utf-8", "replace")


def _history(tx: ServiceTx, item_no: ItemNo) -> tuple[Product, Sequence[HistoryEntry]]:
    product = found_product(tx, item_no)
    return product, tx.history.of_product(product.product_id)


def _entry(entry: HistoryEntry) -> HistoryEntryShown:
    return HistoryEntryShown(
        at=entry.created_at,
        event_type=entry.event,
        version=entry.version,
        execution_id=entry.execution_id,
        outbox_id=entry.outbox_id,
        changes=[_change(change) for change in entry.changes],
    )


def _change(change: Change) -> ChangeShown:
    return ChangeShown(field=change.field, kind=change.kind, before=change.before, after=change.after)


def _reparsed(step: Rereading, *, dry_run: bool) -> Reparsed:
    differing = [one for one in step.differing if one.problem is None]
    problems = [(one.item_no, one.problem) for one in step.differing if one.problem is not None]
    fields = Counter(field for one in differing for field in {change.general_field for change in one.changes})
    return Reparsed(
        dry_run=dry_run,
        read=step.read,
        differing=len(differing),
        events=step.events,
        unreadable=len(problems),
        fields=[FieldCount(field=name, products=number) for name, number in fields.most_common()],
        items=[one.item_no for one in differing],
        problems=[ReadingProblem(item_no=item, message=text) for item, text in problems[:MOST_PROBLEMS]],
        next=None if step.after is None else encode_cursor(REPARSE, Cursor(EPOCH, step.after)),
    )
