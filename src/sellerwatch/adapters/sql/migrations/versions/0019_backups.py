"""The last backup of the database, and the restores that versions of events go on above."""

from __future__ import annotations

from sellerwatch.adapters.sql.migrations.tables import create_table, drop_tables, unique
from sellerwatch.adapters.sql.migrations.types import BIG, INT, REAL, TEXT, TIME, WORD, may, need, row_id

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    create_table(
        "last_backup",
        row_id(),
        need("name", WORD),
        may("made_at", TIME),
        may("file", TEXT),
        may("bytes", BIG),
        may("seconds", REAL),
        may("revision", WORD),
        may("failed_at", TIME),
        may("error_code", WORD),
        may("error_facts", TEXT),
        unique("last_backup__uq_name", "name"),
    )
    create_table("restores", row_id(), need("restored_at", TIME), need("file", TEXT), need("version_floor", INT))


def downgrade() -> None:
    drop_tables("restores", "last_backup")
