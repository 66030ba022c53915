"""`sellerwatch db backup`, `restore` and `check`: what a copy holds, and what is refused with nothing half-done."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.builders import NOW, a_seller, worker_id
from tests.servers import MariaDb, program
from tests.simulated_service import KEY

from sellerwatch.adapters.sql.engine import make_engine
from sellerwatch.adapters.sql.migrate import downgrade, history
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.crawling.ports import WorkerInfo
from sellerwatch.kernel.clock import SystemClock
from sellerwatch.operations.ports import Invariant
from sellerwatch.oversight.backups import LastBackup, version_floor_at

from .cli_world import AWKWARD, ONE, CliWorld, CrawledProducts
from .conftest import Run, refused
from .test_db import change, contents, url

#: What must be given with a server.
SECRETS = {"TOKEN_KEYS": KEY, "JWT_SECRET": "x" * 32, "INTERNAL_API_KEYS": "key"}
#: Everything that a password may have in an option file: quotes, a comment, an escape, blanks.
AWKWARD_PASSWORD = "a\"b'c#d\\e f; g=h"


def rows(file: Path) -> dict[str, list[Any]]:
    """Every row of every table but those that `db backup` itself writes to."""
    with closing(sqlite3.connect(file)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        kept = sorted(set(tables) - {"last_backup", "audit", "activity", "sqlite_sequence"})
        return {name: database.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall() for name in kept}  # noqa: S608


def test_a_backup_is_the_database_at_one_moment_while_another_writes(world: CliWorld, tmp_path: Path) -> None:
    world.register()
    target = tmp_path / "backup.db"
    before = rows(world.file)
    with closing(sqlite3.connect(world.file, isolation_level=None)) as another:
        another.execute("BEGIN IMMEDIATE")
        another.execute("DELETE FROM sellers")
        made = world.json("db", "backup", str(target))
        another.execute("ROLLBACK")
    assert rows(target) == before
    assert (made["bytes"], made["revision"], made["recorded"]) == (target.stat().st_size, HEAD, False)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert {name for name in contents(tmp_path) if name.startswith("backup")} == {"backup.db"}


def test_the_database_knows_its_last_backup(world: CliWorld, tmp_path: Path) -> None:
    target = tmp_path / "backup.db"
    made = world.json("db", "backup", str(target))
    last = world.json("status")["backup"]
    assert (last["file"], last["bytes"], last["revision"], last["failedAt"]) == (str(target), made["bytes"], HEAD, None)
    assert next(entry.action for entry in world.trail()) == "db.backup"
    assert "Backup" in world.said("status")


def test_a_file_is_replaced_only_when_that_is_asked_for(world: CliWorld, tmp_path: Path) -> None:
    target = tmp_path / "backup.db"
    target.write_bytes(b"something of mine")
    assert "--force" in refused(world("db", "backup", str(target)), 1)
    assert target.read_bytes() == b"something of mine"
    assert world.json("status")["backup"] is None
    assert world("db", "backup", "--force", str(target)).returncode == 0
    assert rows(target) == rows(world.file)


def test_a_backup_that_fails_leaves_no_file_and_is_known(world: CliWorld, tmp_path: Path) -> None:
    assert world("db", "backup", str(tmp_path / "good.db")).returncode == 0
    missing = tmp_path / "missing" / "backup.db"
    assert "cannot be written" in refused(world("db", "backup", str(missing)), 1)
    last = world.json("status")["backup"]
    assert (last["file"], last["problem"].startswith(str(missing))) == (str(tmp_path / "good.db"), True)
    assert "파일을 쓸 수 없습니다" in world("status", "--json", LANGUAGE="ko").stdout


def test_a_database_in_memory_or_without_a_schema_has_no_backup(run: Run, tmp_path: Path) -> None:
    assert "memory" in refused(run("db", "backup", "b.db", DATABASE_URL="sqlite://"), 2)
    assert "db upgrade" in run("db", "backup", "b.db").stderr
    assert contents(tmp_path) == {}


def test_a_restore_brings_everything_back_and_keeps_what_was_there(world: CliWorld, tmp_path: Path) -> None:
    world.register()
    assert world("db", "backup", str(tmp_path / "b.db")).returncode == 0
    before = rows(world.file)
    change(world.file, "DELETE FROM sellers")
    lost = rows(world.file)
    world.store.close()
    done = world.json("db", "restore", str(tmp_path / "b.db"), "--yes")
    assert done["revision"] == HEAD
    assert rows(Path(done["aside"])) == lost
    found = rows(world.file)
    differ = {name for name in found if found[name] != before[name]}
    assert differ == {"rate_limit_bucket", "restores"}
    assert stat.S_IMODE(world.file.stat().st_mode) == 0o600
    with closing(sqlite3.connect(world.file)) as database:
        full = database.execute("SELECT COUNT(*) FROM rate_limit_bucket WHERE full_reason = 'RESTORED'").fetchone()
    assert full == (100,)
    assert {name for name in contents(tmp_path) if "partial" in name or "restored" in name} == set()


def test_a_restore_gives_up_what_was_not_delivered_and_sends_the_state_of_each_product(
    world: CliWorld, tmp_path: Path
) -> None:
    products = CrawledProducts(world)
    products.crawl(deliver=False)
    assert world("db", "backup", str(tmp_path / "b.db")).returncode == 0
    world.store.close()
    done = world.json("db", "restore", str(tmp_path / "b.db"), "--yes")
    assert (done["eventsGivenUp"], done["products"]) == (3, 3)
    with closing(sqlite3.connect(world.file)) as database:
        assert database.execute("SELECT DISTINCT status FROM product_outbox").fetchall() == [("DISCARDED",)]
        assert database.execute("SELECT status, total FROM resyncs").fetchall() == [("RUNNING", 3)]
        ((floor,),) = database.execute("SELECT version_floor FROM restores").fetchall()
    assert floor >= version_floor_at(NOW)


def test_a_backup_of_an_older_schema_is_upgraded(world: CliWorld, tmp_path: Path) -> None:
    old = Path(shutil.copyfile(world.file, tmp_path / "old.db"))
    engine = make_engine(url(old))
    downgrade(engine, history()[-3])
    engine.dispose()
    world.store.close()
    assert world.json("db", "restore", str(old), "--yes")["revision"] == history()[-3]
    assert world.json("db", "status")["state"] == "current"


def no_database(file: Path) -> None:
    file.write_text("no database at all, but of some length\n" * 300)


def cut_off(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-40_000])


def of_a_newer_version(file: Path) -> None:
    change(file, "UPDATE alembic_version SET version_num = '9999'")


def of_another_program(file: Path) -> None:
    file.unlink()
    change(file, "CREATE TABLE albums (id INTEGER)")


@pytest.mark.parametrize(
    ("spoil", "code", "says"),
    [
        (no_database, 2, "no whole backup"),
        (cut_off, 1, "damaged"),
        (of_a_newer_version, 1, "9999"),
        (of_another_program, 1, "another program"),
        (Path.unlink, 1, "There is no file"),
    ],
)
def test_what_is_no_backup_of_ours_is_refused_and_nothing_is_changed(
    world: CliWorld, tmp_path: Path, spoil: Callable[[Path], None], code: int, says: str
) -> None:
    assert world("db", "backup", str(tmp_path / "b.db")).returncode == 0
    spoil(tmp_path / "b.db")
    world.store.close()
    before = contents(tmp_path)
    assert says in refused(world("db", "restore", str(tmp_path / "b.db"), "--yes"), code)
    assert contents(tmp_path) == before


def test_a_restore_is_refused_while_a_process_works_with_the_database(world: CliWorld, tmp_path: Path) -> None:
    assert world("db", "backup", str(tmp_path / "b.db")).returncode == 0
    now = SystemClock().now()
    for number, beat in ((1, now + timedelta(minutes=5)), (2, now - timedelta(hours=1))):
        info = WorkerInfo(worker_id(number), "scheduler", "here", 4711 + number, now, beat)
        world.do(lambda tx, info=info: tx.workers.enter(info))  # type: ignore[misc]
    world.store.close()
    said = refused(world("db", "restore", str(tmp_path / "b.db"), "--yes"), 1)
    assert "scheduler (here, pid 4712)" in said
    assert "4713" not in said


def test_a_restore_is_refused_while_another_has_the_file_open(world: CliWorld, tmp_path: Path) -> None:
    assert world("db", "backup", str(tmp_path / "b.db")).returncode == 0
    world.store.close()
    with closing(sqlite3.connect(world.file)) as another:
        another.execute("PRAGMA journal_mode=WAL")
        another.execute("SELECT COUNT(*) FROM sellers").fetchone()
        assert "has" in refused(world("db", "restore", str(tmp_path / "b.db"), "--yes"), 1)
    assert world("db", "restore", str(tmp_path / "b.db"), "--yes").returncode == 0


def test_a_broken_database_is_put_aside(world: CliWorld, tmp_path: Path) -> None:
    assert world("db", "backup", str(tmp_path / "b.db")).returncode == 0
    world.store.close()
    no_database(world.file)
    done = world.json("db", "restore", str(tmp_path / "b.db"), "--yes")
    assert Path(done["aside"]).read_text().startswith("no database at all")
    assert world.json("db", "check") == {"checked": len(Invariant), "broken": []}


def test_no_answer_restores_nothing(world: CliWorld, tmp_path: Path) -> None:
    assert world("db", "backup", str(tmp_path / "b.db")).returncode == 0
    before = contents(tmp_path)
    assert world("db", "restore", str(tmp_path / "b.db")).returncode == 1
    assert contents(tmp_path) == before


def test_an_old_backup_needs_attention(world: CliWorld) -> None:
    made = LastBackup(SystemClock().now() - timedelta(days=9, hours=1), "/b.db", 1, 1.0, HEAD)
    world.do(lambda tx: tx.backups.save(made))
    assert "The last backup of the database is 9 days old" in world.said("status")
    assert "백업한 지 9일이 지났습니다" in world("status", LANGUAGE="ko").stdout
    assert world("status", BACKUP_MAX_AGE_DAYS="10").stdout.count("The last backup") == 0


HEAD = history()[-1]
#: A statement that breaks one thing, and what is found.
PLANTED = {
    Invariant.VERSIONS: "UPDATE product_outbox SET version = version - 1 WHERE id = 1",
    Invariant.LAST_EVENT: "UPDATE products SET version = version + 1 WHERE id = (SELECT MIN(id) FROM products)",
    Invariant.ORDER_OF_EVENTS: "UPDATE product_outbox SET status = 'FAILED' WHERE id = 1",
    Invariant.BUDGETS: "UPDATE rate_limit_bucket SET current_tokens = current_tokens - 1 WHERE agent_id = 3",
    Invariant.RUN_COUNTS: "UPDATE crawling_schedule_executions SET completed_tasks = completed_tasks + 1 WHERE id = 1",
    Invariant.OPEN_RUNS: "UPDATE crawling_schedule_executions SET status = 'RUNNING'",
    Invariant.TASKS_OF_ENDED_RUNS: "UPDATE crawling_schedule_executions SET status = 'FAILED' WHERE id = 3",
    Invariant.TASKS_WITHOUT_WORKER: "UPDATE crawler_tasks SET status = 'IN_PROGRESS', worker_id = NULL"
    " WHERE status = 'WAITING'",
}


@pytest.fixture
def checked(world: CliWorld) -> CliWorld:
    """A seller whose products have two events, and a run of which a task waits."""
    products = CrawledProducts(world)
    products.crawl()
    item = products.items[0]
    products.change(item, stock=77)
    products.crawl()
    world.run_of(ONE, number=9, waiting=1)
    return world


@pytest.mark.parametrize("invariant", PLANTED)
def test_what_does_not_hold_is_found_in_a_sentence(checked: CliWorld, invariant: Invariant) -> None:
    assert checked.json("db", "check") == {"checked": len(Invariant), "broken": []}
    change(checked.file, PLANTED[invariant])
    found = checked.json("db", "check", code=1)["broken"]
    assert invariant in {each["check"] for each in found}
    said = checked("db", "check")
    assert said.returncode == 1
    assert len(said.stdout.splitlines()) == len(found)


def test_damaged_pages_are_found(checked: CliWorld) -> None:
    with closing(sqlite3.connect(checked.file)) as database:
        (root,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'products__uq_item_no'").fetchone()
        (size,) = database.execute("PRAGMA page_size").fetchone()
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    checked.store.close()
    with checked.file.open("r+b") as file:
        file.seek((root - 1) * size + size - 200)
        file.write(b"\xff" * 200)
    found = checked.json("db", "check", code=1)["broken"]
    assert found[0]["check"] == "integrity"


def tables_of(server: MariaDb, name: str) -> dict[str, Any]:
    with server.connect(name) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW TABLES")
        found = {}
        for (table,) in cursor.fetchall():
            cursor.execute(f"SELECT * FROM {table} ORDER BY 1")  # noqa: S608
            found[table] = cursor.fetchall()
        return found


def test_mariadb_is_dumped_and_restored_into_an_empty_database(
    run: Run, mariadb: MariaDb, mariadb_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [str(Path(program(name)).parent) for name in ("mariadb-dump", "mariadb")]
    monkeypatch.setenv("PATH", os.pathsep.join([*folders, os.environ["PATH"]]))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    empty_url = mariadb.database()
    with mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE USER 'operator'@'%%' IDENTIFIED BY %s", (AWKWARD_PASSWORD,))
        cursor.execute("GRANT ALL ON *.* TO 'operator'@'%'")
    credentials = f"operator:{quote(AWKWARD_PASSWORD, safe='')}"
    full, empty = (each.replace("root@", f"{credentials}@") for each in (mariadb_url, empty_url))
    engine = make_engine(full)
    with engine.begin() as begun:
        Transaction(begun).sellers.add(a_seller(name=AWKWARD))
    engine.dispose()
    before = tables_of(mariadb, full.rpartition("/")[2])

    target = tmp_path / "b.sql"
    done = run("db", "backup", str(target), "--json", DATABASE_URL=full, **SECRETS)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["revision"] == HEAD
    assert "mariadb-dump" in done.stderr
    assert "g=h" not in done.stdout + done.stderr
    assert (set(contents(tmp_path)), stat.S_IMODE(target.stat().st_mode)) == ({"b.sql"}, 0o600)
    assert json.loads(run("status", "--json", DATABASE_URL=full, **SECRETS).stdout)["backup"]["file"] == str(target)
    assert "empty database" in refused(run("db", "restore", str(target), "--yes", DATABASE_URL=full, **SECRETS), 1)

    done = run("db", "restore", str(target), "--yes", "--json", DATABASE_URL=empty, **SECRETS)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) | {"database": ""} == {
        "database": "",
        "revision": HEAD,
        "aside": None,
        "eventsGivenUp": 0,
        "products": 0,
    }
    found = tables_of(mariadb, empty.rpartition("/")[2])
    assert {name for name in found if found[name] != before[name]} <= {
        "rate_limit_bucket",
        "restores",
        "audit",
        "activity",
    }
    assert set(found) == set(before)
    assert [row[-1] for row in found["rate_limit_bucket"]].count("RESTORED") == 100
    assert json.loads(run("db", "check", "--json", DATABASE_URL=empty, **SECRETS).stdout)["broken"] == []

    target.write_bytes(target.read_bytes()[:-200])
    assert "cut off" in refused(
        run("db", "restore", str(target), "--yes", DATABASE_URL=mariadb.database(), **SECRETS), 2
    )


def test_a_server_without_its_programs_is_one_sentence(
    run: Run, mariadb_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "mariadb-dump, mysqldump" in refused(run("db", "backup", "b.sql", DATABASE_URL=mariadb_url, **SECRETS), 1)
    assert contents(tmp_path) == {}
