"""What the service keeps about itself: permits, processes, leases, changed settings, activity, audit."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Index, text

from sellerwatch.adapters.sql.migrations.tables import create_table, drop_tables, unique
from sellerwatch.adapters.sql.migrations.types import (
    BIG,
    CODE,
    INT,
    LONG_TEXT,
    TEXT,
    TIME,
    UUID,
    WORD,
    may,
    need,
    row_id,
    varchar,
)

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    _permits_and_workers()
    _breaker_jobs_and_settings()
    _what_happened()


# Without the permits it is not known how many requests of the last window there were: each counts as full until a
# service starts, which sets the time by its own clock, and for one window after that.
FORGET_WINDOWS = "UPDATE rate_limit_bucket SET boot_id = NULL, full_until_us = 1000000000000000"


def downgrade() -> None:
    op.get_bind().execute(text(FORGET_WINDOWS))
    drop_tables("audit", "activity", "setting_overrides", "job_leases", "pool_breaker", "workers", "permits")


def _permits_and_workers() -> None:
    create_table(
        "permits",
        row_id(),
        need("agent_id", BIG),
        need("worker_id", UUID),
        may("task_id", UUID),
        need("reserved_at", TIME),
        may("answered_at", TIME),
        need("boot_id", WORD),
        need("boot_us", BIG),
        may("answered_boot_us", BIG),
        Index("permits__idx_answered_boot_us", "answered_boot_us", "agent_id"),
        never_reuse_ids=True,
    )
    create_table(
        "workers",
        row_id(),
        need("worker_id", UUID),
        need("role", WORD),
        need("host", varchar(255)),
        need("pid", INT),
        need("boot_id", WORD),
        need("started_at", TIME),
        need("heartbeat_at", TIME),
        may("stopped_at", TIME),
        unique("workers__uq_worker_id", "worker_id"),
        Index("workers__idx_heartbeat_at", "heartbeat_at"),
    )


def _breaker_jobs_and_settings() -> None:
    create_table(
        "pool_breaker",
        row_id(),
        need("marketplace", WORD),
        need("state", CODE),
        may("opened_at", TIME),
        may("closed_at", TIME),
        may("probe_worker_id", UUID),
        may("probe_until", TIME),
        may("keep_closed_until", TIME),
        need("updated_at", TIME),
        unique("pool_breaker__uq_marketplace", "marketplace"),
    )
    create_table(
        "job_leases",
        row_id(),
        need("job", WORD),
        may("owner", WORD),
        may("lease_until", TIME),
        may("last_started_at", TIME),
        may("last_finished_at", TIME),
        may("last_error", TEXT),
        unique("job_leases__uq_job", "job"),
    )
    create_table(
        "setting_overrides",
        row_id(),
        need("name", WORD),
        need("value", TEXT),
        need("changed_by", varchar(100)),
        need("changed_at", TIME),
        unique("setting_overrides__uq_name", "name"),
    )


def _what_happened() -> None:
    create_table(
        "activity",
        row_id(),
        need("at", TIME),
        need("kind", WORD),
        may("subject_type", WORD),
        may("subject_id", varchar(100)),
        may("data", LONG_TEXT),
        never_reuse_ids=True,
    )
    create_table(
        "audit",
        row_id(),
        need("at", TIME),
        need("actor", varchar(100)),
        need("action", WORD),
        need("subject_type", WORD),
        need("subject_id", varchar(100)),
        may("state_before", LONG_TEXT),
        may("state_after", LONG_TEXT),
        may("note", TEXT),
        Index("audit__idx_subject_type_subject_id_id", "subject_type", "subject_id", "id"),
        Index("audit__idx_actor_id", "actor", "id"),
        Index("audit__idx_action_id", "action", "id"),
        never_reuse_ids=True,
    )
