"""Forward, back, forward again; with data; cut off in the middle; by many at once; and what is refused."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import Column, Engine, MetaData, Table, Text, create_engine, insert, inspect, select
from tests.adapters.sql import reflected
from tests.adapters.sql.conftest import NewDatabase
from tests.builders import NOW
from tests.conftest import ENGINES

from sellerwatch.adapters.sql.engine import is_mysql
from sellerwatch.adapters.sql.migrate import (
    MIGRATIONS,
    NoSuchRevision,
    SchemaBehind,
    SchemaMissing,
    SchemaStatus,
    SchemaUnknown,
    downgrade,
    history,
    require_current,
    status,
    upgrade,
)
from sellerwatch.kernel.failure import Failure
from sellerwatch.kernel.wording import failure_text

OTHERS = ("alembic_version", "sqlite_sequence")
REVISIONS = (
    "0001",
    "0002",
    "0003",
    "0004",
    "0005",
    "0006",
    "0007",
    "0008",
    "0009",
    "0010",
    "0013",
    "0012",
    "0015",
    "0014",
    "0016",
    "0017",
    "0018",
    "0019",
    "0020",
    "0021",
)
HEAD = REVISIONS[-1]
NEXT = "0099"
BREAKS = """
from alembic import op
from sqlalchemy import Column, Integer
revision = "NEXT"
down_revision = "HEAD"
def upgrade():
    op.create_table("half", Column("id", Integer, primary_key=True))
    op.execute("INSERT INTO half VALUES (1)")
    op.execute("UPDATE user_agent_pool SET health_score = 0")
    op.drop_table("audit")
    raise OSError("the power went")
def downgrade():
    op.drop_table("half")
