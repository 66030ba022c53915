"""What the service keeps about itself: permits, processes, leases of jobs, changed settings, the ways out,
and what happened."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, String, Text

from sellerwatch.adapters.sql.schema.types import (
    Code,
    LongText,
    PublicId,
    SellerKey,
    Time,
    Word,
    count,
    failure,
    row_id,
    table,
)

# One row for each request that may leave, written before it does. Wall time can be set, so each stamp has the boot it
# belongs to and that boot's monotonic clock beside it. The highest id is remembered in a file beside the database, to
# notice a database restored from an older copy: hence ids that never come again.
permits = table(
    "permits",
    row_id(),
    Column("agent_id", BigInteger, nullable=False),
    Column("worker_id", PublicId, nullable=False),
    Column("task_id", PublicId),
    Column("reserved_at", Time, nullable=False),
    Column("answered_at", Time),
    Column("boot_id", Word, nullable=False),
    Column("boot_us", BigInteger, nullable=False),
    Column("answered_boot_us", BigInteger),
    # Finds what has left the window, and what is still unanswered; how many an agent has is kept in its bucket.
    Index("permits__idx_answered_boot_us", "answered_boot_us", "agent_id"),
    never_reuse_ids=True,
)

workers = table(
    "workers",
    row_id(),
    Column("worker_id", PublicId, nullable=False),
    Column("role", Word, nullable=False),
    Column("host", String(255), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("boot_id", Word, nullable=False),
    Column("started_at", Time, nullable=False),
    Column("heartbeat_at", Time, nullable=False),
    Column("stopped_at", Time),
    Index("workers__uq_worker_id", "worker_id", unique=True),
    Index("workers__idx_heartbeat_at", "heartbeat_at"),
)

pool_breaker = table(
    "pool_breaker",
    row_id(),
    Column("marketplace", Word, nullable=False),
    Column("state", Code, nullable=False),
    Column("opened_at", Time),
    Column("closed_at", Time),
    Column("probe_worker_id", PublicId),
    Column("probe_until", Time),
    Column("keep_closed_until", Time),
    Column("updated_at", Time, nullable=False),
    Index("pool_breaker__uq_marketplace", "marketplace", unique=True),
)

# One row for each endpoint of the marketplace: whether it is asked, and the failures in a row since it last answered.
marketplace_circuits = table(
    "marketplace_circuits",
    row_id(),
    Column("endpoint", Code, nullable=False),
    Column("state", Code, nullable=False),
    count("opening_count"),
    Column("since", Time),
    Column("not_before", Time),
    Column("probe_worker_id", PublicId),
    Column("closed_at", Time),
    Column("most_at_once", Integer),
    *failure(),
    Column("recent_failures", LongText, nullable=False),
    Column("updated_at", Time, nullable=False),
    Index("marketplace_circuits__uq_endpoint", "endpoint", unique=True),
)

# Requests to the marketplace that a person has stopped: all of them (scope ''), or those for one seller.
marketplace_pauses = table(
    "marketplace_pauses",
    row_id(),
    Column("scope", SellerKey, nullable=False),
    Column("paused_at", Time, nullable=False),
    Column("paused_by", String(100), nullable=False),
    Index("marketplace_pauses__uq_scope", "scope", unique=True),
)

job_leases = table(
    "job_leases",
    row_id(),
    Column("job", Word, nullable=False),
    Column("owner", Word),
    Column("lease_until", Time),
    Column("last_started_at", Time),
    Column("last_finished_at", Time),
    Column("last_error", Text),
    Index("job_leases__uq_job", "job", unique=True),
)

setting_overrides = table(
    "setting_overrides",
    row_id(),
    Column("name", Word, nullable=False),
    Column("value", Text, nullable=False),
    Column("changed_by", String(100), nullable=False),
    Column("changed_at", Time, nullable=False),
    Index("setting_overrides__uq_name", "name", unique=True),
)

# The way from an outbox to its receiver, one row each; all processes go by it.
outbox_channels = table(
    "outbox_channels",
    row_id(),
    Column("outbox", Code, nullable=False),
    Column("state", Code, nullable=False),
    count("failure_count"),
    count("opening_count"),
    # Null: as many as the settings allow.
    Column("most_in_flight", Integer),
    Column("opened_at", Time),
    Column("closed_at", Time),
    Column("not_before", Time),
    Column("probe_outbox_id", PublicId),
    Column("reason", Text),
    Column("next_send_at", Time),
    Column("paused_at", Time),
    Column("paused_by", String(100)),
    Column("updated_at", Time, nullable=False),
    Index("outbox_channels__uq_outbox", "outbox", unique=True),
)

# Every try of every message. Written in the order of time, so retention needs no index beside the id.
outbox_attempts = table(
    "outbox_attempts",
    row_id(),
    Column("outbox", Code, nullable=False),
    Column("outbox_id", PublicId, nullable=False),
    Column("try_number", Integer, nullable=False),
    Column("attempted_at", Time, nullable=False),
    Column("duration_ms", Integer),
    Column("http_status_code", Integer),
    Column("verdict", Code, nullable=False),
    Column("is_counted", Boolean, nullable=False),
    Column("answer", Text),
    Index("outbox_attempts__idx_outbox_id", "outbox_id"),
)

# Read by id from where the reader left off, which must stay true when old rows are deleted.
activity = table(
    "activity",
    row_id(),
    Column("at", Time, nullable=False),
    Column("kind", Word, nullable=False),
    Column("subject_type", Word),
    Column("subject_id", String(100)),
    Column("data", LongText),
    # Finds what was told of a subject lately.
    Index("activity__idx_subject_id_at", "subject_id", "at"),
    never_reuse_ids=True,
)

# Not `before` and `after`: the first is a reserved word in MySQL.
audit = table(
    "audit",
    row_id(),
    Column("at", Time, nullable=False),
    Column("actor", String(100), nullable=False),
    Column("action", Word, nullable=False),
    Column("subject_type", Word, nullable=False),
    Column("subject_id", String(100), nullable=False),
    Column("state_before", LongText),
    Column("state_after", LongText),
    Column("note", Text),
    Index("audit__idx_subject_type_subject_id_id", "subject_type", "subject_id", "id"),
    Index("audit__idx_actor_id", "actor", "id"),
    Index("audit__idx_action_id", "action", "id"),
    never_reuse_ids=True,
)
