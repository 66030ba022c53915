"""Executions and workers in SQL."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime

from sellerwatch.adapters.sql.columns import Columns
from sellerwatch.adapters.sql.paging import of_seller, read_page
from sellerwatch.adapters.sql.statements import AnyRow, Repository
from sellerwatch.crawling.execution import Execution, ExecutionStatus
from sellerwatch.crawling.ports import NoteKind, WorkerInfo
from sellerwatch.kernel.ids import ExecutionId, SellerId, TaskId, WorkerId
from sellerwatch.kernel.paging import Cursor, Page

TABLE = "crawling_schedule_executions"

EXECUTION = Columns[Execution](
    TABLE,
    same="execution_id schedule_id seller_id created_at status total_tasks_created completed_tasks failed_tasks"
    " list_total started_at completed_at deadline_at start_tries next_start_at started_by new_products changed_products"
    " gone_products unchanged_products refreshed_products progress_rate success_rate",
    other={
        # Unique: two triggers of one seller cannot both start a run. A refresh stands beside it.
        "open_seller_id": lambda execution: (
            execution.seller_id if execution.is_open and not execution.is_refresh else None
        ),
    },
    written="progress_rate success_rate open_seller_id",
    read_as={"status": ExecutionStatus},
    has_failure=True,
)
SELECT = EXECUTION.select
ADD = EXECUTION.insert()
SAVE = EXECUTION.update("execution_id", without="schedule_id seller_id created_at started_by refreshed_products")

STATUS = "SELECT status FROM crawling_schedule_executions WHERE execution_id = :id"

AT_WORK = f"""{SELECT} e WHERE status = 'RUNNING' AND NOT EXISTS (
    SELECT 1 FROM run_notes n WHERE n.execution_id = e.execution_id AND n.kind = 'paused') ORDER BY id"""

OF_RUN = "SELECT kind, name, number FROM run_notes WHERE execution_id = :execution_id"

ADD_NOTE = """
INSERT INTO run_notes (execution_id, kind, name, number) VALUES (:execution_id, :kind, :name, :number)
ON CONFLICT (execution_id, kind, name) DO UPDATE SET number = run_notes.number + excluded.number
"""

REMOVE_NOTE = "DELETE FROM run_notes WHERE execution_id = :execution_id AND kind = :kind AND name = :name"

RECHECKS = """SELECT n.name FROM crawling_schedule_executions e
JOIN run_notes n ON n.execution_id = e.execution_id AND n.kind = 'recheck' WHERE e.status = 'RUNNING'
ORDER BY e.id, n.name"""

PAUSED_WITHOUT_RECHECK = """SELECT e.execution_id FROM crawling_schedule_executions e WHERE e.status = 'RUNNING'
AND EXISTS (SELECT 1 FROM run_notes n WHERE n.execution_id = e.execution_id AND n.kind = 'paused')
AND EXISTS (SELECT 1 FROM run_notes n WHERE n.execution_id = e.execution_id AND n.kind = 'unread_task')
AND NOT EXISTS (SELECT 1 FROM run_notes n WHERE n.execution_id = e.execution_id AND n.kind = 'recheck') ORDER BY e.id"""

CLEAR_NOTES = "DELETE FROM run_notes WHERE execution_id = :execution_id AND kind = :kind"

ENTER = """
INSERT INTO workers (worker_id, role, host, pid, boot_id, started_at, heartbeat_at)
VALUES (:worker_id, :role, :host, :pid, '', :started_at, :heartbeat_at)
"""

BEAT = "UPDATE workers SET heartbeat_at = :now, stopped_at = NULL WHERE worker_id = :worker_id"

LEAVE = "UPDATE workers SET stopped_at = :now WHERE worker_id = :worker_id AND stopped_at IS NULL"

ALIVE = """
SELECT worker_id, role, host, pid, started_at, heartbeat_at FROM workers
WHERE stopped_at IS NULL AND heartbeat_at > :since ORDER BY id
"""

SILENT = "SELECT worker_id FROM workers WHERE stopped_at IS NULL AND heartbeat_at <= :beat_before"

BURY = """
UPDATE workers SET stopped_at = :now WHERE worker_id IN (:ids) AND stopped_at IS NULL AND heartbeat_at <= :beat_before
"""

# The former owner of a job no longer holds it.
LEASED = "SELECT job FROM job_leases WHERE owner IN (:ids)"
FREE = "UPDATE job_leases SET owner = NULL, lease_until = NULL WHERE job IN (:jobs) AND owner IN (:ids)"


class SqlExecutions(Repository):
    def add(self, execution: Execution) -> None:
        self._db.many(ADD.sql, [ADD.values(execution)])

    def save(self, execution: Execution) -> None:
        self._db.many(SAVE.sql, [SAVE.values(execution)])

    def get(self, execution_id: ExecutionId) -> Execution | None:
        row = self._db.hold_row(f"{SELECT} WHERE execution_id = :id", {"id": execution_id})
        return None if row is None else _execution(row)

    def hold(self, execution_ids: Collection[ExecutionId]) -> None:
        # One by one: a list would be looked for in whichever order the server finds cheapest.
        for execution_id in sorted(execution_ids) if self._db.shared else ():
            self._db.hold(STATUS, {"id": execution_id})

    def open_of(self, seller_id: SellerId) -> Execution | None:
        row = self._db.row(f"{SELECT} WHERE open_seller_id = :seller_id", {"seller_id": seller_id})
        return None if row is None else _execution(row)

    def pending(self) -> Sequence[Execution]:
        return [_execution(row) for row in self._db.rows(f"{SELECT} WHERE status = 'PENDING' ORDER BY id")]

    def running(self) -> Sequence[Execution]:
        return [_execution(row) for row in self._db.rows(f"{SELECT} WHERE status = 'RUNNING' ORDER BY id")]

    def at_work(self) -> Sequence[Execution]:
        return [_execution(row) for row in self._db.rows(AT_WORK)]


class SqlExecutionQueries(Repository):
    def newest(self, *, seller_id: SellerId | None, status: ExecutionStatus | None, limit: int) -> Sequence[Execution]:
        given = {"seller_id": seller_id, "status": status}
        where = " AND ".join(f"{name} = :{name}" for name, value in given.items() if value is not None)
        rows = self._db.rows(
            f"{SELECT} {f'WHERE {where}' if where else ''} ORDER BY id DESC LIMIT :limit", given | {"limit": limit}
        )
        return [_execution(row) for row in rows]

    def page(
        self, *, seller_id: SellerId | None, status: ExecutionStatus | None, cursor: Cursor | None, limit: int
    ) -> Page[Execution]:
        query = of_seller(TABLE, seller_id, status)
        return read_page(self._db, query, EXECUTION.select_rows, _execution, cursor=cursor, limit=limit)


class SqlRunNotes(Repository):
    def of(self, execution_id: ExecutionId) -> dict[NoteKind, dict[str, int]]:
        found: dict[NoteKind, dict[str, int]] = {kind: {} for kind in NoteKind}
        for kind, name, number in self._db.rows(OF_RUN, {"execution_id": execution_id}):
            found[NoteKind(kind)][name] = number
        return found

    def add(self, execution_id: ExecutionId, notes: Mapping[tuple[NoteKind, str], int]) -> None:
        self._db.many(
            ADD_NOTE,
            [
                {"execution_id": execution_id, "kind": kind, "name": name, "number": number}
                for (kind, name), number in notes.items()
            ],
        )

    def clear(self, execution_id: ExecutionId, kind: NoteKind) -> int:
        return self._db.run(CLEAR_NOTES, {"execution_id": execution_id, "kind": kind})

    def remove(self, execution_id: ExecutionId, notes: Collection[tuple[NoteKind, str]]) -> None:
        self._db.many(REMOVE_NOTE, [{"execution_id": execution_id, "kind": kind, "name": name} for kind, name in notes])

    def rechecks(self) -> Sequence[TaskId]:
        return [TaskId(row[0]) for row in self._db.rows(RECHECKS)]

    def paused_without_recheck(self) -> Sequence[ExecutionId]:
        return [ExecutionId(row[0]) for row in self._db.rows(PAUSED_WITHOUT_RECHECK)]


class SqlWorkers(Repository):
    def enter(self, worker: WorkerInfo) -> None:
        self._db.run(ENTER, asdict(worker))

    def beat(self, worker_id: WorkerId, now: datetime) -> None:
        self._db.run(BEAT, {"worker_id": worker_id, "now": now})

    def leave(self, worker_id: WorkerId, now: datetime) -> None:
        self._db.run(LEAVE, {"worker_id": worker_id, "now": now})

    def alive(self, beat_since: datetime) -> Sequence[WorkerInfo]:
        return [WorkerInfo(*row) for row in self._db.rows(ALIVE, {"since": beat_since})]

    def bury(self, beat_before: datetime, now: datetime) -> int:
        # Looked up first: an UPDATE that looks for them would wait for hearts that beat.
        silent = [row[0] for row in self._db.rows(SILENT, {"beat_before": beat_before})]
        if not silent:
            return 0
        buried = self._db.run(BURY, {"beat_before": beat_before, "now": now}, ids=silent)
        jobs = [row[0] for row in self._db.rows(LEASED, ids=silent)]
        if jobs:
            self._db.run(FREE, ids=silent, jobs=jobs)
        return buried


def _execution(row: AnyRow) -> Execution:
    return Execution(**EXECUTION.by_name(row))