""".replace("NEXT", NEXT).replace("HEAD", HEAD)


def shape(engine: Engine) -> Mapping[str, object]:
    """Everything the database knows of its tables: as it was declared, and as it was understood."""
    found = inspect(engine)
    if is_mysql(engine):
        return {table: _declared(engine, table) for table in found.get_table_names() if table not in OTHERS}
    with engine.connect() as database:
        declared = database.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").all()
    understood = {
        table: (
            [{**column, "type": str(column["type"])} for column in found.get_columns(table)],
            sorted(map(_without_condition, found.get_indexes(table)), key=lambda index: str(index["name"])),
            found.get_pk_constraint(table),
            found.get_check_constraints(table),
        )
        for table in found.get_table_names()
        if table not in OTHERS
    }
    texts = {row.name: " ".join(row.sql.split()) for row in declared if row.name not in OTHERS}
    return {"declared": texts, "understood": understood}


def _without_condition(index: Any) -> dict[str, Any]:
    """An index without its WHERE, which is compared as it was declared: two texts of SQLAlchemy are never equal."""
    return {name: value for name, value in index.items() if name != "dialect_options"}


def _declared(engine: Engine, table: str) -> str:
    """As the server would make it anew; where its ids go on is not of its shape, nor the order of its indexes."""
    with engine.connect() as database:
        made = str(database.exec_driver_sql(f"SHOW CREATE TABLE {table}").one()[1])
    lines = re.sub(r" AUTO_INCREMENT=\d+", "", made).replace(",\n", "\n").splitlines()
    return "\n".join([lines[0], *sorted(lines[1:])])


def row_for(table: Table) -> dict[str, object]:
    """A row with a value in every column that wants one."""
    values: dict[type, object] = {str: "x", int: 7, bool: True, float: 0.5, Decimal: 0.5, bytes: b"x", datetime: NOW}
    wanted = [column for column in table.columns if not column.nullable and column.autoincrement is not True]
    return {column.name: values[column.type.python_type] for column in wanted}


#: What has failed, and how each of them is named.
KEYS = {"crawler_tasks": "task_id", "crawling_schedule_executions": "execution_id"}


def names_in(engine: Engine, table: str) -> list[str]:
    return [column["name"] for column in inspect(engine).get_columns(table)]


def tables_of(engine: Engine) -> dict[str, Table]:
    return {name: table for name, table in reflected.tables(engine).items() if name not in OTHERS}


def contents(engine: Engine, there: dict[str, Table] | None = None) -> dict[str, list[dict[str, object]]]:
    """What is in the columns that are there: a step may add one, which is empty at first, or take one away. A text is
    equal to its bytes: on MySQL a step makes the payload binary. `there`: its tables, if they were read already."""
    if there is None:
        there = tables_of(engine)
    with engine.connect() as database:
        rows = {name: database.execute(select(table)).mappings().all() for name, table in there.items()}
    return {
        table: [{name: _plain(name, value) for name, value in row.items() if value is not None} for row in found]
        for table, found in rows.items()
    }


def _plain(name: str, value: object) -> object:
    return value.decode() if name == "payload" and isinstance(value, bytes) else value


def is_in(row: Mapping[str, object], rows: list[dict[str, object]]) -> bool:
    """Whether a row is there, with the columns it had; a step may add others that are not empty."""
    return any(row.items() <= other.items() for other in rows)


def fill(engine: Engine, there: dict[str, Table] | None = None) -> None:
    """One row into each table that is there and empty."""
    for table in (tables_of(engine) if there is None else there).values():
        with engine.begin() as database:
            if database.execute(select(table).limit(1)).first() is None:
                database.execute(insert(table), row_for(table))


def with_extra_step(folder: Path, source: str) -> Path:
    """A copy of the history with one more step."""
    shutil.copytree(MIGRATIONS, folder / "migrations", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / f"migrations/versions/{NEXT}_more.py").write_text(source)
    return folder / "migrations"


def up_in_steps(engine: Engine, folder: Path) -> Iterator[str]:
    """Upgrade to one revision after the other; `folder` gets a copy of the history."""
    shutil.copytree(MIGRATIONS, folder, ignore=shutil.ignore_patterns("versions", "__pycache__"))
    (folder / "versions").mkdir()
    for revision in REVISIONS:
        (step,) = (MIGRATIONS / "versions").glob(f"{revision}_*.py")
        shutil.copy(step, folder / "versions")
        assert upgrade(engine, NOW, folder).current == revision
        yield revision


@pytest.mark.parametrize("on", ENGINES)
def test_up_down_and_up_again_leaves_the_same_schema(migrated: Engine) -> None:
    before = shape(migrated)
    downgrade(migrated, "base")
    upgrade(migrated, NOW)
    assert shape(migrated) == before


def test_each_step_down_undoes_exactly_its_step_up(
    migrated: Engine, new_database: NewDatabase, migrated_template: Path
) -> None:
    shapes = {}
    for revision in reversed(REVISIONS):
        assert status(migrated).current == revision
        shapes[revision] = shape(migrated)
        downgrade(migrated, "-1")
    assert shape(migrated) == shape(new_database())
    for revision in REVISIONS:
        other = new_database()
        shutil.copy(migrated_template, str(other.url.database))
        downgrade(other, revision)
        assert shape(other) == shapes[revision]


@pytest.mark.parametrize("on", ENGINES)
def test_all_the_way_down_leaves_no_table_of_ours(migrated: Engine) -> None:
    fill(migrated)
    assert downgrade(migrated, "base") == SchemaStatus(None, HEAD, REVISIONS, "empty")
    assert inspect(migrated).get_table_names() == ["alembic_version"]


@pytest.mark.parametrize("on", ENGINES)
def test_upgrading_step_by_step_with_data_in_every_table_loses_none(empty: Engine, tmp_path: Path) -> None:
    before = contents(empty)
    for _ in up_in_steps(empty, tmp_path / "partial"):
        there = tables_of(empty)
        after = contents(empty, there)
        assert {name: [row for row in rows if is_in(row, after[name])] for name, rows in before.items()} == before
        fill(empty, there)
        before = contents(empty, there)
    assert {len(rows) for rows in before.values()} == {1, 3, 101}, "texts of three tables are to be converted"
    require_current(empty)


@pytest.mark.parametrize("on", ENGINES)
def test_products_that_were_told_before_they_had_a_name_get_the_last_that_was_told(migrated: Engine) -> None:
    fill(migrated)
    downgrade(migrated, "0007")
    with migrated.begin() as database:
        database.exec_driver_sql("""UPDATE product_outbox SET payload = '{"productData": {"name": "코트 🧥"}}'""")
    upgrade(migrated, NOW)
    assert contents(migrated)["products"][0]["name"] == "코트 🧥"


#: A sentence as an earlier version kept it, and whom its failure is charged to now.
RECORDED = {
    "The marketplace answered 401.": "AGENT",
    "The marketplace answered 403.": "AGENT",
    "6 requests in this run, the last: The marketplace answered 429: too many requests.": "AGENT",
    "The marketplace answered 404: there is no such product.": "PRODUCT",
    "The marketplace answered 503.": "MARKETPLACE",
    "The marketplace sent us elsewhere; only its own host is followed.": "MARKETPLACE",
    "The request failed: timeout (5 s).": "MARKETPLACE",
    "the total could not be asked: no answer": "MARKETPLACE",
    'The detail answer cannot be read: "상품명" is missing: 50 %.': "PARSER",
    "cancelled: the seller was deactivated": "PERSON",
    "poison: its worker vanished 3 times in a row": "OURSELVES",
    "ran past its deadline": "OURSELVES",
}
AT = f"{NOW:%Y-%m-%d %H:%M:%S.%f}"
NOTE = 'Item 7 belongs to the seller b\'s "shop", not to 가게; it is left alone.'


def written_by_an_earlier_version(engine: Engine) -> None:
    """At 0008: a failed task and a failed run for each sentence, a task done with a note, and one without."""
    ended = [("FAILED", sentence) for sentence in RECORDED] + [("COMPLETED", NOTE), ("COMPLETED", None)]
    every: dict[str, str | None] = {"seller_id": "가게", "created_at": AT, "completed_at": AT}
    task: dict[str, str | None] = {
        "task_type": "MINISHOP",
        "purpose": "CRAWL",
        "request_url": "/",
        "available_at": AT,
        "updated_at": AT,
    }
    tasks: list[dict[str, str | None]] = [
        every | task | {"task_id": str(n), "execution_id": "e", "status": status, "error_message": sentence}
        for n, (status, sentence) in enumerate(ended)
    ]
    runs: list[dict[str, str | None]] = [
        every | {"execution_id": str(n), "schedule_id": "s", "status": "FAILED", "error_message": sentence}
        for n, sentence in enumerate(RECORDED)
    ]
    for table, rows in (("crawler_tasks", tasks), ("crawling_schedule_executions", runs)):
        as_it_is = Table(table, MetaData(), *(Column(name, Text) for name in rows[0]))
        with engine.begin() as database:
            database.execute(insert(as_it_is), rows)


def sentences(engine: Engine, table: str, key: str) -> dict[str, str | None]:
    with engine.connect() as database:
        found = database.exec_driver_sql(f"SELECT {key}, error_message FROM {table}").all()  # noqa: S608 - ours
    return {row[0]: row[1] for row in found}


@pytest.mark.parametrize("on", ENGINES)
def test_sentences_of_earlier_failures_become_failures_and_notes_and_come_back_on_the_way_down(
    migrated: Engine,
) -> None:
    downgrade(migrated, "0008")
    written_by_an_earlier_version(migrated)
    before = {table: sentences(migrated, table, key) for table, key in KEYS.items()}
    for _ in range(2):
        upgrade(migrated, NOW)
        after = contents(migrated)
        for table, key in KEYS.items():
            by_key = {row[key]: row for row in after[table]}
            for number, (sentence, blame) in enumerate(RECORDED.items()):
                row = by_key[str(number)]
                assert (row["failure_code"], row["failure_blame"]) == ("RECORDED", blame)
                assert (row["failure_at"], "note" in row) == (NOW, False)
                stored = Failure.stored("RECORDED", blame, str(row["failure_facts"]), NOW)
                assert stored is not None
                assert (failure_text(stored), failure_text(stored, "ko"), stored.blame) == (sentence, sentence, blame)
        noted, plain = (row for row in after["crawler_tasks"] if row["status"] == "COMPLETED")
        assert noted["note"] == NOTE
        assert "failure_code" not in noted
        assert not {"failure_code", "failure_at", "note"} & set(plain)
        downgrade(migrated, "0008")
        assert {table: sentences(migrated, table, key) for table, key in KEYS.items()} == before


@pytest.mark.parametrize("on", ENGINES)
def test_removals_on_the_audit_trail_become_rows_of_their_own(migrated: Engine) -> None:
    downgrade(migrated, "0008")
    entries = [
        {"at": f"2026-11-15 0{hour}:00:00.000000", "state_before": json.dumps(before)}
        for hour, before in enumerate(
            [
                {"userAgent": "Opera/9", "requestsInWindow": 3},
                {"userAgent": "Opera/9", "requestsInWindow": 1},
                {"userAgent": "Lynx/2", "requestsInWindow": 0},
                {"status": "BLOCKED"},
            ]
        )
    ]
    same = {"actor": "cli:민지", "action": "agent.remove", "subject_type": "agent", "subject_id": "x"}
    rows = [same | entry for entry in entries]
    as_it_is = Table("audit", MetaData(), *(Column(name, Text) for name in rows[0]))
    with migrated.begin() as database:
        database.execute(insert(as_it_is), rows)
    for _ in range(2):
        upgrade(migrated, NOW)
        (row,) = contents(migrated)["removed_agents"]
        assert row["user_agent_hash"] == hashlib.sha256(b"Opera/9").digest()
        assert row["removed_at"] == datetime(2026, 11, 15, 1, tzinfo=UTC)
        downgrade(migrated, "0008")


@pytest.mark.parametrize("on", ENGINES)
def test_who_started_a_run_is_taken_over_from_the_audit_trail(migrated: Engine) -> None:
    downgrade(migrated, "0008")
    written_by_an_earlier_version(migrated)
    same: dict[str, str | None] = {
        "at": AT,
        "action": "crawl.start",
        "subject_type": "seller",
        "subject_id": "seller_1",
    }
    rows: list[dict[str, str | None]] = [
        same | {"actor": "cli:민지", "state_after": json.dumps({"executionId": "1", "products": 3})},
        same | {"actor": "scheduler", "state_after": None},
    ]
    as_it_is = Table("audit", MetaData(), *(Column(name, Text) for name in rows[0]))
    with migrated.begin() as database:
        database.execute(insert(as_it_is), rows)
    for _ in range(2):
        upgrade(migrated, NOW)
        runs = contents(migrated)["crawling_schedule_executions"]
        assert {str(run["execution_id"]): run["started_by"] for run in runs if "started_by" in run} == {"1": "cli:민지"}
        downgrade(migrated, "0008")


@pytest.mark.parametrize("on", ENGINES)
def test_cookies_in_the_clear_are_forgotten_with_their_tokens_and_sealed_ones_on_the_way_down(migrated: Engine) -> None:
    downgrade(migrated, "0017")
    for is_up in (True, False):
        fill(migrated)
        with migrated.begin() as database:
            database.exec_driver_sql("UPDATE user_agent_token SET is_active = 1, nid = 'a-nid', mustit_uid = 'a-uid'")
            database.exec_driver_sql(
                "UPDATE token_refresh_schedule SET token_id = (SELECT token_id FROM user_agent_token)"
            )
        upgrade(migrated, NOW) if is_up else downgrade(migrated, "0017")
        after = contents(migrated)
        (token,) = after["user_agent_token"]
        assert (token["is_active"], after["token_refresh_schedule"]) == (False, [])
        assert not {"nid", "mustit_uid"} & set(token)


@pytest.mark.parametrize("on", ENGINES)
def test_a_failure_with_a_code_goes_back_as_its_code(migrated: Engine) -> None:
    fill(migrated)
    with migrated.begin() as database:
        database.exec_driver_sql("""UPDATE crawler_tasks SET status = 'FAILED', failure_code = 'SERVER_ERROR',
            failure_blame = 'MARKETPLACE', failure_facts = '{"status": 503}'""")
    downgrade(migrated, "0008")
    assert set(sentences(migrated, "crawler_tasks", "task_id").values()) == {"SERVER_ERROR"}


@pytest.mark.parametrize("on", ENGINES)
def test_the_step_to_failures_cut_off_in_its_middle_is_run_again(migrated: Engine) -> None:
    """As MySQL leaves it: tasks are converted, runs are not, and the revision is not noted."""
    before = shape(migrated)
    downgrade(migrated, "0008")
    written_by_an_earlier_version(migrated)
    upgrade(migrated, NOW)
    with migrated.begin() as database:
        database.exec_driver_sql("UPDATE alembic_version SET version_num = '0008'")
        database.exec_driver_sql("DROP TABLE marketplace_circuits")
        database.exec_driver_sql("ALTER TABLE user_agent_token DROP COLUMN is_replacement")
    upgrade(migrated, NOW)
    assert shape(migrated) == before
    assert {row["failure_code"] for row in contents(migrated)["crawling_schedule_executions"]} == {"RECORDED"}


@pytest.mark.parametrize("on", ENGINES)
def test_going_back_keeps_what_the_earlier_tables_hold(migrated: Engine) -> None:
    fill(migrated)
    before = contents(migrated)
    downgrade(migrated, "0001")
    after = contents(migrated)
    assert len(after) == 8
    assert {name: [row for row in rows if is_in(row, before[name])] for name, rows in after.items()} == after
    assert {name: len(rows) for name, rows in after.items()} == {name: len(before[name]) for name in after}


@pytest.mark.parametrize("on", ENGINES)
def test_upgrading_a_current_database_changes_nothing(migrated: Engine) -> None:
    fill(migrated)
    before = (shape(migrated), contents(migrated))
    assert upgrade(migrated, NOW).state == "current"
    assert (shape(migrated), contents(migrated)) == before


def test_a_step_that_fails_in_its_middle_leaves_the_revision_before_it_intact(migrated: Engine, tmp_path: Path) -> None:
    fill(migrated)
    before = (shape(migrated), contents(migrated))
    with pytest.raises(OSError, match="the power went"):
        upgrade(migrated, NOW, with_extra_step(tmp_path, BREAKS))
    assert (shape(migrated), contents(migrated)) == before
    assert status(migrated).current == HEAD


def test_a_failing_step_keeps_the_steps_before_it(empty: Engine, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="the power went"):
        upgrade(empty, NOW, with_extra_step(tmp_path, BREAKS))
    assert status(empty).state == "current"


def test_a_step_down_that_fails_leaves_the_database_where_it_was(migrated: Engine, tmp_path: Path) -> None:
    broken = (
        BREAKS.replace("def upgrade", "def _").replace("def downgrade", "def upgrade").replace("def _", "def downgrade")
    )
    folder = with_extra_step(tmp_path, broken.replace('op.drop_table("half")', "pass"))
    upgrade(migrated, NOW, folder)
    before = (shape(migrated), contents(migrated))
    with pytest.raises(OSError, match="the power went"):
        downgrade(migrated, "0003", folder)
    assert (shape(migrated), contents(migrated)) == before
    assert status(migrated, folder).current == NEXT


def test_a_failing_step_leaves_nothing_behind_even_on_an_engine_that_begins_no_transactions(tmp_path: Path) -> None:
    """Python's sqlite3 as it comes begins none before DDL."""
    engine = create_engine(f"sqlite:///{tmp_path}/plain.db")
    with pytest.raises(OSError, match="the power went"):
        upgrade(engine, NOW, with_extra_step(tmp_path, BREAKS))
    assert status(engine).state == "current"
    assert "half" not in inspect(engine).get_table_names()
    engine.dispose()


