"""Permits in SQL: the exact window of every agent, shared by all processes of the database.

The bucket of an agent counts its free slots; each slot in use has a row. A permit costs three writes (lent, answered,
expired), whatever the size of the window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from sellerwatch.adapters.sql.statements import Repository
from sellerwatch.agents.agent_status import FullReason
from sellerwatch.agents.limits import Limits
from sellerwatch.agents.pool import Grant
from sellerwatch.agents.ports import CountedPermit, Permit, RecountedBucket
from sellerwatch.kernel.clock import SHARED, Moment
from sellerwatch.kernel.ids import TaskId, WorkerId

# The bucket holds the limits it was cut for, the window as its limit by its rate. A changed limit moves what is left by
# the difference. A longer window would reach back to requests that were forgotten under the shorter one: until those
# are out of its reach it counts as full.
SET_LIMIT = """
UPDATE rate_limit_bucket SET current_tokens = current_tokens + (:limit - max_tokens),
    full_reason = CASE WHEN :window_us - max_tokens / refill_rate * 1000000 < 1000
        OR full_until_us > :boot_us + :window_us - max_tokens / refill_rate * 1000000
        THEN full_reason ELSE 'LONGER' END,
    full_until_us = CASE WHEN :window_us - max_tokens / refill_rate * 1000000 < 1000 THEN full_until_us ELSE
        CASE WHEN full_until_us > :boot_us + :window_us - max_tokens / refill_rate * 1000000 THEN full_until_us ELSE
        :boot_us + :window_us - CAST(max_tokens / refill_rate * 1000000 AS SIGNED INTEGER) END END,
    max_tokens = :limit, refill_rate = :rate WHERE max_tokens <> :limit OR refill_rate <> :rate
"""

# The length of the window, the limit by the rate, stays. MySQL assigns from left to right.
SET_WINDOW_LIMIT = """
UPDATE rate_limit_bucket SET current_tokens = current_tokens + (:limit - max_tokens),
    refill_rate = refill_rate * :limit / max_tokens, max_tokens = :limit WHERE max_tokens <> :limit
"""

# What an earlier boot left is at least as old as this boot: it counts as answered at its second 0. Between a boot's
# clock and the one that machines share nothing is known but that it was before now.
ENTER_BOOT = """
UPDATE permits SET answered_boot_us = CASE WHEN boot_id = :shared OR :boot_id = :shared THEN :boot_us ELSE 0 END,
    boot_us = CASE WHEN boot_id = :shared OR :boot_id = :shared THEN :boot_us ELSE 0 END, boot_id = :boot_id,
    answered_at = COALESCE(answered_at, :now)
WHERE boot_id <> :boot_id
"""

ENTER_BOOT_BUCKETS = """
UPDATE rate_limit_bucket SET boot_id = :boot_id, last_departure_us = 0,
    full_reason = CASE WHEN full_until_us IS NULL THEN NULL ELSE COALESCE(full_reason, 'DOWNGRADED') END,
    full_until_us = CASE WHEN full_until_us IS NULL THEN NULL ELSE :window_us END
WHERE boot_id IS NULL OR boot_id <> :boot_id
"""

RESERVE = """
INSERT INTO permits (agent_id, task_id, worker_id, reserved_at, boot_id, boot_us) VALUES (?, ?, ?, ?, ?, ?)
"""

# Lent: the agent has that many slots fewer, and its last departure is then.
SPEND = "UPDATE rate_limit_bucket SET current_tokens = current_tokens - ?, last_departure_us = ? WHERE agent_id = ?"

# The CASE leaves but one index to go by, the ids': by the other, everybody's open permits would be held.
OPEN = "SELECT id FROM permits WHERE id IN (:numbers) AND CASE WHEN answered_boot_us IS NULL THEN 1 END = 1"

ANSWER = "UPDATE permits SET answered_at = :now, answered_boot_us = :boot_us WHERE id IN (:numbers)"

# Slots that came back.
REFUND = """
UPDATE rate_limit_bucket SET current_tokens = current_tokens + :number, last_refill_at = :now WHERE agent_id = :agent
"""

# Permits of workers that are gone or silent, and those that a living one has lost sight of.
LAPSED = """
SELECT id FROM permits WHERE answered_boot_us IS NULL AND (
    boot_us <= :forgotten OR worker_id NOT IN (
        SELECT worker_id FROM workers WHERE stopped_at IS NULL AND heartbeat_at > :beat_before))
