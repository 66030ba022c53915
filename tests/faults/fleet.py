"""A fleet at work while everything around it fails: 2 api, 4 workers and 2 schedulers as processes, on MariaDB, Redis,
SQS and EventBridge (private servers and an emulator on loopback).

    python -m tests.faults.fleet --minutes 10 --sellers 5 --products 500 --seed 7

Round after round the products change and every rule on the bus is fired, at an API that may be dying. Meanwhile some
process is killed every few seconds and started again, Redis is restarted empty, MariaDB is restarted, and messages of
the queue are delayed and doubled behind everybody's back. In the end there is peace, and the books are compared: the
receiver's catalogue with the marketplace's, the marketplace's count with the budget, the events with their order, and
each run with its tasks. The seed decides what is done to whom; when it meets whom is up to the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql
from tests import servers
from tests.aws import emulator
from tests.conftest import migrated_database
from tests.faults.processes import Program, SimulatorProcess, register_at, run
from tests.journeys.test_api import connect
from tests.waiting import PATIENCE

from sellerwatch.adapters.aws.client import Aws, AwsUnavailable

ROLES = ("api",) * 2 + ("worker",) * 4 + ("scheduler",) * 2
#: So few that they bind: what a restart forgets would show in the marketplace's count.
LIMITS = {"WINDOW_LIMIT": 8, "WINDOW_SECONDS": 10, "REQUESTS_PER_SECOND": 30}
QUEUE = "mustit-crawler-tasks.fifo"
KEY = "k" * 40
OVER = "SELECT COUNT(*) FROM crawling_schedule_executions WHERE status NOT IN ('PENDING', 'RUNNING')"
GOING = "SELECT COUNT(*) FROM crawling_schedule_executions WHERE status IN ('PENDING', 'RUNNING')"
WAITING = "SELECT COUNT(*) FROM product_outbox WHERE status IN ('WAITING', 'SENDING')"
# A run that did not end well, or whose counts are not those of its tasks.
BAD_RUNS = """
SELECT e.execution_id, e.status, e.total_tasks_created, e.completed_tasks, e.failed_tasks, e.failure_code,
    (SELECT COUNT(*) FROM crawler_tasks t WHERE t.execution_id = e.execution_id) AS tasks,
    (SELECT COUNT(*) FROM crawler_tasks t WHERE t.execution_id = e.execution_id AND t.status = 'COMPLETED') AS done