@pytest.mark.parametrize("on", ENGINES)
def test_a_step_cut_off_where_ddl_is_not_transactional_is_run_again_and_makes_what_is_missing(migrated: Engine) -> None:
    """As MySQL leaves it: some tables and indexes made, the revision not noted."""
    before = shape(migrated)
    downgrade(migrated, "0001")
    with migrated.begin() as database:
        database.exec_driver_sql("DELETE FROM alembic_version")
        database.exec_driver_sql("DROP TABLE scheduler_outbox")
        of = " ON crawler_tasks" if is_mysql(migrated) else ""
        database.exec_driver_sql(f"DROP INDEX crawler_tasks__idx_status_created_at{of}")
    upgrade(migrated, NOW)
    assert shape(migrated) == before


def test_processes_that_upgrade_at_once_wait_for_one_another(empty: Engine) -> None:
    code = (
        "import sys; from datetime import datetime, UTC; from sellerwatch.adapters.sql.engine import make_engine;"
        "from sellerwatch.adapters.sql.migrate import upgrade;"
        "print(upgrade(make_engine(sys.argv[1]), datetime(2026, 1, 1, tzinfo=UTC)).state)"
    )
    with empty.connect():  # the file and its journal are there, as after the first start
        pass
    command = [sys.executable, "-c", code, str(empty.url)]
    at_once = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
        for _ in range(4)
    ]
    assert [process.communicate(timeout=600) for process in at_once] == [("current\n", "")] * 4
    assert len(contents(empty)["user_agent_pool"]) == 100


