"""API tokens: credentials of programs, made by `auth token`. Only the facts about a token are stored, not the token."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime

from sellerwatch.access.ports import UsersTx
from sellerwatch.access.users import Role
from sellerwatch.kernel.errors import Conflict, Invalid, NotFound
from sellerwatch.kernel.ids import ApiTokenId
from sellerwatch.kernel.operations import OperationContext

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


@dataclass(eq=False)
class InvalidTokenName(Invalid):
    given: str


@dataclass(eq=False)
class ApiTokenNotFound(NotFound):
    token_id: str


@dataclass(eq=False)
class ApiTokenRevoked(Conflict):
    """It is revoked already."""

    token_id: str


@dataclass(frozen=True)
class ApiToken:
    """A token of a program. In the audit trail its actor is `token:NAME`, which no user can have."""

    token_id: ApiTokenId
    name: str
    role: Role
    created_at: datetime
    created_by: str
    expires_at: datetime
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None
    revoked_by: str | None = None

    def revoke(self, actor: str, now: datetime) -> ApiToken:
        if self.revoked_at is not None:
            raise ApiTokenRevoked(token_id=self.token_id)
        return replace(self, revoked_at=now, revoked_by=actor)


def token_name(given: str) -> str:
    """Return the name for a token; refuse what is none."""
    name = given.strip()
    if not _NAME.fullmatch(name):
        raise InvalidTokenName(given=given[:100])
    return name


def find_valid_token(tx: UsersTx, context: OperationContext, token_id: ApiTokenId) -> ApiToken | None:
    """Return a token; None where it is unknown, revoked or expired."""
    token = tx.api_tokens.get(token_id)
    is_valid = token is not None and token.revoked_at is None and context.now < token.expires_at
    return token if is_valid else None


def note_token_use(tx: UsersTx, context: OperationContext, token_id: ApiTokenId) -> None:
    """Write that a token was used."""
    token = tx.api_tokens.get(token_id)
    if token is not None:
        tx.api_tokens.save(replace(token, last_used_at=context.now))
