"""A downgrade as a script: the mysql client leaves the same schema and the same rows as `db downgrade` does."""

from __future__ import annotations

import asyncio
import subprocess
from typing import Any

import pytest
from sqlalchemy import Engine, inspect, text
from tests.adapters.sql.test_migrations import shape
from tests.adapters.sql.test_old_rows import within
from tests.builders import NOW, SELLER, StoppedClock, a_token
from tests.servers import MariaDb, program
from tests.world import StoreWorld, keep_agents

from sellerwatch.adapters.sql.engine import make_engine
from sellerwatch.adapters.sql.migrate import downgrade
from sellerwatch.adapters.sql.script import NoScript, downgrade_script
from sellerwatch.adapters.sql.store import InlineRunner, SqlStore
from sellerwatch.adapters.sql.transaction import Transaction


@pytest.fixture
def on() -> str:
    return "mariadb"


def rows(engine: Engine) -> dict[str, list[Any]]:
    with engine.connect() as connection:
        tables = sorted(inspect(engine).get_table_names())
        return {name: sorted(map(repr, connection.execute(text(f"SELECT * FROM {name}")))) for name in tables}  # noqa: S608


async def filled(engine: Engine) -> None:
    """A seller, a run with failed tasks, an agent that was used, one with a token."""
    store = SqlStore(engine, StoppedClock(), InlineRunner(), InlineRunner())
    stage = StoreWorld(store, StoppedClock())
    await stage.register([SELLER])
    await stage.add_run(done=2, failed=1, waiting=1)

    def work(tx: Transaction) -> None:
        keep_agents(tx, 5)
        tx.agents.save({1: tx.agents.get_rows([1])[1].block(NOW, "it's a; test -- 한국어 \\")})
        tx.tokens.keep(2, a_token(2, fingerprint="ab" * 32), NOW)

    await store.transact(work)


@pytest.mark.parametrize("to", ["-1", "0003", "base"])
def test_the_client_does_with_the_script_what_a_downgrade_does(
    mariadb: MariaDb, mariadb_template: str, to: str
) -> None:
    urls = [mariadb.copy(mariadb_template) for _ in range(2)]
    by_client, by_us = (make_engine(url) for url in urls)
    for engine in (by_client, by_us):
        asyncio.run(filled(engine))
    before = rows(by_client)
    script = downgrade_script(make_engine(urls[0]), to)
    assert rows(by_client) == before, "it is only printed"
    database = urls[0].rpartition("/")[2]
    command = [
        program("mariadb"),
        "--no-defaults",
        "--host=127.0.0.1",
        f"--port={mariadb.port}",
        "--user=root",
        database,
    ]
    done = subprocess.run(command, input=script.text().encode(), capture_output=True, check=False, timeout=600)
    assert (done.returncode, done.stderr) == (0, b"")
    downgrade(by_us, to)
    assert shape(by_client) == shape(by_us)
    assert rows(by_client) == rows(by_us)
    for engine, url in zip((by_client, by_us), urls, strict=True):
        engine.dispose()
        mariadb.drop(url)


def test_for_a_file_there_is_no_script(migrated_template: Any) -> None:
    with pytest.raises(NoScript):
        downgrade_script(make_engine(f"sqlite:///{migrated_template}"), "-1")
    assert within(make_engine(f"sqlite:///{migrated_template}"), lambda tx: tx.agents.tally()) == (100, 100)