FROM crawling_schedule_executions e
HAVING status <> 'COMPLETED' OR total_tasks_created <> tasks OR completed_tasks <> tasks OR done <> tasks
"""
STUCK = """
SELECT e.seller_id, e.status, t.status, COUNT(*), MIN(t.available_at), MIN(t.published_at)
FROM crawling_schedule_executions e JOIN crawler_tasks t ON t.execution_id = e.execution_id
WHERE e.status IN ('PENDING', 'RUNNING') AND t.status NOT IN ('COMPLETED', 'FAILED') GROUP BY 1, 2, 3
"""


@dataclass
class Member:
    """One process of the fleet and its successors."""

    role: str
    program: Program
    is_serving: bool = False


class Servers:
    """Everything the fleet needs, and what can be done to it."""

    def __init__(self, mariadb: servers.MariaDb, redis: servers.Redis, aws: servers.Aws) -> None:
        self.mariadb, self.redis, self.aws = mariadb, redis, aws
        self.database = migrated_database(mariadb)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self.mariadb.connect(self.database.rpartition("/")[2]) as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def count(self, sql: str) -> int:
        return int(self.rows(sql)[0][0])

    def restart_redis(self) -> None:
        self.redis.kill()
        self.redis.start()

    def restart_mariadb(self) -> None:
        self.mariadb.stop()
        self.mariadb.start()


class Fleet:
    """The processes. One that ended by itself after it had begun to serve is a fault, whatever was done to its
    servers; one that was refused at the start because a server was away is started again, as whoever runs it would."""

    def __init__(self, folder: Path, settings: dict[str, object], roles: tuple[str, ...] = ROLES) -> None:
        self._folder = folder
        self._settings = settings
        self.members = [Member(role, self._start(role)) for role in roles]
        self.refused = 0
        self.killed: Counter[str] = Counter()
        self._lock = threading.Lock()

    def _start(self, role: str) -> Program:
        return Program(self._folder, role, **self._settings)

    def tend(self) -> None:
        """Start again what is not there."""
        with self._lock:
            for member in self.members:
                program = member.program
                member.is_serving = member.is_serving or '"serving"' in program.complained
                if program.is_alive:
                    continue
                assert not member.is_serving, f"a {member.role} ended by itself:\n{program.complained[-3000:]}"
                assert "Traceback" not in program.complained, program.complained
                self.refused += 1
                self._replace(member)

    def kill(self, member: Member) -> None:
        with self._lock:
            member.program.kill()
            self.killed[member.role] += 1
            self._replace(member)

    def _replace(self, member: Member) -> None:
        member.program, member.is_serving = self._start(member.role), False

    def all_serve(self) -> bool:
        self.tend()
        return all(member.is_serving for member in self.members)

    def restart(self, member: Member) -> str:
        """As a rolling restart does it: SIGTERM, and the next one when it is gone. What it said, for whoever looks."""
        was = member.program
        assert was.end(signal.SIGTERM) == 0, was.complained[-3000:]
        self._replace(member)
        return was.complained

    def addresses(self) -> list[str]:
        """Of every API that serves; it may be gone before it is asked."""
        with self._lock:
            said = [member.program.complained for member in self.members if member.role == "api"]
        return [found[1] for text in said if (found := re.search(r'"api": "([^"]+)"', text)) is not None]

    def end(self) -> None:
        for member in self.members:
            assert member.program.end(signal.SIGTERM) == 0, member.program.complained[-3000:]

    def close(self) -> None:
        for member in self.members:
            if member.program.is_alive:
                member.program.kill()


class Post:
    """Somebody between the queue and its workers: takes messages out for a while, and sends some once more under
    another deduplication id, straight at the emulator. A thread of its own, until `close`."""

    def __init__(self, url: str, seed: int) -> None:
        self._url, self._luck = url, random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._meddle()))
        self.delayed = self.doubled = 0
        self._thread.start()

    async def _meddle(self) -> None:
        aws, rng = Aws(self._url), self._luck
        try:
            queue = {"QueueUrl": (await aws.call("sqs", "get_queue_url", QueueName=QUEUE))["QueueUrl"]}
            while not self._stop.is_set():
                with suppress(AwsUnavailable):
                    taken = await aws.call(
                        "sqs",
                        "receive_message",
                        **queue,
                        MaxNumberOfMessages=rng.randint(1, 5),
                        VisibilityTimeout=rng.choice((0, 1, 3)),
                        AttributeNames=["MessageGroupId"],
                    )
                    for message in taken.get("Messages", ()):
                        self.delayed += 1
                        if rng.random() < 0.6:
                            await aws.call(
                                "sqs",
                                "send_message",
                                **queue,
                                MessageBody=message["Body"],
                                MessageGroupId=message["Attributes"]["MessageGroupId"],
                                MessageDeduplicationId=f"again-{rng.getrandbits(64):x}",
                            )
                            self.doubled += 1
                await asyncio.sleep(rng.uniform(0.1, 0.5))
        finally:
            await aws.close()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


def fire(fleet: Fleet, seller_id: str, rng: random.Random) -> bool:
    """As a rule of EventBridge does it: at whichever API there is. False: ask again, as its retry policy does."""
    addresses = fleet.addresses()
    if not addresses:
        return False
    try:
        with closing(connect(rng.choice(addresses))) as connection:
            body, headers = json.dumps({"sellerId": seller_id}), {"X-API-Key": KEY, "Content-Type": "application/json"}
            connection.request("POST", "/api/internal/crawling/trigger", body, headers)
            answer = connection.getresponse()
            said = answer.read()
    except OSError:
        return False
    except Exception as broken:
        if type(broken).__module__ != "http.client":
            raise
        return False
    assert answer.status in (200, 201, 202, 409, 503), said
    return answer.status < 300 or answer.status == 409


async def rules_on_the_bus(url: str) -> list[str]:
    """The sellers of all rules, by the input of their targets."""
    aws, sellers = Aws(url), list[str]()
    try:
        for rule in (await aws.call("events", "list_rules", NamePrefix="mustit-crawler-"))["Rules"]:
            targets = (await aws.call("events", "list_targets_by_rule", Rule=rule["Name"]))["Targets"]
            sellers += [str(json.loads(target["Input"])["sellerId"]) for target in targets]
    finally:
        await aws.close()
    return sorted(sellers)


@dataclass
class Story:
    """What is done, in the world that was made for it. `patience`: nothing may take longer once there is peace."""

    servers: Servers
    simulator: SimulatorProcess
    fleet: Fleet
    sellers: int
    rng: random.Random
    patience: float = PATIENCE
    say: Callable[[str], None] = lambda _: None
    rounds: int = 0
    faults: list[str] = field(default_factory=list)

    def until(self, happened: Callable[[], bool], what: str, within: float | None = None) -> None:
        deadline = time.monotonic() + (within or self.patience)
        while not self._is(happened):
            self.fleet.tend()
            if time.monotonic() > deadline:
                raise AssertionError(f"never happened: {what}\n{self._state()}")
            time.sleep(0.1)

    def _is(self, happened: Callable[[], bool]) -> bool:
        """A database that is away just now says nothing."""
        try:
            return happened()
        except (pymysql.Error, OSError):
            return False

    def _state(self) -> str:
        stuck = "\n".join(map(str, self.servers.rows(STUCK)))
        return f"open: {stuck}\nto be delivered: {self.servers.count(WAITING)}"

    def begin(self) -> None:
        names = [f"seller_{number:04}" for number in range(1, self.sellers + 1)]
        self.until(self.fleet.all_serve, "all serve")
        register_at(self.servers.database, *names, due=False)
        self.until(
            lambda: asyncio.run(rules_on_the_bus(self.servers.aws.url)) == names, "every seller has a rule on the bus"
        )

    def is_settled(self) -> bool:
        count = self.servers.count
        return count(OVER) >= self.rounds * self.sellers and count(GOING) == 0 == count(WAITING)

    def fire_all(self) -> None:
        """Every rule once, each until an API has taken it."""
        self.rounds += 1
        waiting = asyncio.run(rules_on_the_bus(self.servers.aws.url))
        assert len(waiting) == self.sellers
        deadline = time.monotonic() + self.patience
        while waiting:
            waiting = [seller_id for seller_id in waiting if not fire(self.fleet, seller_id, self.rng)]
            assert time.monotonic() < deadline, f"not started: {waiting}"
            time.sleep(0.2 if waiting else 0)

    def harm(self, seconds: float, pause: tuple[float, float]) -> None:
        """Fault after fault for so long, while rounds go on beside it; one outage of each server at a third and at two
        thirds of the time."""
        began, outages = time.monotonic(), {1 / 3: self.servers.restart_redis, 2 / 3: self.servers.restart_mariadb}
        while (share := (time.monotonic() - began) / seconds) < 1:
            for due in [at for at in outages if at <= share]:
                outage = outages.pop(due)
                self.faults.append(outage.__name__)
                outage()
            victim = self.rng.choice(self.fleet.members)
            self.fleet.kill(victim)
            self.fleet.tend()
            time.sleep(self.rng.uniform(*pause))

    def go_round(self) -> None:
        """The products change, every seller is crawled, everything is told."""
        if self.rounds:
            self.simulator.ask(f"mutate?count={self.sellers * 8}&seed={self.rounds}", "POST")
        self.fire_all()
        self.until(self.is_settled, f"round {self.rounds} is over", 20 * self.patience)
        self.say(f"round {self.rounds} is over after {self.simulator.requests:,} requests; killed {self.fleet.killed}")

    def go(self, seconds: float, pause: tuple[float, float] = (1.5, 4.0)) -> None:
        """Rounds for as long as faults go on; the last one ends in peace."""
        broken: list[BaseException] = []

        def rounds() -> None:
            try:
                self.go_round()
                while harming.is_alive():
                    self.go_round()
            except BaseException as error:
                broken.append(error)

        harming = threading.Thread(target=lambda: self._harm_noting(seconds, pause, broken))
        harming.start()
        rounds()
        harming.join()
        if broken:
            raise broken[0]

    def _harm_noting(self, seconds: float, pause: tuple[float, float], broken: list[BaseException]) -> None:
        try:
            self.harm(seconds, pause)
        except BaseException as error:
            broken.append(error)

    def check(self) -> None:
        """The books, in peace."""
        compared = self.simulator.ask("compare")
        assert compared["mismatches"] == 0, compared
        stats = self.simulator.ask("stats")
        assert stats["marketplace"]["over_budget"] == 0
        assert stats["marketplace"]["most_in_a_window"] <= LIMITS["WINDOW_LIMIT"]
        assert self.simulator.ask("violations") == []
        assert self.servers.rows(BAD_RUNS) == []
        assert self.servers.count("SELECT COUNT(*) FROM product_outbox WHERE status = 'FAILED'") == 0

    def end(self) -> None:
        """Everybody is asked to stop, once they could hear it."""
        self.until(self.fleet.all_serve, "all serve again")
        self.fleet.end()


@contextmanager
def ground(folder: Path, *, sellers: int, products: int, latency_ms: int = 50) -> Iterator[tuple[Servers, Any, Any]]:
    """Servers, a simulator, and the settings of a fleet on them."""
    limits = [part for name, value in LIMITS.items() for part in (f"--{name.lower().replace('_', '-')}", str(value))]
    with ExitStack() as stack:
        mariadb = stack.enter_context(servers.running(servers.MariaDb))
        redis = stack.enter_context(servers.running(servers.Redis))
        aws = stack.enter_context(emulator())
        assert isinstance(mariadb, servers.MariaDb)
        assert isinstance(redis, servers.Redis)
        made = Servers(mariadb, redis, aws)
        simulator = stack.enter_context(
            SimulatorProcess(
                folder,
                *("--detail-kb", "1", "--latency-ms", str(latency_ms)),
                *("--sellers", str(sellers), "--products", str(products), *limits),
            )
        )
        settings = simulator.settings(
            folder / "unused",
            DATABASE_URL=made.database,
            REDIS_URL=redis.url,
            QUEUE="sqs",
            SCHEDULER="eventbridge",
            EVENTBRIDGE_TARGET_ARN="arn:aws:events:us-east-1:000000000000:api-destination/sellerwatch/0",
            EVENTBRIDGE_ROLE_ARN="arn:aws:iam::000000000000:role/sellerwatch",
            AWS_ENDPOINT_URL=aws.url,
            TOKEN_KEYS="1:" + "A" * 43 + "=",
            JWT_SECRET="j" * 40,
            INTERNAL_API_KEYS=KEY,
            ADMIN_PASSWORD="first-Password-1234",
            PAGE_SIZE=20,
            MAX_CONCURRENCY=20,
            VISIBILITY_SECONDS=3,
            LOG_FORMAT="json",
            QUARANTINE_SHARE_PERCENT=100,
            REMOVAL_SHARE_PERCENT=100,
            **LIMITS,
        )
        done = run(folder, "aws", "setup", **settings)
        assert done.returncode == 0, done.stderr
        yield made, simulator, settings


@contextmanager
def telling(
    folder: Path,
    *,
    sellers: int,
    products: int,
    seed: int,
    roles: tuple[str, ...] = ROLES,
    meddle: bool = True,
    **more: object,
) -> Iterator[Story]:
    """A fleet that serves, with `more` settings; `meddle`: somebody is at its messages."""
    with ExitStack() as stack:
        made, simulator, settings = stack.enter_context(ground(folder, sellers=sellers, products=products))
        fleet = Fleet(folder, settings | more, roles)
        stack.callback(fleet.close)
        story = Story(made, simulator, fleet, sellers, random.Random(seed))
        story.begin()
        post = Post(made.aws.url, seed) if meddle else None
        try:
            yield story
        finally:
            if post is not None:
                post.close()
                story.faults.append(f"{post.delayed} messages delayed, {post.doubled} of them doubled")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--sellers", type=int, default=5)
    parser.add_argument("--products", type=int, default=500)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--folder", type=Path, help="where logs are left; default: nowhere")
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    with ExitStack() as stack:
        folder = args.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        with telling(folder, sellers=args.sellers, products=args.products, seed=args.seed) as story:
            story.say = lambda words: print(words, flush=True)
            story.go(args.minutes * 60)
            story.check()
            story.end()
            requests, killed = story.simulator.requests, dict(story.fleet.killed)
        print(f"{story.rounds} rounds, {requests:,} requests; killed {killed}; {'; '.join(story.faults)}")
        print(f"refused at the start while a server was away, and started again: {story.fleet.refused}")
        print("0 mismatches, 0 over budget, order kept, every run complete")
    return 0


if __name__ == "__main__":
    sys.exit(main())
