"""Log-ins and tokens of programs: who is in, from where, and how to end it."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.access import commands, queries
from sellerwatch.access.queries import ApiTokenView, LoginSessionView
from sellerwatch.kernel.ids import ApiTokenId, LoginSessionId
from sellerwatch.web.api.auth import owner_of
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Admin, Viewer, Visit
from sellerwatch.web.console.rendering import PageRoute, ask_first, go, show_list
from sellerwatch.web.console.tables import Columns

router = APIRouter(route_class=PageRoute, include_in_schema=False)


def _revoke_link(token: ApiTokenView) -> tables.Cell:
    if token.revoked_at is not None:
        return tables.text(None)
    return tables.link("api_tokens.revoke_button", f"/api-tokens/{token.token_id}/revoke")


LOG_INS: Columns[LoginSessionView] = {
    "user": lambda login: tables.code(login.user),
    "kind": lambda login: tables.said(f"log_ins.{login.kind}"),
    "address": lambda login: tables.code(login.address),
    "client": lambda login: tables.raw(login.client),
    "made": lambda login: tables.when(login.created_at),
    "last_used": lambda login: tables.when(login.last_used_at),
    "expires": lambda login: tables.when(login.expires_at),
    "log_in": lambda login: tables.link("log_ins.end_button", f"/log-ins/{login.session_id}/end"),
}
TOKENS: Columns[ApiTokenView] = {
    "name": lambda token: tables.code(token.name),
    "role": lambda token: tables.said(f"role.{token.role}"),
    "created_by": lambda token: tables.code(token.created_by),
    "made": lambda token: tables.when(token.created_at),
    "last_used": lambda token: tables.when(token.last_used_at),
    "expires": lambda token: tables.when(token.expires_at),
    "revoked": lambda token: tables.when(token.revoked_at),
    "token": _revoke_link,
}


@router.get("/log-ins")
async def log_ins(visit: Viewer) -> Response:
    found = await visit.operations.ask(queries.list_sessions, _owner(visit), visit.parts.session_limits)
    return show_list(visit, "log_ins", found.content, LOG_INS, live="user")


@router.get("/log-ins/{session_id}/end")
async def confirm_end(session_id: str, visit: Viewer) -> Response:
    known = LoginSessionId.parse(session_id)
    login = await visit.operations.with_dry_run(True).run(commands.end_session, known, _owner(visit))
    sentences = [("log_ins.end_what", {"user": login.user, "address": login.address})]
    return ask_first(visit, "log_ins.end", "log_ins.end_button", sentences, "/log-ins")


@router.post("/log-ins/{session_id}/end")
async def end(session_id: str, visit: Viewer) -> Response:
    await visit.operations.run(commands.end_session, LoginSessionId.parse(session_id), _owner(visit))
    return go(visit, "/log-ins", "log_ins.ended")


@router.get("/api-tokens")
async def tokens_page(visit: Admin) -> Response:
    found = await visit.operations.ask(queries.list_tokens)
    return show_list(visit, "api_tokens", found.content, TOKENS, live="token")


@router.get("/api-tokens/{token_id}/revoke")
async def confirm_revoke(token_id: str, visit: Admin) -> Response:
    known = ApiTokenId.parse(token_id)
    token = await visit.operations.with_dry_run(True).run(commands.revoke_token, known)
    sentences = [("api_tokens.revoke_what", {"name": token.name})]
    return ask_first(visit, "api_tokens.revoke", "api_tokens.revoke_button", sentences, "/api-tokens")


@router.post("/api-tokens/{token_id}/revoke")
async def revoke(token_id: str, visit: Admin) -> Response:
    await visit.operations.run(commands.revoke_token, ApiTokenId.parse(token_id))
    return go(visit, "/api-tokens", "api_tokens.revoked")


def _owner(visit: Visit) -> str | None:
    return "" if visit.caller is None else owner_of(visit.caller)
