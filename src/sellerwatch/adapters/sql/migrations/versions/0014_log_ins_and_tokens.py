"""Log-ins, each with a row, and the tokens of programs."""

from __future__ import annotations

from sqlalchemy import Index

from sellerwatch.adapters.sql.migrations.tables import create_table, drop_tables, unique
from sellerwatch.adapters.sql.migrations.types import CODE, TIME, UUID, WORD, may, need, row_id, varchar

revision = "0014"
down_revision = "0015"


def upgrade() -> None:
    create_table(
        "login_sessions",
        row_id(),
        need("session_id", UUID),
        need("user_name", WORD),
        need("kind", CODE),
        need("address", varchar(100)),
        need("client", varchar(200)),
        need("created_at", TIME),
        need("last_used_at", TIME),
        need("expires_at", TIME),
        unique("login_sessions__uq_session_id", "session_id"),
        Index("login_sessions__idx_user_name", "user_name"),
        Index("login_sessions__idx_expires_at", "expires_at"),
    )
    create_table(
        "api_tokens",
        row_id(),
        need("token_id", UUID),
        need("name", WORD),
        need("role", CODE),
        need("created_at", TIME),
        need("created_by", varchar(255)),
        need("expires_at", TIME),
        may("last_used_at", TIME),
        may("revoked_at", TIME),
        may("revoked_by", varchar(255)),
        unique("api_tokens__uq_token_id", "token_id"),
        Index("api_tokens__idx_expires_at", "expires_at"),
    )


def downgrade() -> None:
    drop_tables("api_tokens", "login_sessions")
