"""`sellerwatch db`: where the schema stands, there and back, and what is refused with nothing half-done."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sellerwatch.adapters.sql import migrate
from sellerwatch.adapters.sql.engine import DatabaseUnavailable
from sellerwatch.adapters.sql.migrate import history
from sellerwatch.compose.database import open_store, schema_status, upgrade_schema
from sellerwatch.settings.load import load

from .conftest import Run, refused

REVISIONS = list(history())
HEAD = REVISIONS[-1]


def url(path: Path | str) -> str:
    return f"sqlite:///{path}"


def ask(path: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute(query).fetchall()


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute(statement)
        database.commit()


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_looking_where_nothing_is_makes_no_file_and_exits_with_1(run: Run, tmp_path: Path) -> None:
    done = run("db", "status", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout) == {
        "database": "sqlite:///sellerwatch.db",
        "state": "empty",
        "current": None,
        "head": HEAD,
        "pending": REVISIONS,
    }
    assert contents(tmp_path) == {}


def test_going_down_where_nothing_is_makes_no_file_either(run: Run, tmp_path: Path) -> None:
    refused(run("db", "downgrade", "--yes"), 2)
    assert contents(tmp_path) == {}


def test_the_status_for_people_names_the_command_that_mends_it(run: Run) -> None:
    done = run("db", "status")
    assert done.returncode == 1
    assert "Run: sellerwatch db upgrade" in done.stdout


def test_upgrading_makes_the_database_once_and_the_audit_trail_says_who_did_it(run_cold: Run, tmp_path: Path) -> None:
    done = run_cold("db", "upgrade")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"The schema went from nothing to {HEAD}.\n"
    again = run_cold("db", "upgrade")
    assert (again.returncode, again.stdout) == (0, f"The schema is already at {HEAD}; nothing to do.\n")
    ((actor, action, subject, note),) = ask(
        tmp_path / "sellerwatch.db", "SELECT actor, action, subject_type || ' ' || subject_id, note FROM audit"
    )
    assert actor.startswith("cli:")
    assert (action, subject, note) == ("db.upgrade", f"schema {HEAD}", "from None")
    status = run_cold("db", "status")
    assert status.returncode == 0
    assert "current" in status.stdout
    assert list(contents(tmp_path)) == ["sellerwatch.db"]


def test_downgrading_goes_one_step_back_and_says_so(run: Run, database_file: Path) -> None:
    done = run("db", "downgrade", "--yes", "--json", DATABASE_URL=url(database_file))
    assert done.returncode == 0
    assert json.loads(done.stdout) == {"before": HEAD, "after": REVISIONS[-2], "changed": True, "lost": []}
    assert ask(database_file, "SELECT version_num FROM alembic_version") == [(REVISIONS[-2],)]
    assert ask(database_file, "SELECT action, subject_id FROM audit") == [("db.downgrade", REVISIONS[-2])]
    back = run("db", "upgrade", "--json", DATABASE_URL=url(database_file))
    assert json.loads(back.stdout) == {"before": REVISIONS[-2], "after": HEAD, "changed": True}


def test_downgrading_all_the_way_leaves_none_of_our_tables(run: Run, database_file: Path) -> None:
    done = run("db", "downgrade", "--to", "base", "--yes", DATABASE_URL=url(database_file))
    assert done.returncode == 0
    assert "Lost: 100 rows of user_agent_pool" in done.stdout
    assert done.stdout.endswith(f"The schema went from {HEAD} to nothing.\n")
    tables = {name for (name,) in ask(database_file, "SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert tables <= {"alembic_version", "sqlite_sequence"}


def test_retention_says_what_would_go_and_then_deletes_it(run: Run, database_file: Path) -> None:
    entry = "INSERT INTO audit (at, actor, action, subject_type, subject_id) VALUES ('{}', 'kim', 'x', 'seller', 's')"
    for at in ("2020-01-01 00:00:00.000000", "2020-01-02 00:00:00.000000", "2099-01-01 00:00:00.000000"):
        change(database_file, entry.format(at))
    planned = run("db", "retention", "--dry-run", "--json", DATABASE_URL=url(database_file))
    found = json.loads(planned.stdout)
    by_table = {each["table"]: (each["rows"], each["keptDays"]) for each in found["content"]}
    assert by_table == {
        "token_usage_log": (0, 92),
        "user_agent_token": (0, 92),
        "circuit_breaker_event": (0, 92),
        "crawler_tasks": (0, 30),
        "audit": (2, 730),
    }
    assert (found["rows"], found["bytes"], found["dryRun"]) == (2, 740, True)
    assert ask(database_file, "SELECT COUNT(*) FROM audit") == [(3,)]
    done = run("db", "retention", DATABASE_URL=url(database_file))
    assert "2 rows were deleted" in done.stdout
    assert ask(database_file, "SELECT action, state_before FROM audit ORDER BY id") == [
        ("x", None),
        ("db.retention", '{"audit":2}'),
    ]


def test_downgrading_names_what_is_lost_before_it_asks(run: Run, database_file: Path) -> None:
    change(
        database_file,
        "INSERT INTO users (name, role, password_hash, must_change, version, created_at, updated_at)"
        " VALUES ('minji', 'ADMIN', 'x', 0, 1, '2026-01-01 00:00:00.000000', '2026-01-01 00:00:00.000000')",
    )
    before = contents(database_file.parent)
    done = run("db", "downgrade", "--to", "0006", DATABASE_URL=url(database_file))
    assert done.returncode == 1
    assert "Lost: 1 row of users" in done.stdout
    assert contents(database_file.parent) == before
    done = run("db", "downgrade", "--to", "0006", "--yes", "--json", DATABASE_URL=url(database_file))
    assert json.loads(done.stdout)["lost"] == [{"table": "users", "column": None, "rows": 1}]


@pytest.mark.parametrize(
    "command", [("agents", "list"), ("agents", "status"), ("sellers", "list"), ("crawl", "s"), ("worker",), ("api",)]
)
def test_a_command_that_only_looks_or_works_names_the_command_that_makes_the_database(
    run: Run, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """A mistyped path made an empty database, and everything in it looked as if it were lost."""
    done = run(*command)
    assert (done.returncode, done.stdout) == (1, "")
    assert "sellerwatch db upgrade" in done.stderr
    assert not (tmp_path / "sellerwatch.db").exists()


def test_a_rollback_lasts_until_a_person_upgrades_again(run: Run, database_file: Path) -> None:
    run("db", "downgrade", "--yes", DATABASE_URL=url(database_file))
    assert "sellerwatch db upgrade" in run("agents", "list", DATABASE_URL=url(database_file)).stderr
    assert ask(database_file, "SELECT version_num FROM alembic_version") == [(REVISIONS[-2],)]
    assert run("sellers", "add", "s", "--name", "S", DATABASE_URL=url(database_file)).returncode == 0
    assert ask(database_file, "SELECT version_num FROM alembic_version") == [(HEAD,)]


def test_downgrading_asks_first_and_no_answer_is_no(run: Run, database_file: Path) -> None:
    before = contents(database_file.parent)
    done = run("db", "downgrade", "--to", "base", DATABASE_URL=url(database_file))
    assert done.returncode == 1
    assert contents(database_file.parent) == before


def test_a_revision_that_does_not_exist_is_refused_with_those_that_do(run: Run, database_file: Path) -> None:
    said = refused(run("db", "downgrade", "--to", "0815", "--yes", DATABASE_URL=url(database_file)), 2)
    assert "0815" in said
    assert "0001" in said


def test_a_database_of_a_newer_schema_is_refused_in_one_sentence_and_not_a_byte_is_changed(
    run: Run, database_file: Path
) -> None:
    change(database_file, "UPDATE alembic_version SET version_num = '9999'")
    before = contents(database_file.parent)
    for command in (("upgrade",), ("downgrade", "--yes")):
        assert "9999" in refused(run("db", *command, DATABASE_URL=url(database_file)), 1)
    assert contents(database_file.parent) == before


def test_a_newer_schema_can_be_looked_at(run: Run, database_file: Path) -> None:
    change(database_file, "UPDATE alembic_version SET version_num = '9999'")
    before = contents(database_file.parent)
    done = run("db", "status", "--json", DATABASE_URL=url(database_file))
    assert done.returncode == 1
    assert json.loads(done.stdout)["state"] == "unknown"
    assert contents(database_file.parent) == before


def test_a_database_of_another_program_is_refused_and_not_a_byte_is_changed(run: Run, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.db"
    change(theirs, "CREATE TABLE albums (id INTEGER)")
    before = contents(tmp_path)
    assert "albums" in refused(run("db", "upgrade", DATABASE_URL=url(theirs)), 1)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("place", ["/proc/x.db", "missing/x.db", "text/x.db", "folder", "text"])
def test_a_path_that_cannot_be_used_is_one_sentence_and_leaves_everything_as_it_was(
    run: Run, tmp_path: Path, place: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("no database at all, but of some length\n" * 30)
    before = contents(tmp_path)
    said = refused(run("db", "upgrade", DATABASE_URL=url(place)), 1)
    assert said.startswith(f"The database sqlite:///{place} cannot be used: ")
    assert contents(tmp_path) == before


def test_bad_settings_are_said_before_anything_is_made(run: Run, tmp_path: Path) -> None:
    done = run("db", "upgrade", PORT="abc", DATABASEURL="x")
    assert done.returncode == 2
    assert "SELLERWATCH_PORT" in done.stderr
    assert "SELLERWATCH_DATABASE_URL" in done.stderr
    assert contents(tmp_path) == {}


def test_a_database_that_another_keeps_locked_is_one_sentence(
    database_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "LOCK_SECONDS", 0)
    environment = {"SELLERWATCH_DATABASE_URL": url(database_file)}
    with closing(sqlite3.connect(database_file, isolation_level=None)) as another:
        another.execute("BEGIN IMMEDIATE")
        assert schema_status(environment)[1].state == "current"
        with pytest.raises(DatabaseUnavailable, match="database is locked"):
            upgrade_schema(environment, "test")


async def test_opening_the_store_makes_and_upgrades_the_embedded_file(tmp_path: Path) -> None:
    settings = load({"SELLERWATCH_DATABASE_URL": url(tmp_path / "new.db")}).settings
    for inline in (False, True):
        store = open_store(settings, inline=inline, make=True)
        assert await store.read(lambda tx: tx.db.value("SELECT count(*) FROM user_agent_pool")) == 100
        store.close()