@pytest.mark.parametrize("on", ENGINES)
def test_a_new_database_is_empty_behind_and_then_current(empty: Engine) -> None:
    assert status(empty) == SchemaStatus(None, HEAD, REVISIONS, "empty")
    assert upgrade(empty, NOW) == SchemaStatus(HEAD, HEAD, (), "current")
    assert downgrade(empty, "0002") == SchemaStatus("0002", HEAD, REVISIONS[2:], "behind")


def test_the_program_runs_on_the_schema_it_knows(migrated: Engine) -> None:
    require_current(migrated)


@pytest.mark.parametrize("on", ENGINES)
def test_an_empty_database_is_refused(empty: Engine) -> None:
    with pytest.raises(SchemaMissing):
        require_current(empty)


@pytest.mark.parametrize("on", ENGINES)
def test_a_database_that_is_behind_is_refused(migrated: Engine) -> None:
    downgrade(migrated, "0002")
    with pytest.raises(SchemaBehind) as refused:
        require_current(migrated)
    assert refused.value.facts == {"current": "0002", "head": HEAD}


@pytest.mark.parametrize("noted", [["9999"], [HEAD, "9999"]])
def test_a_database_of_a_newer_program_is_refused_and_left_alone(migrated: Engine, noted: list[str]) -> None:
    with migrated.begin() as database:
        database.exec_driver_sql("DELETE FROM alembic_version")
        for each in noted:
            database.exec_driver_sql("INSERT INTO alembic_version VALUES (?)", (each,))
    before = (shape(migrated), contents(migrated))
    assert status(migrated).state == "unknown"
    for refused in (
        lambda: require_current(migrated),
        lambda: upgrade(migrated, NOW),
        lambda: downgrade(migrated, "base"),
    ):
        with pytest.raises(SchemaUnknown) as error:
            refused()
        assert error.value.facts == {"current": ", ".join(noted), "head": HEAD}
    assert (shape(migrated), contents(migrated)) == before