"""

#: No request takes this long: the process that was to answer it was cut off before.
FORGOTTEN_US = 600_000_000

ANSWER_ALL = """
UPDATE permits SET answered_at = :now, answered_boot_us = :boot_us
WHERE answered_boot_us IS NULL AND worker_id = :worker_id
"""

ANSWER_OF = """
UPDATE permits SET answered_at = :now, answered_boot_us = :boot_us
WHERE answered_boot_us IS NULL AND worker_id = :worker_id AND task_id IN (:task_ids)
"""

EXPIRED = "SELECT agent_id, COUNT(*) FROM permits WHERE answered_boot_us <= :edge GROUP BY agent_id"

EXPIRE = "DELETE FROM permits WHERE answered_boot_us <= :edge"

# What still counts, for a limiter that has lost it.
IN_WINDOW = "SELECT agent_id, id, answered_boot_us, answered_at FROM permits ORDER BY id"

OLDEST_ANSWER = "SELECT MIN(answered_boot_us) FROM permits"

# Never shorter than it was: two reasons to count as full may overlap.
FILL = """
UPDATE rate_limit_bucket SET full_until_us = :until, full_reason = :reason WHERE COALESCE(full_until_us, 0) < :until
"""

# Passed: a later boot must not take it for its own.
UNFILL = "UPDATE rate_limit_bucket SET full_until_us = NULL, full_reason = NULL WHERE full_until_us <= :boot_us"

# Held before the permits are counted: a slot comes back in the transaction that deletes its permit.
BUCKETS = "SELECT agent_id, max_tokens, current_tokens FROM rate_limit_bucket ORDER BY agent_id"
PERMITS_BY_AGENT = "SELECT agent_id, COUNT(*) FROM permits GROUP BY agent_id"
SET_SLOTS = "UPDATE rate_limit_bucket SET current_tokens = ? WHERE agent_id = ?"


class SqlPermits(Repository):
    def reserve(
        self, grants: Sequence[Grant], task_ids: Sequence[TaskId | None], worker_id: WorkerId, at: Moment
    ) -> Sequence[Permit]:
        if not grants:
            return []
        rows = [grant.candidate.row for grant in grants]
        departures = {row: grant.depart_us for row, grant in zip(rows, grants, strict=True)}
        spent = Counter(rows)
        self._db.many(SPEND, [(spent[row], departure, row) for row, departure in departures.items()])
        stamp = (str(worker_id), at.now, at.boot_id)
        numbers = self._db.insert(
            RESERVE,
            [
                (grant.candidate.row, task_id, *stamp, grant.depart_us)
                for grant, task_id in zip(grants, task_ids, strict=True)
            ],
        )
        return [Permit(number, grant) for number, grant in zip(numbers, grants, strict=True)]

    def answer(self, numbers: Sequence[int], at: Moment) -> frozenset[int]:
        stamp = {"now": at.now, "boot_us": at.boot_us}
        unanswered = [int(r[0]) for r in self._db.hold(OPEN, numbers=numbers)]
        # All of them: one that was given up while it was on its way counts from when it really came back.
        self._db.run(ANSWER, stamp, numbers=numbers)
        return frozenset(unanswered)

    def answer_lapsed(self, beat_before: datetime, at: Moment) -> int:
        # Looked up first: an UPDATE that looks for them would hold everybody's on its way.
        given = {"forgotten": at.boot_us - FORGOTTEN_US, "beat_before": beat_before}
        lapsed = [int(r[0]) for r in self._db.rows(LAPSED, given)]
        return len(self.answer(lapsed, at)) if lapsed else 0

    def answer_all_of(self, worker_id: WorkerId, at: Moment) -> None:
        self._db.run(ANSWER_ALL, {"worker_id": worker_id, "now": at.now, "boot_us": at.boot_us})

    def answer_of(self, worker_id: WorkerId, task_ids: Sequence[TaskId], at: Moment) -> None:
        stamp = {"worker_id": worker_id, "now": at.now, "boot_us": at.boot_us}
        self._db.run(ANSWER_OF, stamp, task_ids=task_ids)

    def expire(self, at: Moment, limits: Limits) -> None:
        edge = {"edge": at.boot_us - limits.window_us}
        freed = self._db.rows(EXPIRED, edge)
        if freed:
            self._db.run(EXPIRE, edge)
            self._db.many(REFUND, [{"agent": agent, "number": number, "now": at.now} for agent, number in freed])
            self._db.run(UNFILL, {"boot_us": at.boot_us})

    def still_open(self, numbers: Sequence[int]) -> frozenset[int]:
        return frozenset(int(row[0]) for row in self._db.rows(OPEN, numbers=numbers))

    def unanswered(self) -> int:
        return int(self._db.value("SELECT COUNT(*) FROM permits WHERE answered_boot_us IS NULL"))


class SqlRequestWindows(Repository):
    def set_limits(self, limits: Limits, at: Moment) -> None:
        given = {"limit": limits.window_limit, "rate": limits.refill_rate, "window_us": limits.window_us}
        self._db.run(SET_LIMIT, given | {"boot_us": at.boot_us})

    def set_window_limit(self, limit: int) -> None:
        self._db.run(SET_WINDOW_LIMIT, {"limit": limit})

    def enter_boot(self, at: Moment, limits: Limits) -> int:
        stamp = {"boot_id": at.boot_id, "boot_us": at.boot_us, "now": at.now, "shared": SHARED}
        moved = self._db.run(ENTER_BOOT, stamp)
        self._db.run(ENTER_BOOT_BUCKETS, {"boot_id": at.boot_id, "window_us": at.boot_us + limits.window_us})
        return moved

    def next_free_us(self, limits: Limits) -> int | None:
        oldest = self._db.value(OLDEST_ANSWER)
        return None if oldest is None else oldest + limits.window_us

    def counted_permits(self) -> Sequence[CountedPermit]:
        return [CountedPermit(*row) for row in self._db.rows(IN_WINDOW)]

    def last_departure_us(self) -> int:
        # The buckets know the agents' departures, the permits also those of visits to the token page.
        buckets = self._db.value("SELECT MAX(last_departure_us) FROM rate_limit_bucket")
        return max(int(buckets or 0), int(self._db.value("SELECT MAX(boot_us) FROM permits") or 0))

    def highest(self) -> int:
        return self._db.highest("permits")

    def fill(self, at: Moment, limits: Limits, reason: FullReason) -> None:
        self._db.run(FILL, {"until": at.boot_us + limits.window_us, "reason": reason})

    def recount(self) -> Sequence[RecountedBucket]:
        buckets = self._db.hold(BUCKETS)
        used: dict[int, int] = dict(self._db.rows(PERMITS_BY_AGENT))
        counted = [(row, int(left), limit - used.get(row, 0)) for row, limit, left in buckets]
        wrong = [RecountedBucket(row, left, right) for row, left, right in counted if left != right]
        self._db.many(SET_SLOTS, [(each.after, each.agent_row) for each in wrong])
        return wrong
