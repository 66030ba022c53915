"""Runs that read single products again, because an operator asked for it."""

from __future__ import annotations

from alembic import op
from sqlalchemy import inspect

from sellerwatch.adapters.sql.migrations.types import INT, may

revision = "0016"
down_revision = "0014"

EXECUTIONS, REFRESHED = "crawling_schedule_executions", "refreshed_products"


def upgrade() -> None:
    if not _is_there():
        op.add_column(EXECUTIONS, may(REFRESHED, INT))


def downgrade() -> None:
    if _is_there():
        op.drop_column(EXECUTIONS, REFRESHED)


def _is_there() -> bool:
    return any(column["name"] == REFRESHED for column in inspect(op.get_bind()).get_columns(EXECUTIONS))
