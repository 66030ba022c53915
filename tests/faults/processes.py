"""Real processes: the program as it is run, and the simulator beside it, each ended by whoever started it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from tests.builders import a_context
from tests.waiting import PATIENCE, wait_until
from tests.world import StoreWorld

from sellerwatch.adapters.sql.engine import make_engine
from sellerwatch.adapters.sql.store import InlineRunner, SqlStore
from sellerwatch.kernel.clock import SystemClock
from sellerwatch.kernel.ids import Ids, SellerId
from sellerwatch.sellers.commands import run_now
from sellerwatch.simulator.rng import seeded_rng

#: Nobody waits longer for anything here; a machine that is slow is not a fault.
LIMITS = {"WINDOW_LIMIT": 80, "WINDOW_SECONDS": 10, "REQUESTS_PER_SECOND": 30}


def environment(**settings: object) -> dict[str, str]:
    """Nothing of ours is set but what is given; what the machine needs is."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SELLERWATCH_")}
    ours = {f"SELLERWATCH_{name}": str(value) for name, value in ({"PORT": 0} | settings).items()}
    return kept | ours | {"NO_COLOR": "1", "PYTHONIOENCODING": "utf-8", "COLUMNS": "160"}


class Program:
    """`python -m sellerwatch ...` as a process of its own, what it says kept in files."""

    def __init__(self, folder: Path, *arguments: str, **settings: object) -> None:
        number = len(list(folder.glob("*.err")))
        self._out, self._err = folder / f"{number}.out", folder / f"{number}.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "sellerwatch", *arguments],
                cwd=folder,
                env=environment(**settings),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    @property
    def said(self) -> str:
        return self._out.read_text("utf-8")

    @property
    def complained(self) -> str:
        return self._err.read_text("utf-8")

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def until_it_says(self, words: str) -> None:
        wait_until(lambda: words in self.said or words in self.complained or not self.is_alive, f"it says {words!r}")
        assert self.is_alive, self.complained

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait()

    def end(self, number: signal.Signals) -> int:
        """Ask it to end; its exit code. How soon it ends is tested in `tests/simulation/test_losses.py`."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        return self.process.wait(PATIENCE)


def run(folder: Path, *arguments: str, **settings: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sellerwatch", *arguments],
        cwd=folder,
        env=environment(**settings),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


class SimulatorProcess(Program):
    """A marketplace and a product server in a process of their own, asked through their doors."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        limits = [
            part for name, value in LIMITS.items() for part in (f"--{name.lower().replace('_', '-')}", str(value))
        ]
        super().__init__(folder, "simulator", "--port", "0", "--json", *limits, *arguments)
        wait_until(lambda: self.said.rstrip().endswith("}") or not self.is_alive, "the simulator listens")
        facts = json.loads(self.said)
        self.marketplace: str = facts["marketplace"]
        self.product_server: str = facts["product_server"]

    def settings(self, database: Path, **more: object) -> dict[str, object]:
        """What a service needs to work with this simulator."""
        return {
            "DATABASE_URL": f"sqlite:///{database}",
            "MARKETPLACE_URL": self.marketplace,
            "PRODUCT_SERVER_URL": self.product_server,
            "DEPARTURE_MARGIN_SECONDS": 0.02,
            "AGENT_SUSPENSION_SECONDS": 3,
            "TENDING_INTERVAL_SECONDS": 1,
            "OUTBOX_BACKOFF_SECONDS": 0.5,
            "OUTBOX_CIRCUIT_OPEN_SECONDS": 0.1,
            "OUTBOX_RETRIES": 20,
            "OUTBOX_INTERVAL_SECONDS": 1,
            "VISIBILITY_SECONDS": 2,
            **LIMITS,
            **more,
        }

    def ask(self, door: str, method: str = "GET") -> Any:
        address = urlsplit(self.marketplace)
        with closing(HTTPConnection(address.hostname or "", address.port, timeout=PATIENCE)) as connection:
            connection.request(method, f"/__simulator__/{door}")
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            return json.loads(answer.read())

    @property
    def requests(self) -> int:
        return sum(self.ask("stats")["marketplace"]["requests"].values())

    def check_manners(self) -> None:
        """The limits were kept, and the rules of the events."""
        stats = self.ask("stats")
        assert stats["marketplace"]["over_budget"] == 0
        assert stats["marketplace"]["most_in_a_window"] <= LIMITS["WINDOW_LIMIT"]
        assert self.ask("violations") == []

    def check(self) -> None:
        """The receiver's catalogue is the marketplace's."""
        assert self.ask("compare")["mismatches"] == 0, self.ask("compare")
        self.check_manners()


def register_at(url: str, *sellers: str, due: bool = True, new: bool = True) -> None:
    """As `sellers add --crawl-now` does it, without a process for each; known sellers are crawled once more."""
    clock = SystemClock()
    store = SqlStore(make_engine(url), clock, InlineRunner(), InlineRunner())
    world = StoreWorld(store, clock, Ids(clock, seeded_rng(*sellers)))
    names, now = list(map(SellerId, sellers)), world.now
    if new:
        asyncio.run(world.register(names))
    if due:
        asyncio.run(world.transact(lambda tx: [run_now(tx, a_context(now), name) for name in names]))
    world.store.close()


def count(database: Path, sql: str) -> int:
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=PATIENCE)) as connection:
        return int(connection.execute(sql).fetchone()[0])


def is_settled(database: Path, runs: int) -> bool:
    """So many runs are over, and nothing waits to be delivered."""
    with suppress(sqlite3.OperationalError):
        over = "SELECT COUNT(*) FROM crawling_schedule_executions WHERE status = 'COMPLETED'"
        going = "SELECT COUNT(*) FROM crawling_schedule_executions WHERE status IN ('PENDING', 'RUNNING')"
        waiting = "SELECT COUNT(*) FROM product_outbox WHERE status IN ('WAITING', 'SENDING')"
        return count(database, over) >= runs and count(database, going) == 0 == count(database, waiting)
    return False
