"""/api/v1/marketplace: whether the marketplace is asked, and whether its endpoints answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Request
from pydantic import Field, StrictStr

from sellerwatch.agents.endpoints import Endpoint
from sellerwatch.agents.marketplace_status import MarketplaceStatus, marketplace_status
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.failure import Blame, Fact, FailureCode
from sellerwatch.kernel.ids import SellerId
from sellerwatch.operations import marketplace
from sellerwatch.operations.marketplace import pause_notice
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.web.api.authorization import Admin, Viewer
from sellerwatch.web.api.context import Desk, Parts, parts_of
from sellerwatch.web.api.cursors import seller_of
from sellerwatch.web.api.errors import language_of, refusals
from sellerwatch.web.api.models import RequestModel, ResponseModel, Stamp

router = APIRouter(prefix="/marketplace", tags=["marketplace"])


class SellerPause(ResponseModel):
    seller_id: str = Field(examples=["seller_12345"])
    paused_at: Stamp
    paused_by: str = Field(examples=["api:minji@example"])


class EndpointFailureShown(ResponseModel):
    code: FailureCode = Field(examples=["SERVER_ERROR"])
    blame: Blame = Field(examples=["MARKETPLACE"])
    facts: dict[str, Fact] = Field(examples=[{"status": 503}])
    at: Stamp


class EndpointCircuit(ResponseModel):
    """While `state` is not CLOSED the endpoint is not asked, but for one request at `notBefore` that finds out whether
    it is back. `reason` is the failure as a sentence, in the language of Accept-Language."""

    endpoint: Endpoint = Field(examples=["detail"])
    state: CircuitState = Field(examples=["OPEN"])
    since: Stamp | None
    reason: str | None = Field(examples=["The marketplace answered 503: an error on its side."])
    failure: EndpointFailureShown | None
    not_before: Stamp | None


class MarketplaceShown(ResponseModel):
    """`paused`: all requests are stopped, whoever they are for. `sellers`: requests for these are stopped."""

    paused: bool
    paused_by: str | None = Field(examples=["api:minji@example"])
    paused_at: Stamp | None
    sellers: list[SellerPause]
    circuits: list[EndpointCircuit]


class ScopeBody(RequestModel):
    """Without a seller: all requests."""

    seller_id: StrictStr | None = Field(None, max_length=100, examples=["seller_12345"])


Scope = Annotated[ScopeBody | None, Body()]


@router.get("/status")
async def show_marketplace(request: Request, _: Viewer) -> MarketplaceShown:
    """What is paused and by whom, and for each endpoint its circuit, since when, why, and the next probe."""
    return _shown(await parts_of(request).read(marketplace_status), request)


@router.post("/pause", responses=refusals(404, 409))
async def pause_marketplace(request: Request, caller: Admin, body: Scope = None) -> MarketplaceShown:
    """Stop all requests to the marketplace, or those for one seller, in every process within a second and over
    restarts. Requests under way finish, tasks and starts wait; the time does not count for the deadlines of runs."""
    return _shown(await turn(parts_of(request), caller.actor, _seller(body), is_pause=True), request)


@router.post("/resume", responses=refusals(404, 409))
async def resume_marketplace(request: Request, caller: Admin, body: Scope = None) -> MarketplaceShown:
    """Let requests leave again. A pause of all requests and one of a seller are ended separately."""
    return _shown(await turn(parts_of(request), caller.actor, _seller(body), is_pause=False), request)


async def turn(parts: Parts, actor: str, seller_id: SellerId | None, *, is_pause: bool) -> MarketplaceStatus:
    """Pause or resume; this process obeys before it answers, the others within a second."""
    verb = marketplace.pause if is_pause else marketplace.resume

    def work(tx: ServiceTx, desk: Desk) -> MarketplaceStatus:
        return verb(tx, seller_id, actor=desk.actor, now=desk.now)

    found = await parts.change(actor, work)
    await parts.service.heed_pauses()
    parts.service.crawl.tell([pause_notice(seller_id, actor, is_pause=is_pause)])
    return found


def _seller(body: ScopeBody | None) -> SellerId | None:
    return None if body is None else seller_of(body.seller_id)


def _shown(found: MarketplaceStatus, request: Request) -> MarketplaceShown:
    return MarketplaceShown.model_validate(found.as_json(language_of(request)))
