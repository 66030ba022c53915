"""Leases of jobs in SQL: a job runs once, however many processes there are."""

from __future__ import annotations

from datetime import datetime

from sellerwatch.adapters.sql.statements import Repository

# Taken when free, lapsed, or ours already.
TAKE = """
UPDATE job_leases SET owner = :owner, lease_until = :until, last_started_at = :now
WHERE job = :job AND (owner IS NULL OR owner = :owner OR lease_until <= :now)
"""

# A job that was never taken. When two processes insert it, one succeeds.
FIRST = """
INSERT INTO job_leases (job, owner, lease_until, last_started_at) VALUES (:job, :owner, :until, :now)
ON CONFLICT (job) DO NOTHING
"""

FINISH = """
UPDATE job_leases SET owner = NULL, lease_until = NULL, last_error = :error,
    last_finished_at = CASE WHEN :error IS NULL THEN :now ELSE last_finished_at END
WHERE job = :job AND owner = :owner
"""

# When it last came to its end; one that failed did not.
LAST_FINISHED = "SELECT last_finished_at FROM job_leases WHERE job = :job"


class SqlLeases(Repository):
    def take(self, job: str, owner: str, until: datetime, now: datetime) -> bool:
        given = {"job": job, "owner": owner, "until": until, "now": now}
        return self._db.run(TAKE, given) == 1 or self._db.run(FIRST, given) == 1

    def finish(self, job: str, owner: str, now: datetime, error: str | None = None) -> None:
        cut = None if error is None else error[:2000]
        self._db.run(FINISH, {"job": job, "owner": owner, "now": now, "error": cut})

    def last_finished(self, job: str) -> datetime | None:
        found: datetime | None = self._db.value(LAST_FINISHED, {"job": job})
        return found
