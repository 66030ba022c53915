"""Databases for the schema's tests: real files, opened as the program opens them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import Engine

from sellerwatch.adapters.sql.engine import make_engine
from sellerwatch.adapters.sql.migrate import upgrade

NOW = datetime(2026, 2, 3, 4, 5, 6, 789012, tzinfo=UTC)

NewDatabase = Callable[[], Engine]


@pytest.fixture
def new_database(tmp_path: Path) -> Iterator[NewDatabase]:
    """Makes empty databases, each a file of its own."""
    made: list[Engine] = []

    def make() -> Engine:
        made.append(make_engine(f"sqlite:///{tmp_path}/{len(made)}.db"))
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
def migrated(template: Path, new_database: NewDatabase) -> Engine:
    engine = new_database()
    shutil.copy(template, str(engine.url.database))
    return engine
