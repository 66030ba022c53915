"""The hundred agents a new database begins with, and the script that makes their strings."""

from __future__ import annotations

import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from uuid import UUID

from sqlalchemy import Engine, TableClause, column, func, insert, select, table
from tests.adapters.sql.conftest import NewDatabase
from tests.builders import NOW

from sellerwatch.adapters.sql.migrate import MIGRATIONS, downgrade, upgrade


def plain_table(name: str, columns: str) -> TableClause:
    return table(name, *map(column, columns.split()))


user_agent_pool = plain_table(
    "user_agent_pool",
    "agent_id user_agent_id user_agent user_agent_hash status health_score usage_count last_used_at"
    " created_at updated_at",
)
user_agent_token = plain_table("user_agent_token", "agent_id")
circuit_breaker_state = plain_table(
    "circuit_breaker_state", "agent_id circuit_state failure_count failure_threshold timeout_duration_seconds"
)
rate_limit_bucket = plain_table("rate_limit_bucket", "agent_id max_tokens current_tokens refill_rate last_refill_at")
permits = plain_table("permits", "agent_id worker_id reserved_at boot_id boot_us")

SCRIPT = Path(__file__).parents[3] / "scripts" / "make_user_agents.py"
SHAPES = {
    "Chrome on a desktop": r"Mozilla/5\.0 \((Windows|Macintosh).* Chrome/\d+\.0\.0\.0 Safari/537\.36",
    "Edge": r"Mozilla/5\.0 \((Windows|Macintosh).* Chrome/(\d+)\.0\.0\.0 Safari/537\.36 Edg/\2\.0\.0\.0",
    "Safari on a Mac": r"Mozilla/5\.0 \(Macintosh.* Version/[\d.]+ Safari/605\.1\.15",
    "Firefox": r"Mozilla/5\.0 \(.*; rv:(\d+\.0)\) Gecko/20100101 Firefox/\1",
    "Safari on an iPhone": r"Mozilla/5\.0 \(iPhone; .* Version/[\d.]+ Mobile/15E148 Safari/604\.1",
    "Chrome on an iPhone": r"Mozilla/5\.0 \(iPhone; .* CriOS/[\d.]+ Mobile/15E148 Safari/604\.1",
    "Chrome on an Android": r"Mozilla/5\.0 \(Linux; Android \d+; SM-\w+[NS]\).*like Gecko\) Chrome/.* Mobile .*",
    "Samsung Internet": r"Mozilla/5\.0 \(Linux; Android \d+; SM-\w+[NS]\).* SamsungBrowser/\d+\.0 Chrome/.* Mobile .*",
}


def script(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False)


def listed() -> list[str]:
    return (MIGRATIONS / "user_agents.txt").read_text(encoding="ascii").splitlines()


def test_the_list_is_what_the_script_makes() -> None:
    assert script("--check").returncode == 0


def test_a_changed_list_is_noticed_and_the_script_mends_it(tmp_path: Path) -> None:
    target = tmp_path / "list.txt"
    target.write_text("Mozilla/5.0 (made by hand)\n")
    refused = script("--check", "--target", str(target))
    assert refused.returncode == 1
    assert "run: python scripts/make_user_agents.py" in refused.stderr
    assert script("--target", str(target)).returncode == 0
    assert target.read_text().splitlines() == listed()


def test_a_missing_list_is_noticed(tmp_path: Path) -> None:
    assert script("--check", "--target", str(tmp_path / "none.txt")).returncode == 1


def test_there_are_100_distinct_strings() -> None:
    assert len(listed()) == 100
    assert len(set(listed())) == 100


def test_every_string_has_the_shape_of_a_real_browser_and_every_browser_is_there() -> None:
    kinds = [{name for name, shape in SHAPES.items() if re.fullmatch(shape, each)} for each in listed()]
    assert all(len(kind) == 1 for kind in kinds)
    assert set.union(*kinds) == set(SHAPES)


