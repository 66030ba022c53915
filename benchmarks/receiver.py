"""A receiver of events in a process of its own, on the first core: it parses each, and checks the order of a product.

It is as light as it can be, so that it never waits for itself. `GET /received` returns how many events came, how many
were out of order, and a digest of the productData that each product had last; and forgets them.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import orjson
from benchmarks.others.job import pin

SECRET = "whsec_YmVuY2htYXJrcyBhcmUgbm90IHByb29mcw=="


@dataclass(frozen=True)
class Received:
    """What came since it was asked before; `digests` by item number."""

    events: int
    wrong: int
    digests: dict[int, str]


def digest(product_data: Any) -> str:
    return hashlib.md5(orjson.dumps(product_data, option=orjson.OPT_SORT_KEYS), usedforsecurity=False).hexdigest()


def ask_received(url: str) -> Received:
    with urllib.request.urlopen(f"{url}/received", timeout=60) as answer:
        found = json.load(answer)
    return Received(found["events"], found["wrong"], {int(item): last for item, last in found["digests"].items()})


@contextmanager
def receiver() -> Iterator[str]:
    """The address of one that listens."""
    command = [sys.executable, "-m", "benchmarks.receiver"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: pin(0)) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


async def receive() -> None:
    from sellerwatch.simulator.http import serve
    from sellerwatch.simulator.wire import SimulatedAnswer, SimulatedRequest, json_answer

    versions: dict[int, int] = {}
    digests: dict[str, str] = {}
    counts = {"events": 0, "wrong": 0}

    def answer(request: SimulatedRequest, now: float) -> SimulatedAnswer:
        if request.path == "/received":
            found = json_answer(200, {**counts, "digests": digests})
            versions.clear()
            digests.clear()
            counts.update(events=0, wrong=0)
            return found
        event = orjson.loads(request.body)
        item = event["itemNo"]
        counts["events"] += 1
        counts["wrong"] += event["version"] != versions.get(item, 0) + 1
        versions[item] = event["version"]
        digests[str(item)] = digest(event["productData"])
        return SimulatedAnswer(200, b"ok")

    async with serve(answer) as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    import uvloop

    uvloop.run(receive())
