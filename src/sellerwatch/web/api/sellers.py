"""/api/v1/sellers: register, list and show sellers, and change how often they are crawled."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field, StrictBool, StrictInt, StrictStr

from sellerwatch.crawling.views import A_SELLER_ID, StartedExecutionView
from sellerwatch.kernel.ids import SellerId
from sellerwatch.kernel.views import NumberedPageView
from sellerwatch.operations import seller_import, seller_removal
from sellerwatch.operations import sellers as operations
from sellerwatch.operations.seller_import import ImportedSellersView
from sellerwatch.operations.seller_removal import RemovedSellerView
from sellerwatch.operations.sellers import DeactivatedSellerView, ListedSellerView, SellerDetailView
from sellerwatch.reports.freshness import FreshnessState
from sellerwatch.schedules.interval import CrawlingInterval
from sellerwatch.sellers import commands
from sellerwatch.sellers.commands import ChangedSellerView
from sellerwatch.sellers.import_rows import SellerRow, row_of
from sellerwatch.sellers.seller import SellerStatus
from sellerwatch.web.api.authorization import AdminSession, DryRunSession, ViewerSession
from sellerwatch.web.api.context import parts_of
from sellerwatch.web.api.cursors import unreadable
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.models import PageNumber, PageSize, RequestModel
from sellerwatch.web.api.run_start import start_run
from sellerwatch.web.api.seller_paths import SellerPath
from sellerwatch.web.api.view_route import ViewRoute

router = APIRouter(prefix="/sellers", tags=["sellers"], route_class=ViewRoute)

#: Of 100 products each, in one request.
REMOVAL_STEPS = 10

Search = Annotated[str | None, Query(min_length=1, max_length=100, description="A part of the seller's id or name.")]


class IntervalBody(RequestModel):
    amount: StrictInt = Field(examples=[6])
    unit: StrictStr = Field(examples=["HOURS"], description="DAYS or HOURS, in any case.")


class ChangeIntervalBody(RequestModel):
    crawling_interval_days: StrictInt | None = Field(None, examples=[7])
    interval: IntervalBody | None = None

    def wanted(self) -> CrawlingInterval | None:
        """Return the interval, given in one way or the other; None where none is given."""
        if self.crawling_interval_days is not None and self.interval is not None:
            raise unreadable("interval", "give crawlingIntervalDays or interval, not both")
        if self.interval is not None:
            return CrawlingInterval.parse(self.interval.amount, self.interval.unit)
        return None if self.crawling_interval_days is None else CrawlingInterval.of_days(self.crawling_interval_days)


class RegisterBody(ChangeIntervalBody):
    seller_id: StrictStr = Field(examples=[A_SELLER_ID])
    name: StrictStr = Field(examples=["럭셔리하우스"])
    crawling_interval_days: StrictInt | None = Field(None, examples=[1])
    crawl_now: StrictBool = False


class ImportedRow(RequestModel):
    seller_id: StrictStr = Field(max_length=200, examples=[A_SELLER_ID])
    name: StrictStr = Field(max_length=1000, examples=["럭셔리하우스"])
    crawling_interval_days: StrictInt | None = Field(None, examples=[1])
    interval: StrictStr | None = Field(None, max_length=50, examples=["6h"], description="Such as 1d or 6h.")


class ImportBody(RequestModel):
    sellers: list[ImportedRow] = Field(
        max_length=1000, examples=[[{"sellerId": A_SELLER_ID, "name": "럭셔리하우스", "interval": "6h"}]]
    )

    def rows(self) -> list[SellerRow]:
        given = (each.model_dump(by_alias=True, exclude_none=True) for each in self.sellers)
        return [row_of(number, values) for number, values in enumerate(given, 1)]


@router.post("", status_code=201, responses=refusals(409))
async def register_seller(body: RegisterBody, session: DryRunSession) -> ChangedSellerView:
    """Register a seller. Its first run is due one interval later, or at once with `crawlNow`."""
    seller_id, interval = SellerId.parse(body.seller_id), body.wanted()
    return await session.run(commands.register_seller, seller_id, body.name, interval, crawl_now=body.crawl_now)


@router.get("")
async def list_sellers(
    session: ViewerSession,
    status: Annotated[SellerStatus | None, Query()] = None,
    search: Search = None,
    freshness: Annotated[FreshnessState | None, Query()] = None,
    page: PageNumber = 0,
    size: PageSize = 20,
) -> NumberedPageView[ListedSellerView]:
    """Sellers by their id, each with its freshness, its open run and what that waits for."""
    return await session.ask(operations.list_sellers, status, page, size, search, freshness)


@router.get("/{sellerId:seller}", responses=refusals(404))
async def show_seller(seller_id: SellerPath, session: ViewerSession) -> SellerDetailView:
    """One seller: its schedule, its products, its last runs, and what waits for a person."""
    return await session.ask(operations.show_seller, SellerId.parse(seller_id))


@router.patch("/{sellerId:path}/interval", responses=refusals(404, 409))
async def change_interval(seller_id: SellerPath, body: ChangeIntervalBody, session: DryRunSession) -> ChangedSellerView:
    """Change how often a seller is crawled; an INACTIVE one is refused."""
    wanted, interval = SellerId.parse(seller_id), body.wanted()
    if interval is None:
        raise unreadable("crawlingIntervalDays", "one of crawlingIntervalDays and interval is needed")
    return await session.run(commands.change_interval, wanted, interval)


@router.post("/{sellerId:path}/activate", responses=refusals(404, 409))
async def activate_seller(seller_id: SellerPath, session: DryRunSession) -> ChangedSellerView:
    """Crawl a seller again. Its next run is one interval from now."""
    return await session.run(commands.activate_seller, SellerId.parse(seller_id))


@router.post("/{sellerId:path}/deactivate", responses=refusals(404, 409))
async def deactivate_seller(seller_id: SellerPath, session: DryRunSession) -> DeactivatedSellerView:
    """Stop crawling a seller. Its open run is ended: waiting tasks are cancelled, those in flight finish."""
    return await session.run(operations.deactivate_seller, SellerId.parse(seller_id), session.rules)


@router.post("/import")
async def import_sellers(body: ImportBody, session: DryRunSession) -> ImportedSellersView:
    """Register many sellers. Rows that are refused do not stop the others; sellers that are registered stay as they
    are, so the same list can be sent again."""
    return await seller_import.import_sellers(session, body.rows())


@router.delete("/{sellerId:seller}", responses=refusals(404, 409))
async def remove_seller(
    seller_id: SellerPath,
    session: DryRunSession,
    tell_receiver: Annotated[
        bool, Query(alias="tellReceiver", description="Write a PRODUCT_DELETED event for each product.")
    ] = False,
) -> RemovedSellerView:
    """End and archive a seller with its products. One request deletes 1,000 of them: where some are `left`, send it
    again."""
    wanted = SellerId.parse(seller_id)
    return await seller_removal.remove_seller(session, wanted, tell_receiver=tell_receiver, steps=REMOVAL_STEPS)


@router.post("/{sellerId:path}/crawl", status_code=202, responses=refusals(404, 409))
async def crawl_seller_now(seller_id: SellerPath, request: Request, session: AdminSession) -> StartedExecutionView:
    """Start a run now. Answers within 4 seconds: a run that cannot be started yet is answered with `taskCount` null,
    waits and is tried again."""
    return await start_run(parts_of(request), SellerId.parse(seller_id), session.actor)
