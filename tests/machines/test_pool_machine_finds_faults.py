"""The pool's machine finds what is wrong with a pool: each fault is planted, and a bounded number of lives fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.machines.planted import Fault, planted
from tests.machines.test_pool_machine import (
    embedded_worlds,
    of_lives,
    pool_machine,
    redis_pool_machine,
    redis_worlds,
)
from tests.pool.pool_world import small_pool
from tests.servers import Redis

PERMITS, OUTCOMES, SCRIPTS = "adapters.sql.permits", "agents.record_outcomes", "adapters.redis.scripts"

#: A few lives find most of them; one that fails is not made shorter. They are the same lives each time: whether a fault
#: is found is no matter of luck.
UNTIL_ONE_FAILS = settings(of_lives(300, 15), phases=(Phase.generate,), report_multiple_bugs=False, derandomize=True)

EDGE = Fault(PERMITS, "at.boot_us - limits.window_us}", "at.boot_us - limits.window_us + 1}")
FREED_AT_SEND = Fault(
    PERMITS,
    "UPDATE permits SET answered_at = :now, answered_boot_us = :boot_us WHERE id",
    "UPDATE permits SET answered_at = :now, answered_boot_us = CASE WHEN :boot_us > 0 THEN boot_us END WHERE id",
)

EMBEDDED = {
    "a slot is free a microsecond early": EDGE,
    "a slot is free a window after it was sent": FREED_AT_SEND,
    "answers are counted in the order of lending": Fault(
        OUTCOMES, "charges.sort(key=_ANSWERED_AT)", 'charges.sort(key=attrgetter("permit"))'
    ),
    "a circuit is as it was when its agent was lent": Fault(
        OUTCOMES,
        "        after = circuit\n",
        "        after = charges[row][0].candidate.circuit if charges.get(row) else circuit\n",
    ),
    "a recount gives back slots whose answer came": Fault(
        PERMITS,
        "COUNT(*) FROM permits GROUP BY agent_id",
        "COUNT(*) FROM permits WHERE answered_boot_us IS NULL GROUP BY agent_id",
    ),
    "a slot whose process was killed is never free": Fault(PERMITS, "if lapsed else 0", "if not lapsed else 0"),
}


@pytest.mark.parametrize("name", EMBEDDED)
def test_a_fault_of_the_pool_is_found(migrated_template: Path, name: str) -> None:
    machine = pool_machine(embedded_worlds(small_pool(migrated_template, 3)))
    with planted(EMBEDDED[name]), pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=UNTIL_ONE_FAILS)


#: Redis and the database both count: a fault of one alone lends too little, never too much.
IN_REDIS = {
    "a slot is free a microsecond early": (
        EDGE,
        Fault(SCRIPTS, "local edge = '(' .. text(now - window)", "local edge = '(' .. text(now - window + 1)"),
    ),
    "a slot is free a window after it was sent": (
        FREED_AT_SEND,
        Fault(
            SCRIPTS,
            "local row, name = ARGV[at], ARGV[at + 1]\n    if redis.call('ZREM'",
            "local row, name = ARGV[at], ARGV[at + 1]\n"
            "    local now = redis.call('ZSCORE', open, row .. '/' .. name) or now\n    if redis.call('ZREM'",
        ),
    ),
    "requests of an agent keep no distance": (
        Fault(SCRIPTS, "math.max(now, departure + spacing), under_way", "math.max(now, departure), under_way"),
    ),
    "an emptied Redis forgets when agents departed": (
        Fault(SCRIPTS, "redis.call('HSETNX', departures, row, text(now))", ""),
    ),
    "an answered slot stays open": (
        Fault(
            SCRIPTS,
            "name) == 1 then redis.call('HINCRBY', lent, row, -1) end\n    redis.call('ZADD', windows",
            "name) == 1 then redis.call('HINCRBY', lent, row, 0) end\n    redis.call('ZADD', windows",
        ),
    ),
    "what a killed process was lent stays open": (
        Fault("adapters.redis.limiter", "if not name.isdigit() or int(name) not in still", "if not name.isdigit()"),
    ),
}


@pytest.mark.parametrize("name", IN_REDIS)
def test_a_fault_of_the_limiter_in_redis_is_found(redis: Redis, migrated_template: Path, name: str) -> None:
    machine = redis_pool_machine(redis_worlds(redis.url, small_pool(migrated_template, 3)))
    with planted(*IN_REDIS[name]), pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=UNTIL_ONE_FAILS)
