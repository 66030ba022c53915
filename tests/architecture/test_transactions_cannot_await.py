"""A transaction that awaits cannot be written: the type checker sees it, and so does the compiler."""

from __future__ import annotations

from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parents[2]

PLAIN = """
from sellerwatch.kernel.store import Store

class Tx:
    rows: int = 3

def work(tx: Tx) -> int:
    return tx.rows

async def use(store: Store[Tx]) -> int:
    return await store.{verb}(work) + await store.{verb}(lambda tx: tx.rows)
"""

AWAITING = """
from sellerwatch.kernel.store import Store

class Tx:
    rows: int = 3

async def work(tx: Tx) -> int:
    return tx.rows

async def use(store: Store[Tx]) -> int:
    return await store.{verb}(work)
"""

# The adapter must offer the same door as the port: nothing wider.
ADAPTER = """
from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.kernel.store import Store

def as_port(store: SqlStore) -> Store[Transaction]:
    return store
"""

SNIPPETS = {
    "plain_transact": PLAIN.format(verb="transact"),
    "plain_read": PLAIN.format(verb="read"),
    "awaiting_transact": AWAITING.format(verb="transact"),
    "awaiting_read": AWAITING.format(verb="read"),
    "adapter": ADAPTER,
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What the type checker has to say about each snippet; all in one run, because starting it is the dear part."""
    folder = tmp_path_factory.mktemp("snippets")
    files = []
    for name, source in SNIPPETS.items():
        files.append(folder / f"{name}.py")
        files[-1].write_text(source)
    config, cache = f"--config-file={ROOT / 'pyproject.toml'}", f"--cache-dir={folder / 'cache'}"
    output, errors, _ = api.run(
        ["--follow-imports=silent", "--no-error-summary", "--no-pretty", config, cache, *map(str, files)]
    )
    assert errors == ""
    lines = [line for line in output.splitlines() if ": error:" in line]
    return {name: [line for line in lines if f"{name}.py:" in line] for name in SNIPPETS}


@pytest.mark.parametrize("verb", ["transact", "read"])
def test_a_plain_function_is_a_transaction(said: dict[str, list[str]], verb: str) -> None:
    assert said[f"plain_{verb}"] == []


@pytest.mark.parametrize("verb", ["transact", "read"])
def test_a_function_that_could_await_is_reported_where_it_is_awaited(said: dict[str, list[str]], verb: str) -> None:
    errors = said[f"awaiting_{verb}"]
    assert all(":11: error:" in error for error in errors)
    assert any("ATransactionCannotAwait" in error for error in errors)


def test_the_adapter_offers_the_same_door_as_the_port(said: dict[str, list[str]]) -> None:
    assert said["adapter"] == []


def test_await_in_a_plain_function_does_not_compile() -> None:
    with pytest.raises(SyntaxError, match="outside async function"):
        compile("def work(tx):\n    await tx.client.get('/')\n", "work.py", "exec")
