"""/api/v1/tokens: tokens of programs. They are made on the command line only; here they are listed and revoked."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from sellerwatch.access import commands, queries
from sellerwatch.access.queries import ApiTokensView, ApiTokenView
from sellerwatch.kernel.ids import ApiTokenId
from sellerwatch.web.api.authorization import AdminSession, DryRunSession
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.view_route import ViewRoute

router = APIRouter(prefix="/tokens", tags=["auth"], route_class=ViewRoute)


@router.get("")
async def list_tokens(session: AdminSession) -> ApiTokensView:
    """List the tokens of programs, revoked and expired ones included."""
    return await session.ask(queries.list_tokens)


@router.delete("/{tokenId}", responses=refusals(404, 409))
async def revoke_token(
    session: DryRunSession, token_id: Annotated[str, Path(alias="tokenId", max_length=100)]
) -> ApiTokenView:
    """Revoke a token: the next request with it is refused."""
    return await session.run(commands.revoke_token, ApiTokenId.parse(token_id))
