"""Databases for the schema's tests: real files and a real server, opened as the program opens them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import Engine
from tests.servers import MariaDb

from sellerwatch.adapters.sql.engine import make_engine
from sellerwatch.adapters.sql.migrate import upgrade

NOW = datetime(2026, 2, 3, 4, 5, 6, 789012, tzinfo=UTC)

NewDatabase = Callable[[], Engine]


@pytest.fixture
def new_database(on: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[NewDatabase]:
    """Makes empty databases, each a file of its own or one on the server."""
    made: list[Engine] = []

    def make() -> Engine:
        server: MariaDb | None = request.getfixturevalue("mariadb") if on == "mariadb" else None
        made.append(make_engine(server.database() if server else f"sqlite:///{tmp_path}/{len(made)}.db"))
        return made[-1]

    yield make
    for engine in made:
        engine.dispose()


@pytest.fixture
def empty(new_database: NewDatabase) -> Engine:
    return new_database()


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated file, made once; closing it folds its journal into it, so that a copy is whole."""
    path = tmp_path_factory.mktemp("template") / "migrated.db"
    engine = make_engine(f"sqlite:///{path}")
    upgrade(engine, NOW)
    engine.dispose()
    return path


@pytest.fixture
def migrated(on: str, template: Path, new_database: NewDatabase, request: pytest.FixtureRequest) -> Iterator[Engine]:
    if on == "mariadb":
        engine = make_engine(request.getfixturevalue("mariadb_url"))
    else:
        engine = new_database()
        shutil.copy(template, str(engine.url.database))
    yield engine
    engine.dispose()
