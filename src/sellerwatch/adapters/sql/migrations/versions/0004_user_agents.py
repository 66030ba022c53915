"""A hundred agents to begin with: AVAILABLE, healthy, without a token, each with its closed circuit and full bucket.

Number n of `user_agents.txt` always gets the same public id and, where it is free, the row id n. The downgrade takes
away only agents that were never used: the others keep tokens, suspensions, blocks and counts, because the marketplace
has not forgotten their requests either. Where the whole pool was lost from a database that has crawled, each window
counts as full until a service starts, and for one window after that.
"""

from __future__ import annotations

import uuid
from hashlib import sha256
from importlib.resources import files

from alembic import op
from sqlalchemy import Connection, and_, column, delete, select, table

from sellerwatch.adapters.sql.migrations.tables import now
from sellerwatch.adapters.sql.migrations.types import BIG, CODE, INT, REAL, SHA256, TIME, UUID, varchar

revision = "0004"
down_revision = "0003"

SEEDS = uuid.UUID("5e11e7a7-c4a0-5a3e-9b0d-0c4a71e55eed")
HEALTHIEST = 100
WINDOW = 80
WINDOW_SECONDS = 3600
#: Later than any time of a boot's clock: a service that starts sets the end by its own.
UNTIL_A_START = 1_000_000_000_000_000

agents = table(
    "user_agent_pool",
    column("agent_id", BIG),
    column("user_agent_id", UUID),
    column("user_agent", varchar(1000)),
    column("user_agent_hash", SHA256),
    column("status", CODE),
    column("health_score", INT),
    column("usage_count", INT),
    column("created_at", TIME),
    column("updated_at", TIME),
)
circuits = table("circuit_breaker_state", column("agent_id", BIG), column("circuit_state", CODE))
buckets = table(
    "rate_limit_bucket",
    column("agent_id", BIG),
    column("max_tokens", INT),
    column("current_tokens", REAL),
    column("refill_rate", REAL),
    column("last_refill_at", TIME),
    column("full_until_us", BIG),
)
tokens = table("user_agent_token", column("agent_id", BIG))
permits = table("permits", column("agent_id", BIG))
tasks = table("crawler_tasks", column("id", BIG), column("started_at", TIME))


def upgrade() -> None:
    database = op.get_bind()
    moment = now()
    chosen = _row_ids(database)
    if not chosen:
        return
    full_until_us = UNTIL_A_START if _has_lost_its_pool(database) else None
    database.execute(
        agents.insert(),
        [
            {
                "agent_id": agent_id,
                "user_agent_id": _public_id(number),
                "user_agent": user_agent,
                "user_agent_hash": _hash(user_agent),
                "status": "AVAILABLE",
                "health_score": HEALTHIEST,
                "created_at": moment,
                "updated_at": moment,
            }
            for agent_id, number, user_agent in chosen
        ],
    )
    database.execute(
        circuits.insert(), [{"agent_id": agent_id, "circuit_state": "CLOSED"} for agent_id, _, _ in chosen]
    )
    database.execute(
        buckets.insert(),
        [
            {
                "agent_id": agent_id,
                "max_tokens": WINDOW,
                "current_tokens": WINDOW,
                "refill_rate": WINDOW / WINDOW_SECONDS,
                "last_refill_at": moment,
                "full_until_us": full_until_us,
            }
            for agent_id, _, _ in chosen
        ],
    )


def downgrade() -> None:
    database = op.get_bind()
    seeded = [_public_id(number) for number, _ in _user_agents()]
    is_unused = and_(agents.c.usage_count == 0, agents.c.status == "AVAILABLE", agents.c.health_score == HEALTHIEST)
    has_left_no_trace = and_(*(agents.c.agent_id.not_in(select(each.c.agent_id)) for each in (tokens, permits)))
    unused = select(agents.c.agent_id).where(agents.c.user_agent_id.in_(seeded), is_unused, has_left_no_trace)
    gone = list(database.scalars(unused))
    for each in (buckets, circuits, agents):
        database.execute(delete(each).where(each.c.agent_id.in_(gone)))


def _has_lost_its_pool(database: Connection) -> bool:
    has_agents = database.scalar(select(agents.c.agent_id).limit(1)) is not None
    has_asked = select(tasks.c.id).where(tasks.c.started_at.is_not(None)).limit(1)
    return not has_agents and database.scalar(has_asked) is not None


def _row_ids(database: Connection) -> list[tuple[int, int, str]]:
    """(row id, number, user-agent) of those not there yet.

    An id that is taken, be it by what a removed agent left, is passed over for one behind them all.
    """
    taken = {agent_id for each in (agents, circuits, buckets) for agent_id in database.scalars(select(each.c.agent_id))}
    known = {bytes(each) for each in database.scalars(select(agents.c.user_agent_hash))}
    missing = [(number, user_agent) for number, user_agent in _user_agents() if _hash(user_agent) not in known]
    behind = max(taken | {number for number, _ in _user_agents()})
    chosen = []
    for number, user_agent in missing:
        if number in taken:
            behind += 1
            chosen.append((behind, number, user_agent))
        else:
            chosen.append((number, number, user_agent))
    return chosen


def _user_agents() -> list[tuple[int, str]]:
    """Numbered from 1; made by scripts/make_user_agents.py."""
    resource = files("sellerwatch.adapters.sql.migrations") / "user_agents.txt"
    return list(enumerate(resource.read_text(encoding="ascii").splitlines(), start=1))


def _public_id(number: int) -> str:
    return str(uuid.uuid5(SEEDS, str(number)))


def _hash(user_agent: str) -> bytes:
    return sha256(user_agent.encode()).digest()
