"""Parts every feature's tests may use: a migrated database in a file of its own, and the store on it.

Both stores rehearse: each `work` runs twice and the first run is rolled back, so that one that is not safe to run again
shows in whatever test uses it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from hypothesis import HealthCheck
from sqlalchemy import Engine
from tests.builders import NOW, StoppedClock
from tests.servers import MariaDb, running

from sellerwatch.adapters.sql.engine import make_engine
from sellerwatch.adapters.sql.migrate import upgrade
from sellerwatch.adapters.sql.store import InlineRunner, SqlStore, ThreadRunner
from sellerwatch.kernel.clock import SystemClock

# For every test: how fast the machine is decides nothing. A test that chooses settings of its own starts from these,
# and tests/architecture/test_busy_machine.py sees to it that none brings a time limit back.
hypothesis.settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis.settings.load_profile("any machine")

#: What a repository promises holds on both.
ENGINES = ("sqlite", "mariadb")


@pytest.fixture(scope="session")
def migrated_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file migrated once; copying it costs a hundredth of migrating another."""
    path = tmp_path_factory.mktemp("template") / "template.db"
    engine = make_engine(f"sqlite:///{path}")
    upgrade(engine, NOW)
    engine.dispose()
    return path


@pytest.fixture
def database_file(migrated_template: Path, tmp_path: Path) -> Path:
    """A database of this test alone, on the current schema."""
    return Path(shutil.copyfile(migrated_template, tmp_path / "test.db"))


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDb]:
    """One server for all tests of this process; each has a database of its own on it."""
    with running(MariaDb) as server:
        assert isinstance(server, MariaDb)
        yield server


def migrated_database(server: MariaDb) -> str:
    url = server.database()
    engine = make_engine(url)
    upgrade(engine, NOW)
    engine.dispose()
    return url


@pytest.fixture(scope="session")
def mariadb_template(mariadb: MariaDb) -> str:
    """The name of a database migrated once."""
    return migrated_database(mariadb).rpartition("/")[2]


@pytest.fixture(scope="session")
def mariadb_copy(mariadb: MariaDb, mariadb_template: str) -> str:
    """One database for all tests that leave its tables as they are, one after the other."""
    return mariadb.copy(mariadb_template)


@pytest.fixture
def mariadb_url(mariadb: MariaDb, mariadb_template: str, mariadb_copy: str) -> str:
    """A database of this test alone, on the current schema; it may change rows, not tables."""
    mariadb.refill(mariadb_copy, mariadb_template)
    return mariadb_copy


@pytest.fixture
def on() -> str:
    """The engine a test runs on. Suites that hold for both have this with `params=ENGINES` instead."""
    return "sqlite"


@pytest.fixture
def database_url(on: str, request: pytest.FixtureRequest) -> str:
    """A migrated database of this test alone."""
    if on == "mariadb":
        url: str = request.getfixturevalue("mariadb_url")
        return url
    return f"sqlite:///{request.getfixturevalue('database_file')}"


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    made = make_engine(database_url)
    yield made
    made.dispose()


@pytest.fixture
def store(engine: Engine) -> Iterator[SqlStore]:
    """The store as the service runs it: one thread writes, several read."""
    writer, reader = ThreadRunner(1, "test-write"), ThreadRunner(4, "test-read")
    made = SqlStore(engine, SystemClock(), writer, reader, rehearse=True)
    yield made
    made.close()


@pytest.fixture
def inline_store(engine: Engine) -> Iterator[SqlStore]:
    """The store as a simulation runs it: no threads, and waiting costs nothing."""
    made = SqlStore(engine, StoppedClock(), InlineRunner(), InlineRunner(), rehearse=True)
    yield made
    made.close()
