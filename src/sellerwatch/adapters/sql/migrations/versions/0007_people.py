"""People who log in, answers kept for an Idempotency-Key, and the index by which a subject's activity is found."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Index, inspect

from sellerwatch.adapters.sql.migrations.tables import create_table, drop_tables, unique
from sellerwatch.adapters.sql.migrations.types import (
    BOOL,
    CODE,
    INT,
    LONG_BYTES,
    SHA256,
    TEXT,
    TIME,
    UUID,
    WORD,
    may,
    need,
    row_id,
    varchar,
)

revision = "0007"
down_revision = "0006"

BY_SUBJECT = "activity__idx_subject_id_at"


def upgrade() -> None:
    create_table(
        "users",
        row_id(),
        need("name", WORD),
        need("role", CODE),
        need("password_hash", varchar(255)),
        need("must_change", BOOL, 0),
        need("version", INT, 1),
        need("created_at", TIME),
        need("updated_at", TIME),
        may("last_login_at", TIME),
        unique("users__uq_name", "name"),
    )
    create_table(
        "login_attempts",
        row_id(),
        need("who_hash", SHA256),
        need("failures", INT, 0),
        need("last_at", TIME),
        unique("login_attempts__uq_who_hash", "who_hash"),
        Index("login_attempts__idx_last_at", "last_at"),
    )
    create_table(
        "idempotency_keys",
        row_id(),
        need("key_hash", SHA256),
        need("fingerprint", SHA256),
        need("claim_id", UUID),
        need("worker_id", UUID),
        need("created_at", TIME),
        may("answered_at", TIME),
        may("status", INT),
        may("headers", TEXT),
        may("body", LONG_BYTES),
        unique("idempotency_keys__uq_key_hash", "key_hash"),
        Index("idempotency_keys__idx_created_at", "created_at"),
    )
    if BY_SUBJECT not in _indexes():
        op.create_index(BY_SUBJECT, "activity", ["subject_id", "at"])


def downgrade() -> None:
    if BY_SUBJECT in _indexes():
        op.drop_index(BY_SUBJECT, "activity")
    drop_tables("idempotency_keys", "login_attempts", "users")


def _indexes() -> set[str | None]:
    return {index["name"] for index in inspect(op.get_bind()).get_indexes("activity")}
