"""The cookies beside a token, which were in the clear, are sealed like the token.

No key is at hand here. So tokens are forgotten together with their cookies, and each agent gets a new one before its
next request, as it does every hour. Going back, too: the earlier program would send sealed cookies as they are.
"""

from __future__ import annotations

from alembic import op

revision = "0018"
down_revision = "0017"

_WITH_COOKIES = "nid IS NOT NULL OR mustit_uid IS NOT NULL"


def upgrade() -> None:
    _forget()


def downgrade() -> None:
    _forget()


def _forget() -> None:
    op.execute(
        "DELETE FROM token_refresh_schedule WHERE token_id IN"
        f" (SELECT token_id FROM user_agent_token WHERE {_WITH_COOKIES})"
    )
    op.execute(f"UPDATE user_agent_token SET is_active = 0, nid = NULL, mustit_uid = NULL WHERE {_WITH_COOKIES}")
