"""What the pool did not know: since when a circuit is open, after which answers, why a window counts as full.

The index of `token_refresh_schedule.is_enabled` goes: a token that is not renewed has no row there.
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, inspect, text

from sellerwatch.adapters.sql.migrations.tables import create_index, drop_index
from sellerwatch.adapters.sql.migrations.types import CODE, INT, TIME, WORD, may

revision = "0013"
down_revision = "0010"

CIRCUITS, EVENTS, BUCKETS, RENEWALS = (
    "circuit_breaker_state",
    "circuit_breaker_event",
    "rate_limit_bucket",
    "token_refresh_schedule",
)
ENABLED_INDEX = f"{RENEWALS}__idx_agent_enabled"

# Until now the time of the probe was kept as the time of opening. When it opened is in the history.
PROBES = """
UPDATE circuit_breaker_state SET probe_sent_at = opened_at, opened_at = COALESCE((
    SELECT MAX(e.event_timestamp) FROM circuit_breaker_event e
    WHERE e.agent_id = circuit_breaker_state.agent_id AND e.to_state = 'OPEN'), opened_at)
WHERE circuit_state = 'HALF_OPEN' AND probe_sent_at IS NULL
"""
PROBES_BACK = """
UPDATE circuit_breaker_state SET opened_at = probe_sent_at
WHERE circuit_state = 'HALF_OPEN' AND probe_sent_at IS NOT NULL
"""


def upgrade() -> None:
    _add(CIRCUITS, may("probe_sent_at", TIME))
    op.get_bind().execute(text(PROBES))
    _add(EVENTS, may("outcome", CODE), may("http_status_code", INT))
    _add(BUCKETS, may("full_reason", WORD))
    drop_index(RENEWALS, ENABLED_INDEX)


def downgrade() -> None:
    create_index(RENEWALS, ENABLED_INDEX, "agent_id", "is_enabled")
    _drop(BUCKETS, "full_reason")
    _drop(EVENTS, "outcome", "http_status_code")
    if "probe_sent_at" in _columns(CIRCUITS):
        op.get_bind().execute(text(PROBES_BACK))
    _drop(CIRCUITS, "probe_sent_at")


def _columns(table: str) -> set[str]:
    return {column["name"] for column in inspect(op.get_bind()).get_columns(table)}


def _add(table: str, *columns: Column[object]) -> None:
    present = _columns(table)
    for column in columns:
        if column.name not in present:
            op.add_column(table, column)


def _drop(table: str, *names: str) -> None:
    present = _columns(table)
    for name in names:
        if name in present:
            op.drop_column(table, name)
