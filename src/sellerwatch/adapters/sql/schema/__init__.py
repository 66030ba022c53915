"""The whole schema as SQLAlchemy Core tables: the one source for queries, tests and docs.

Databases are made by the migrations, never from here; a test holds the two equal. Times have no default in the
database: time is an argument.
"""

from __future__ import annotations

from sellerwatch.adapters.sql.schema.catalog import (
    body_hashes,
    drift,
    held_parts,
    product_changes,
    quarantine,
    removals,
    run_notes,
)
from sellerwatch.adapters.sql.schema.crawl import (
    crawler_tasks,
    crawling_schedule_executions,
    crawling_schedules,
    product_outbox,
    product_raw_data,
    products,
    scheduler_outbox,
    sellers,
)
from sellerwatch.adapters.sql.schema.people import idempotency_keys, login_attempts, users
from sellerwatch.adapters.sql.schema.pool import (
    circuit_breaker_event,
    circuit_breaker_state,
    rate_limit_bucket,
    token_refresh_schedule,
    token_usage_log,
    user_agent_pool,
    user_agent_token,
)
from sellerwatch.adapters.sql.schema.service import (
    activity,
    audit,
    job_leases,
    outbox_attempts,
    outbox_channels,
    permits,
    pool_breaker,
    setting_overrides,
    workers,
)
from sellerwatch.adapters.sql.schema.types import PublicId, SellerKey, Time, metadata

__all__ = [
    "PublicId",
    "SellerKey",
    "Time",
    "activity",
    "audit",
    "body_hashes",
    "circuit_breaker_event",
    "circuit_breaker_state",
    "crawler_tasks",
    "crawling_schedule_executions",
    "crawling_schedules",
    "drift",
    "held_parts",
    "idempotency_keys",
    "job_leases",
    "login_attempts",
    "metadata",
    "outbox_attempts",
    "outbox_channels",
    "permits",
    "pool_breaker",
    "product_changes",
    "product_outbox",
    "product_raw_data",
    "products",
    "quarantine",
    "rate_limit_bucket",
    "removals",
    "run_notes",
    "scheduler_outbox",
    "sellers",
    "setting_overrides",
    "token_refresh_schedule",
    "token_usage_log",
    "user_agent_pool",
    "user_agent_token",
    "users",
    "workers",
]
