"""How a database is opened, what is refused, and what opening leaves alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError

from sellerwatch.adapters.sql import engine as engine_module
from sellerwatch.adapters.sql.engine import (
    DRIVER_ERRORS,
    DatabaseUnavailable,
    InvalidDatabaseUrl,
    answering,
    check_reachable,
    database_path,
    make_engine,
    shown,
)
from sellerwatch.adapters.sql.statements import READS_ONLY

Opened = Callable[..., Engine]


@pytest.fixture
def opened() -> Iterator[Opened]:
    made: list[Engine] = []

    def make(path: Path | str, **options: str) -> Engine:
        made.append(make_engine(f"sqlite:///{path}", **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for engine in made:
        engine.dispose()


def pragma(engine: Engine, name: str) -> object:
    with engine.connect() as connection:
        return connection.exec_driver_sql(f"PRAGMA {name}").scalar()


def test_making_an_engine_opens_and_makes_nothing(tmp_path: Path, opened: Opened) -> None:
    opened(tmp_path / "new.db")
    assert list(tmp_path.iterdir()) == []


def test_a_database_is_opened_with_a_write_ahead_log_and_a_patient_lock(tmp_path: Path, opened: Opened) -> None:
    engine = opened(tmp_path / "new.db")
    assert pragma(engine, "journal_mode") == "wal"
    assert pragma(engine, "busy_timeout") == engine_module.BUSY_TIMEOUT_MS


@pytest.mark.parametrize(("synchronous", "number"), [("NORMAL", 1), ("FULL", 2)])
def test_durability_is_as_set(tmp_path: Path, opened: Opened, synchronous: str, number: int) -> None:
    assert pragma(opened(tmp_path / "new.db", synchronous=synchronous), "synchronous") == number


def test_a_transaction_takes_the_write_lock_when_it_begins_and_a_reading_one_does_not(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "BUSY_TIMEOUT_MS", 0)
    with engine.connect() as writing, writing.begin():
        with engine.connect().execution_options(**{READS_ONLY: True}) as reading, reading.begin():
            assert reading.exec_driver_sql("SELECT count(*) FROM activity").scalar() == 0
        with engine.connect() as second, pytest.raises(DRIVER_ERRORS, match="locked"), second.begin():
            pass


def test_databases_in_memory_live_as_long_as_their_engine() -> None:
    engine = make_engine("sqlite://")
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE kept (id INTEGER)")
    with engine.begin() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM kept").scalar() == 0
    assert database_path(engine) is None
    engine.dispose()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        "sqlite:relative.db",
        "mysql://shop:hunter2@db.example",
        "mysql://shop:hunter2@db.example/shop?charset=latin1",
        "mysql+pymysql://shop:hunter2@db.example/shop",
        "postgresql://shop:hunter2@db.example/shop",
        "no-such-engine://shop:hunter2@db.example/shop",
        "sqlite+aiosqlite:///some.db",
        "sqlite://shop:hunter2@host/some.db",
        "sqlite:///some.db?password=hunter2",
    ],
)
def test_an_address_that_cannot_be_served_is_refused_in_one_sentence_without_its_password(url: str) -> None:
    with pytest.raises(InvalidDatabaseUrl) as refused:
        make_engine(url)
    said = str(refused.value)
    assert said.startswith("SELLERWATCH_DATABASE_URL is wrong: ")
    assert said.endswith(".")
    assert "\n" not in said
    assert "hunter2" not in said


def unusable_paths(folder: Path) -> dict[str, Path]:
    (folder / "file").write_text("not a database, but long enough to have a header to look at" * 10)
    (folder / "folder").mkdir()
    return {
        "a missing folder": folder / "missing" / "some.db",
        "below a regular file": folder / "file" / "some.db",
        "a folder": folder / "folder",
        "not a database": folder / "file",
        "a place nobody can write": Path("/proc/some.db"),
    }


@pytest.mark.parametrize(
    "case", ["a missing folder", "below a regular file", "a folder", "not a database", "a place nobody can write"]
)
def test_an_unusable_path_is_said_in_one_sentence_and_left_as_it_was(tmp_path: Path, opened: Opened, case: str) -> None:
    path = unusable_paths(tmp_path)[case]
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    with pytest.raises(DatabaseUnavailable) as refused:
        check_reachable(opened(path))
    said = str(refused.value)
    assert said.startswith(f"The database sqlite:///{path} cannot be used: ")
    assert "\n" not in said
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_looking_at_a_file_of_another_program_does_not_change_a_byte_of_it(tmp_path: Path, opened: Opened) -> None:
    path = tmp_path / "theirs.db"
    with closing(sqlite3.connect(path)) as theirs:
        theirs.execute("CREATE TABLE albums (id INTEGER)")
    before = path.read_bytes()
    check_reachable(opened(path))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_database_can_be_looked_at_while_another_writes(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "BUSY_TIMEOUT_MS", 0)
    with engine.connect() as writing, writing.begin():
        check_reachable(engine)


def test_a_wrong_statement_is_a_bug_and_not_an_unavailable_database(engine: Engine) -> None:
    with pytest.raises(OperationalError, match="no such table"), answering(engine), engine.begin() as connection:
        connection.exec_driver_sql("SELECT * FROM nowhere")


def test_an_address_is_shown_with_its_path(tmp_path: Path, opened: Opened) -> None:
    engine = opened(tmp_path / "new.db")
    assert shown(engine) == f"sqlite:///{tmp_path}/new.db"
    assert database_path(engine) == tmp_path / "new.db"