def test_a_file_of_another_program_is_refused_and_left_alone(empty: Engine) -> None:
    with empty.begin() as database:
        database.exec_driver_sql("CREATE TABLE bookmarks (id INTEGER)")
    with pytest.raises(SchemaUnknown) as refused:
        upgrade(empty, NOW)
    assert refused.value.facts == {"current": "table bookmarks", "head": HEAD}
    assert inspect(empty).get_table_names() == ["bookmarks"]


def test_somebody_elses_table_under_one_of_our_names_is_left_alone(migrated: Engine) -> None:
    downgrade(migrated, "base")
    with migrated.begin() as database:
        database.exec_driver_sql("CREATE TABLE products (sku TEXT)")
    with pytest.raises(SchemaUnknown) as refused:
        upgrade(migrated, NOW)
    assert refused.value.facts == {"current": "table products", "head": HEAD}
    assert sorted(inspect(migrated).get_table_names()) == ["alembic_version", "products"]


@pytest.mark.parametrize("revision", ["0003", HEAD, "0099", "-2", "head", ""])
def test_going_down_to_what_is_not_below_is_refused_with_what_is(migrated: Engine, revision: str) -> None:
    downgrade(migrated, "0002")
    with pytest.raises(NoSuchRevision) as refused:
        downgrade(migrated, revision)
    assert refused.value.facts == {"revision": revision, "possible": ("base", "0001", "0002")}
    assert status(migrated).current == "0002"


