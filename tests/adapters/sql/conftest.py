"""Databases for the schema's tests: real files and a real server, opened as the program opens them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine
from tests.servers import MariaDb

from sellerwatch.adapters.sql.engine import make_engine

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


@pytest.fixture
def migrated(
    on: str, migrated_template: Path, new_database: NewDatabase, request: pytest.FixtureRequest
) -> Iterator[Engine]:
    if on == "mariadb":
        server: MariaDb = request.getfixturevalue("mariadb")
        url = server.copy(request.getfixturevalue("mariadb_template"))
        engine = make_engine(url)
        yield engine
        engine.dispose()
        server.drop(url)
    else:
        engine = new_database()
        shutil.copy(migrated_template, str(engine.url.database))
        yield engine
