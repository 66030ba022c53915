"""`sellerwatch outbox ping`: a signed PING to the receiver, and its answer."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .cli_world import CliWorld
from .conftest import clean_environment, refused

SECRET, OTHER = "whsec_cHJhY3Rpc2UgbWFrZXMgcGVyZmVjdA==", "whsec_YW5vdGhlciBzZWNyZXQgb2Ygb3Vycw=="


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[str]:
    """The reference receiver in a process of its own; its address."""
    command = [sys.executable, "-m", "sellerwatch", "receiver", "--port", "0", "--json", "--secret", SECRET]
    with subprocess.Popen(command, cwd=tmp_path, env=clean_environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["events"]
        process.terminate()


def test_a_ping_shows_the_receivers_answer_and_touches_no_event(world: CliWorld, receiver: str) -> None:
    world.failed_message()
    before = {name: rows for name, rows in world.everything().items() if "outbox" in name}
    address = {"PRODUCT_SERVER_URL": receiver}
    done = world("outbox", "ping", "--json", **address, PRODUCT_SERVER_SECRET=SECRET)
    found = json.loads(done.stdout)
    assert (done.returncode, found["isAccepted"], found["httpStatusCode"]) == (0, True, 200)
    assert found["answer"].startswith('{"received":true')
    done = world("outbox", "ping", **address, PRODUCT_SERVER_SECRET=OTHER)
    assert (done.returncode, "The receiver answered 401" in done.stdout) == (1, True)
    done = world("outbox", "ping", PRODUCT_SERVER_URL="http://127.0.0.1:9/events")
    assert (done.returncode, "did not answer" in done.stdout, "no connection" in done.stdout) == (1, True, True)
    assert "PRODUCT_SERVER_URL is not set" in refused(world("outbox", "ping"), 1)
    answers = [entry.after["httpStatusCode"] for entry in world.trail() if entry.after is not None]
    assert answers == [None, 401, 200]
    assert {name: rows for name, rows in world.everything().items() if "outbox" in name} == before
