"""People who log in, and what is kept of requests that were sent with a key."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Index, Integer, String, Text, text

from sellerwatch.adapters.sql.schema.types import Code, LongBytes, PublicId, Sha256, Time, Word, count, row_id, table

users = table(
    "users",
    row_id(),
    Column("name", Word, nullable=False),
    Column("role", Code, nullable=False),
    Column("password_hash", String(255), nullable=False),
    Column("must_change", Boolean, nullable=False, server_default=text("0")),
    count("version", start=1),
    Column("created_at", Time, nullable=False),
    Column("updated_at", Time, nullable=False),
    Column("last_login_at", Time),
    Index("users__uq_name", "name", unique=True),
)

# Whose log-in failed, or where from: only the hash of it.
login_attempts = table(
    "login_attempts",
    row_id(),
    Column("who_hash", Sha256, nullable=False),
    count("failures"),
    Column("last_at", Time, nullable=False),
    Index("login_attempts__uq_who_hash", "who_hash", unique=True),
    Index("login_attempts__idx_last_at", "last_at"),
)

# `status` is null while the request is being worked on by `worker_id`.
idempotency_keys = table(
    "idempotency_keys",
    row_id(),
    Column("key_hash", Sha256, nullable=False),
    Column("fingerprint", Sha256, nullable=False),
    Column("claim_id", PublicId, nullable=False),
    Column("worker_id", PublicId, nullable=False),
    Column("created_at", Time, nullable=False),
    Column("answered_at", Time),
    Column("status", Integer),
    Column("headers", Text),
    Column("body", LongBytes),
    Index("idempotency_keys__uq_key_hash", "key_hash", unique=True),
    Index("idempotency_keys__idx_created_at", "created_at"),
)
