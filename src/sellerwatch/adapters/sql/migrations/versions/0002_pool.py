"""The seven tables of the agent pool; on MySQL the usage log is cut into months."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Index, text

from sellerwatch.adapters.sql.migrations.tables import create_table, drop_tables, now, unique
from sellerwatch.adapters.sql.migrations.types import (
    BIG,
    BOOL,
    CODE,
    INT,
    REAL,
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

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    _agents()
    _usage_log()
    _circuits()
    _limits_and_refreshes()


def downgrade() -> None:
    drop_tables("token_refresh_schedule", "rate_limit_bucket", "circuit_breaker_event", "circuit_breaker_state")
    drop_tables("token_usage_log", "user_agent_token", "user_agent_pool")


def _agents() -> None:
    create_table(
        "user_agent_pool",
        row_id("agent_id"),
        need("user_agent_id", UUID),
        need("user_agent", varchar(1000)),
        need("user_agent_hash", SHA256),
        need("status", CODE),
        need("health_score", INT, start=100),
        need("usage_count", INT, start=0),
        need("success_count", INT, start=0),
        need("failure_count", INT, start=0),
        need("requests_per_day", INT, start=0),
        need("issue_failures", INT, start=0),
        may("reason", varchar(200)),
        may("last_used_at", TIME),
        may("suspended_at", TIME),
        may("suspended_until", TIME),
        need("created_at", TIME),
        need("updated_at", TIME),
        unique("user_agent_pool__uq_user_agent_id", "user_agent_id"),
        unique("user_agent_pool__uq_user_agent_hash", "user_agent_hash"),
        Index("user_agent_pool__idx_active_unblocked", "status", "suspended_until"),
        Index("user_agent_pool__idx_last_used", "last_used_at"),
        Index("user_agent_pool__idx_usage_stats", "usage_count", "success_count", "failure_count"),
        never_reuse_ids=True,
    )
    create_table(
        "user_agent_token",
        row_id("token_id"),
        need("agent_id", BIG),
        need("token_value", TEXT),
        need("token_fingerprint", SHA256),
        need("key_id", WORD),
        may("nid", varchar(255)),
        may("mustit_uid", varchar(255)),
        need("issued_at", TIME),
        need("expires_at", TIME),
        need("refresh_count", INT, start=0),
        need("is_active", BOOL, start=1),
        unique("user_agent_token__uq_token_fingerprint", "token_fingerprint"),
        Index("user_agent_token__idx_user_agent_active", "agent_id", "is_active"),
        Index("user_agent_token__idx_expires", "expires_at", "is_active"),
    )


def _usage_log() -> None:
    create_table(
        "token_usage_log",
        row_id("log_id"),
        need("agent_id", BIG),
        may("token_id", BIG),
        may("http_status_code", INT),
        may("response_time_ms", INT),
        need("is_success", BOOL),
        need("is_rate_limited", BOOL),
        need("is_429_error", BOOL),
        need("request_timestamp", TIME),
        Index("token_usage_log__idx_user_agent_time", "agent_id", "request_timestamp"),
        Index("token_usage_log__idx_429_errors", "is_429_error", "agent_id", "request_timestamp"),
        Index("token_usage_log__idx_rate_limit", "is_rate_limited", "request_timestamp"),
        Index("token_usage_log__idx_success_time", "is_success", "request_timestamp"),
        Index("token_usage_log__idx_http_status", "http_status_code", "request_timestamp"),
    )
    if op.get_bind().dialect.name == "mysql":
        _cut_usage_log_into_months(now().year)


def _cut_usage_log_into_months(year: int) -> None:
    """Twelve months and what comes after; the primary key must hold the column the cut is made by.

    RANGE COLUMNS and not the paper's YEAR * 100 + MONTH: only the former is pruned for a range of times.
    """
    partitioned = text(
        "SELECT COUNT(*) FROM information_schema.partitions WHERE table_schema = DATABASE()"
        " AND table_name = 'token_usage_log' AND partition_name IS NOT NULL"
    )
    if op.get_bind().execute(partitioned).scalar_one():
        return
    ends = [f"{year}-{month:02d}-01" for month in range(2, 13)] + [f"{year + 1}-01-01"]
    months = [f"PARTITION p{year}{month:02d} VALUES LESS THAN ('{end}')" for month, end in enumerate(ends, start=1)]
    op.execute(
        "ALTER TABLE token_usage_log DROP PRIMARY KEY, ADD PRIMARY KEY (log_id, request_timestamp)"
        f" PARTITION BY RANGE COLUMNS (request_timestamp) ({', '.join(months)},"
        " PARTITION p_future VALUES LESS THAN (MAXVALUE))"
    )


def _circuits() -> None:
    create_table(
        "circuit_breaker_state",
        row_id("state_id"),
        need("agent_id", BIG),
        need("circuit_state", CODE),
        need("failure_count", INT, start=0),
        need("failure_threshold", INT, start=3),
        need("timeout_duration_seconds", INT, start=600),
        may("opened_at", TIME),
        may("closed_at", TIME),
        unique("circuit_breaker_state__uq_agent_id", "agent_id"),
        Index("circuit_breaker_state__idx_opened", "opened_at"),
        Index("circuit_breaker_state__idx_state_failure", "circuit_state", "failure_count"),
    )
    create_table(
        "circuit_breaker_event",
        row_id("event_id"),
        need("agent_id", BIG),
        need("event_type", CODE),
        may("from_state", CODE),
        may("to_state", CODE),
        need("event_timestamp", TIME),
        Index("circuit_breaker_event__idx_user_agent_time", "agent_id", "event_timestamp"),
        Index("circuit_breaker_event__idx_event_type", "event_type", "event_timestamp"),
        Index("circuit_breaker_event__idx_state_change", "from_state", "to_state", "event_timestamp"),
    )


def _limits_and_refreshes() -> None:
    create_table(
        "rate_limit_bucket",
        row_id("bucket_id"),
        need("agent_id", BIG),
        need("max_tokens", INT, start=80),
        need("current_tokens", REAL),
        need("refill_rate", REAL),
        need("last_refill_at", TIME),
        may("boot_id", WORD),
        need("last_departure_us", BIG, start=0),
        may("full_until_us", BIG),
        unique("rate_limit_bucket__uq_agent_id", "agent_id"),
        Index("rate_limit_bucket__idx_last_refill", "last_refill_at"),
        Index("rate_limit_bucket__idx_token_level", "current_tokens", "last_refill_at"),
    )
    create_table(
        "token_refresh_schedule",
        row_id("schedule_id"),
        need("agent_id", BIG),
        need("token_id", BIG),
        need("next_refresh_time", TIME),
        need("refresh_interval_seconds", INT, start=3600),
        need("consecutive_failures", INT, start=0),
        need("is_enabled", BOOL, start=1),
        unique("token_refresh_schedule__uq_agent_id_token_id", "agent_id", "token_id"),
        Index("token_refresh_schedule__idx_next_refresh", "is_enabled", "next_refresh_time"),
        Index("token_refresh_schedule__idx_agent_enabled", "agent_id", "is_enabled"),
        Index("token_refresh_schedule__idx_failure_count", "consecutive_failures", "next_refresh_time"),
    )