def test_100_agents_are_seeded_available_healthy_and_without_a_token(migrated: Engine) -> None:
    with migrated.connect() as database:
        agents = database.execute(select(user_agent_pool).order_by(user_agent_pool.c.agent_id)).all()
        assert database.execute(select(func.count()).select_from(user_agent_token)).scalar_one() == 0
    assert [agent.user_agent for agent in agents] == listed()
    assert [agent.agent_id for agent in agents] == list(range(1, 101))
    assert {(agent.status, agent.health_score, agent.usage_count, agent.last_used_at) for agent in agents} == {
        ("AVAILABLE", 100, 0, None)
    }
    assert {agent.created_at for agent in agents} == {NOW}
    assert [agent.user_agent_hash for agent in agents] == [sha256(each.encode()).digest() for each in listed()]


def test_the_public_ids_are_uuids_and_the_same_in_every_database(migrated: Engine, new_database: NewDatabase) -> None:
    other = new_database()
    upgrade(other, NOW)
    ids = select(user_agent_pool.c.user_agent_id).order_by(user_agent_pool.c.agent_id)
    with migrated.connect() as first, other.connect() as second:
        found = list(first.scalars(ids))
        assert found == list(second.scalars(ids))
    assert [str(UUID(each)) for each in found] == found
    assert len(set(found)) == 100


def test_every_seeded_agent_has_a_closed_circuit_and_a_full_bucket(migrated: Engine) -> None:
    with migrated.connect() as database:
        circuits = database.execute(select(circuit_breaker_state)).all()
        buckets = database.execute(select(rate_limit_bucket)).all()
    assert (
        sorted(each.agent_id for each in circuits) == sorted(each.agent_id for each in buckets) == list(range(1, 101))
    )
    assert {
        (each.circuit_state, each.failure_count, each.failure_threshold, each.timeout_duration_seconds)
        for each in circuits
    } == {("CLOSED", 0, 3, 600)}
    assert {(each.max_tokens, each.current_tokens, each.refill_rate, each.last_refill_at) for each in buckets} == {
        (80, 80.0, 80 / 3600, NOW)
    }


def test_taking_the_seeds_back_leaves_the_agents_people_added(migrated: Engine) -> None:
    with migrated.begin() as database:
        database.execute(insert(user_agent_pool), added("Mozilla/5.0 (added by hand)", 101))
    downgrade(migrated, "0003")
    with migrated.connect() as database:
        assert list(database.scalars(select(user_agent_pool.c.user_agent))) == ["Mozilla/5.0 (added by hand)"]
        assert database.execute(select(func.count()).select_from(circuit_breaker_state)).scalar_one() == 0
        assert database.execute(select(func.count()).select_from(rate_limit_bucket)).scalar_one() == 0


def test_seeds_taken_back_and_planted_again_still_own_their_permits(migrated: Engine) -> None:
    """The marketplace has not forgotten those requests, so the budget must not be fresh."""
    mine = select(user_agent_pool.c.agent_id).where(user_agent_pool.c.user_agent == listed()[41])
    with migrated.begin() as database:
        before = database.scalars(mine).one()
        permit = {"agent_id": before, "worker_id": "w", "reserved_at": NOW, "boot_id": "b", "boot_us": 1}
        database.execute(insert(permits), permit)
    downgrade(migrated, "0003")
    upgrade(migrated, NOW)
    with migrated.connect() as database:
        assert database.scalars(mine).one() == before
        assert database.scalars(select(permits.c.agent_id)).one() == before


def test_seeding_passes_over_ids_and_strings_that_are_there_already(migrated: Engine) -> None:
    downgrade(migrated, "0003")
    with migrated.begin() as database:
        database.execute(insert(user_agent_pool), [added(listed()[9], 1), added("Mozilla/5.0 (added by hand)", 2)])
    upgrade(migrated, NOW)
    with migrated.connect() as database:
        rows = database.execute(select(user_agent_pool.c.agent_id, user_agent_pool.c.user_agent)).all()
    place = {row.user_agent: row.agent_id for row in rows}
    assert len(rows) == 101
    assert (place[listed()[9]], place["Mozilla/5.0 (added by hand)"]) == (1, 2)
    assert (place[listed()[0]], place[listed()[1]], place[listed()[2]]) == (101, 102, 3)


def added(user_agent: str, agent_id: int) -> dict[str, object]:
    return {
        "agent_id": agent_id,
        "user_agent_id": f"{agent_id:036d}",
        "user_agent": user_agent,
        "user_agent_hash": sha256(user_agent.encode()).digest(),
        "status": "AVAILABLE",
        "created_at": NOW,
        "updated_at": NOW,
    }
