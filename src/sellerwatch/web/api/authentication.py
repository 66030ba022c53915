"""Authentication: the caller of a token, as the database knows it now."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from sellerwatch.access.api_tokens import find_valid_token, note_token_use
from sellerwatch.access.login_sessions import USE_NOTED
from sellerwatch.kernel.errors import Unavailable
from sellerwatch.kernel.ids import ApiTokenId
from sellerwatch.kernel.store import StoreFailed
from sellerwatch.web.api.context import Parts
from sellerwatch.web.api.credentials import Caller, NotLoggedIn
from sellerwatch.web.sessions import caller_of, login_of


async def caller_of_token(parts: Parts, token: str) -> Caller:
    """Return whose token this is, or refuse it: a log-in that ended and a token that was revoked are refused at once.

    A token that another program signed with JWT_SECRET has no id: it is valid until its time is over.
    """
    caller = parts.credentials.read(token, parts.clock.now())
    if caller.session_id is not None:
        login = await login_of(parts, caller.session_id)
        if login.user.name != caller.name:
            raise NotLoggedIn
        return caller_of(login)
    return caller if caller.token_id is None else await _known(parts, caller, caller.token_id)


async def _known(parts: Parts, caller: Caller, token_id: ApiTokenId) -> Caller:
    quiet, now = parts.quiet_session(), parts.clock.now()
    token = await quiet.ask(find_valid_token, token_id)
    if token is None:
        raise NotLoggedIn
    if token.last_used_at is None or now - token.last_used_at >= USE_NOTED:
        # A request that only reads succeeds while nothing can be written.
        with suppress(StoreFailed, Unavailable):
            await quiet.run(note_token_use, token_id)
    return replace(caller, name=token.name, role=token.role)
