"""What administrators do with users. Passwords arrive here as hashes (`operations/users.py` makes them)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from sellerwatch.access.api_tokens import ApiToken, ApiTokenNotFound, token_name
from sellerwatch.access.login_sessions import LoginSessionNotFound
from sellerwatch.access.ports import UsersTx
from sellerwatch.access.queries import ApiTokenView, LoginSessionView, UserView, find_user
from sellerwatch.access.users import VERSIONS_BEGIN, Role, User, UserExists
from sellerwatch.kernel.ids import ApiTokenId, LoginSessionId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.oversight.audit import AuditEntry, record_audit


def add_user(
    tx: UsersTx, context: OperationContext, name: str, role: Role, password_hash: str, must_change: bool = False
) -> UserView:
    """Add a user."""
    if tx.users.get(name) is not None:
        raise UserExists(name=name)
    now = context.now
    version = int((now - VERSIONS_BEGIN).total_seconds())
    user = User(name, role, password_hash, now, now, must_change, version)
    tx.users.add(user)
    _record(tx, context, "user.add", name, None, user)
    return UserView.of(user)


def remove_user(tx: UsersTx, context: OperationContext, name: str) -> UserView:
    """Remove a user; tokens and log-ins of that user are invalid at once."""
    user = find_user(tx, name)
    tx.users.remove(name)
    tx.login_sessions.end_all(name)
    _record(tx, context, "user.remove", name, user, None)
    return UserView.of(user)


def set_password(
    tx: UsersTx, context: OperationContext, name: str, password_hash: str, must_change: bool = False
) -> UserView:
    """Set the password of a user; tokens and log-ins from before are invalid at once."""
    return _change(tx, context, "user.password", name, {"password_hash": password_hash, "must_change": must_change})


def set_role(tx: UsersTx, context: OperationContext, name: str, role: Role) -> UserView:
    """Set the role of a user; tokens and log-ins from before are invalid at once."""
    return _change(tx, context, "user.role", name, {"role": role})


def end_session(
    tx: UsersTx, context: OperationContext, session_id: LoginSessionId, owner: str | None = None
) -> LoginSessionView:
    """End a log-in. With an `owner`, only one of that user's own."""
    session = tx.login_sessions.get(session_id)
    if session is None or owner not in (None, session.user_name):
        raise LoginSessionNotFound(session_id=session_id)
    tx.login_sessions.end(session_id)
    note = f"from {session.address}, {session.kind}"
    record_audit(tx, AuditEntry(context.now, context.actor, "user.log_out", "user", session.user_name, note=note[:200]))
    return LoginSessionView.of(session)


def create_token(tx: UsersTx, context: OperationContext, name: str, role: Role, lifetime: timedelta) -> ApiTokenView:
    """Create a token for a program. The token itself is signed by the caller and never stored."""
    now, known = context.now, token_name(name)
    token = ApiToken(ApiTokenId(next(context.ids)), known, role, now, context.actor, now + lifetime)
    tx.api_tokens.add(token)
    after = {"name": known, "role": role, "expiresAt": token.expires_at.isoformat()}
    record_audit(tx, AuditEntry(now, context.actor, "token.create", "token", token.token_id, after=after))
    return ApiTokenView.of(token)


def revoke_token(tx: UsersTx, context: OperationContext, token_id: ApiTokenId) -> ApiTokenView:
    """Revoke a token: the next request with it is refused."""
    token = tx.api_tokens.get(token_id)
    if token is None:
        raise ApiTokenNotFound(token_id=token_id)
    revoked = token.revoke(context.actor, context.now)
    tx.api_tokens.save(revoked)
    record_audit(tx, AuditEntry(context.now, context.actor, "token.revoke", "token", token_id, note=token.name))
    return ApiTokenView.of(revoked)


def _change(tx: UsersTx, context: OperationContext, action: str, name: str, changed: dict[str, Any]) -> UserView:
    before = find_user(tx, name)
    after = replace(before, version=before.version + 1, updated_at=context.now, **changed)
    tx.users.save(after)
    tx.login_sessions.end_all(name)
    _record(tx, context, action, name, before, after)
    return UserView.of(after)


def _record(
    tx: UsersTx, context: OperationContext, action: str, name: str, before: User | None, after: User | None
) -> None:
    record_audit(tx, AuditEntry(context.now, context.actor, action, "user", name, _state(before), _state(after)))


def _state(user: User | None) -> dict[str, Any] | None:
    if user is None:
        return None
    return {"role": user.role, "mustChange": user.must_change, "version": user.version}
