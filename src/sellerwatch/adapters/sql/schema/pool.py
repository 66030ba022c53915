"""The tables of the agent pool; the first seven have the names of the specification.

They refer to an agent by the big integer `agent_id`; its UUID, `user_agent_id`, is for the outside. Its
is_active, is_blocked and blocked_until are one `status` with `suspended_until`.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Double, Index, Integer, String, Text, text

from sellerwatch.adapters.sql.schema.types import Code, PublicId, Sha256, Time, Word, count, row_id, table

user_agent_pool = table(
    "user_agent_pool",
    row_id("agent_id"),
    Column("user_agent_id", PublicId, nullable=False),
    Column("user_agent", String(1000), nullable=False),
    # Unique by the hash of the whole string: MySQL can index only the beginning of a long text.
    Column("user_agent_hash", Sha256, nullable=False),
    Column("status", Code, nullable=False),
    count("health_score", start=100),
    count("usage_count"),
    count("success_count"),
    count("failure_count"),
    count("requests_per_day"),
    count("issue_failures"),
    # Why it is not AVAILABLE, in a few words for the operator.
    Column("reason", String(200)),
    Column("last_used_at", Time),
    Column("suspended_at", Time),
    Column("suspended_until", Time),
    Column("created_at", Time, nullable=False),
    Column("updated_at", Time, nullable=False),
    Index("user_agent_pool__uq_user_agent_id", "user_agent_id", unique=True),
    Index("user_agent_pool__uq_user_agent_hash", "user_agent_hash", unique=True),
    # Health and last use change with every request; an index on them would cost more than sorting a hundred rows.
    Index("user_agent_pool__idx_active_unblocked", "status", "suspended_until"),
    Index("user_agent_pool__idx_last_used", "last_used_at"),
    Index("user_agent_pool__idx_usage_stats", "usage_count", "success_count", "failure_count"),
    # Permits and the log outlive a removed agent: its number is never another's.
    never_reuse_ids=True,
)

user_agent_token = table(
    "user_agent_token",
    row_id("token_id"),
    Column("agent_id", BigInteger, nullable=False),
    # Encrypted (AES-256-GCM, base64); compared by the keyed fingerprint, never by value.
    Column("token_value", Text, nullable=False),
    Column("token_fingerprint", Sha256, nullable=False),
    Column("key_id", Word, nullable=False),
    Column("nid", String(255)),
    Column("mustit_uid", String(255)),
    Column("issued_at", Time, nullable=False),
    Column("expires_at", Time, nullable=False),
    count("refresh_count"),
    Column("is_active", Boolean, nullable=False, server_default=text("1")),
    # Thrown away because the marketplace refused it; and issued to replace such a one and not yet accepted.
    Column("is_rejected", Boolean, nullable=False, server_default=text("0")),
    Column("is_replacement", Boolean, nullable=False, server_default=text("0")),
    Index("user_agent_token__uq_token_fingerprint", "token_fingerprint", unique=True),
    Index("user_agent_token__idx_user_agent_active", "agent_id", "is_active"),
    Index("user_agent_token__idx_expires", "expires_at", "is_active"),
)

# On MySQL the migration makes the primary key (log_id, request_timestamp) and cuts the table into months: there every
# unique key must hold the partition column. On SQLite log_id alone is the rowid.
token_usage_log = table(
    "token_usage_log",
    row_id("log_id"),
    Column("agent_id", BigInteger, nullable=False),
    Column("token_id", BigInteger),
    Column("http_status_code", Integer),
    Column("response_time_ms", Integer),
    Column("is_success", Boolean, nullable=False),
    Column("is_rate_limited", Boolean, nullable=False),
    Column("is_429_error", Boolean, nullable=False),
    Column("request_timestamp", Time, nullable=False),
    Index("token_usage_log__idx_user_agent_time", "agent_id", "request_timestamp"),
    # Covers "429s in the last hour per agent": the rows themselves are not read.
    Index("token_usage_log__idx_429_errors", "is_429_error", "agent_id", "request_timestamp"),
    Index("token_usage_log__idx_rate_limit", "is_rate_limited", "request_timestamp"),
    Index("token_usage_log__idx_success_time", "is_success", "request_timestamp"),
    Index("token_usage_log__idx_http_status", "http_status_code", "request_timestamp"),
)

circuit_breaker_state = table(
    "circuit_breaker_state",
    row_id("state_id"),
    Column("agent_id", BigInteger, nullable=False),
    Column("circuit_state", Code, nullable=False),
    count("failure_count"),
    count("failure_threshold", start=3),
    count("timeout_duration_seconds", start=600),
    Column("opened_at", Time),
    Column("closed_at", Time),
    Index("circuit_breaker_state__uq_agent_id", "agent_id", unique=True),
    Index("circuit_breaker_state__idx_opened", "opened_at"),
    Index("circuit_breaker_state__idx_state_failure", "circuit_state", "failure_count"),
)

circuit_breaker_event = table(
    "circuit_breaker_event",
    row_id("event_id"),
    Column("agent_id", BigInteger, nullable=False),
    Column("event_type", Code, nullable=False),
    Column("from_state", Code),
    Column("to_state", Code),
    Column("event_timestamp", Time, nullable=False),
    Index("circuit_breaker_event__idx_user_agent_time", "agent_id", "event_timestamp"),
    Index("circuit_breaker_event__idx_event_type", "event_type", "event_timestamp"),
    Index("circuit_breaker_event__idx_state_change", "from_state", "to_state", "event_timestamp"),
)

rate_limit_bucket = table(
    "rate_limit_bucket",
    row_id("bucket_id"),
    Column("agent_id", BigInteger, nullable=False),
    count("max_tokens", start=80),
    Column("current_tokens", Double, nullable=False),
    Column("refill_rate", Double, nullable=False),
    Column("last_refill_at", Time, nullable=False),
    # The last departure by the boot's clock, which cannot be set, and the boot it belongs to.
    Column("boot_id", Word),
    Column("last_departure_us", BigInteger, nullable=False, server_default=text("0")),
    # Until then the window counts as full: the database was restored from an older copy.
    Column("full_until_us", BigInteger),
    Index("rate_limit_bucket__uq_agent_id", "agent_id", unique=True),
    Index("rate_limit_bucket__idx_last_refill", "last_refill_at"),
    Index("rate_limit_bucket__idx_token_level", "current_tokens", "last_refill_at"),
)

token_refresh_schedule = table(
    "token_refresh_schedule",
    row_id("schedule_id"),
    Column("agent_id", BigInteger, nullable=False),
    Column("token_id", BigInteger, nullable=False),
    Column("next_refresh_time", Time, nullable=False),
    count("refresh_interval_seconds", start=3600),
    count("consecutive_failures"),
    Column("is_enabled", Boolean, nullable=False, server_default=text("1")),
    Index("token_refresh_schedule__uq_agent_id_token_id", "agent_id", "token_id", unique=True),
    Index("token_refresh_schedule__idx_next_refresh", "is_enabled", "next_refresh_time"),
    Index("token_refresh_schedule__idx_agent_enabled", "agent_id", "is_enabled"),
    Index("token_refresh_schedule__idx_failure_count", "consecutive_failures", "next_refresh_time"),
)

# Agents that were removed with requests in their window, which the marketplace still counts for their user agent.
removed_agents = table(
    "removed_agents",
    row_id(),
    Column("user_agent_hash", Sha256, nullable=False),
    Column("removed_at", Time, nullable=False),
    Index("removed_agents__uq_user_agent_hash", "user_agent_hash", unique=True),
)