def test_an_empty_database_can_go_down_to_base_but_no_step_further(empty: Engine) -> None:
    assert downgrade(empty, "base").state == "empty"
    with pytest.raises(NoSuchRevision):
        downgrade(empty, "-1")


def test_the_files_names_tell_the_history_as_alembic_reads_it() -> None:
    script = ScriptDirectory(str(MIGRATIONS))
    assert history() == tuple(step.revision for step in reversed(list(script.walk_revisions()))) == REVISIONS


def test_steps_are_frozen_they_use_nothing_of_the_program_but_their_own_folder() -> None:
    for step in (MIGRATIONS / "versions").glob("*.py"):
        imports = [
            line for line in step.read_text().splitlines() if line.startswith(("from sellerwatch", "import sell"))
        ]
        assert all(line.startswith("from sellerwatch.adapters.sql.migrations.") for line in imports)


def test_looking_where_a_database_stands_does_not_load_alembic(empty: Engine) -> None:
    code = (
        "import sys; from sellerwatch.adapters.sql.engine import make_engine;"
        "from sellerwatch.adapters.sql.migrate import status;"
        "print(status(make_engine(sys.argv[1])).state, any(name.startswith('alembic') for name in sys.modules))"
    )
    told = subprocess.run([sys.executable, "-c", code, str(empty.url)], capture_output=True, text=True, check=True)
    assert told.stdout == "empty False\n"


def test_migrating_prints_nothing_and_leaves_logging_as_it_was(
    empty: Engine, capfd: pytest.CaptureFixture[str]
) -> None:
    before = (logging.getLogger().handlers[:], logging.getLogger().level, logging.getLogger("alembic").handlers[:])
    upgrade(empty, NOW)
    downgrade(empty, "base")
    assert before == (
        logging.getLogger().handlers[:],
        logging.getLogger().level,
        logging.getLogger("alembic").handlers[:],
    )
    assert capfd.readouterr() == ("", "")
