"""Crawl tasks in SQL, which are also the embedded queue: a claim on this table is a receive."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any

from sellerwatch.adapters.sql.columns import Columns
from sellerwatch.adapters.sql.engine import time_of
from sellerwatch.adapters.sql.paging import PageQuery, read_page
from sellerwatch.adapters.sql.statements import AnyRow, Repository
from sellerwatch.crawling.ports import TaskAges, TaskFilter
from sellerwatch.crawling.task import OPEN_STATES, READY_STATES, Purpose, Task, TaskStatus, TaskType
from sellerwatch.kernel.failure import Failure, failure_columns
from sellerwatch.kernel.ids import ExecutionId, ItemNo, SellerId, TaskId, WorkerId
from sellerwatch.kernel.paging import Cursor, Page

# Looked up in a dictionary, an enumeration's member costs a tenth of calling the class.
_TYPES = {str(each): each for each in TaskType}
_PURPOSES = {str(each): each for each in Purpose}
_STATUSES = {str(each): each for each in TaskStatus}

TASK = Columns[Task](
    "crawler_tasks",
    same="task_id execution_id seller_id task_type request_url created_at available_at purpose item_no page_no status"
    " retry_count published_at started_at completed_at publish_count attempt worker_id lost_leases requests_made note",
    named={"agent_id": "agent_row"},
    read_as={
        "task_type": _TYPES.__getitem__,
        "purpose": _PURPOSES.__getitem__,
        "status": _STATUSES.__getitem__,
    },
    has_failure=True,
)
SELECT = TASK.select

# A product has one task of a type in a run, however often it stands on the list.
ADD = TASK.insert(also="updated_at")
ADD_ONCE = f"{ADD.sql} ON CONFLICT (execution_id, item_no, task_type) DO NOTHING"

SAVE = TASK.update(
    "task_id",
    without="execution_id seller_id task_type request_url created_at purpose item_no page_no",
    also="updated_at",
)

# Taken by a worker: nothing else about a task changes then. Those that are taken alike, in one statement.
START = """
UPDATE crawler_tasks SET status = :status, published_at = :published_at, started_at = :now,
    publish_count = :publish_count, attempt = :attempt, worker_id = :worker_id, requests_made = :requests_made,
    agent_id = :agent_row, updated_at = :now
WHERE task_id IN (:task_ids)
"""

# Over, for better or worse: those that ended alike, in one statement.
END = """
UPDATE crawler_tasks SET status = :status, failure_code = :failure_code, failure_blame = :failure_blame,
    failure_facts = :failure_facts, failure_at = :failure_at, note = :note, completed_at = :now, worker_id = NULL,
    lost_leases = :lost_leases, updated_at = :now
WHERE task_id IN (:task_ids)
"""

# The CASE leaves but one index to go by: by the state's, others' tasks would be held too, and waited for.
ATTEMPTS_HELD = """SELECT task_id, attempt FROM crawler_tasks
WHERE task_id IN (:ids) AND CASE status WHEN 'IN_PROGRESS' THEN worker_id END = :worker_id"""

# On SQLite the index of a run's tasks by state has no completed ones; it serves a statement that leaves them out too.
NOT_COMPLETED = "status <> 'COMPLETED'"

# What one run has to do now, in the order of the index, so that no row is locked that is not taken.
READY = f"""{SELECT} WHERE execution_id = :execution_id AND status = :status AND {NOT_COMPLETED}
AND available_at <= :now ORDER BY available_at, id LIMIT :limit"""

# The same while some endpoints are not asked.
READY_OF_TYPES = f"""{SELECT} WHERE execution_id = :execution_id AND status = :status AND {NOT_COMPLETED}
AND available_at <= :now AND task_type IN (:types) ORDER BY available_at, id LIMIT :limit"""

NEXT_READY = f"""SELECT MIN(available_at) FROM crawler_tasks
WHERE execution_id = :execution_id AND status = :status AND {NOT_COMPLETED}"""

NEXT_READY_OF_TYPES = f"{NEXT_READY} AND task_type IN (:types)"

# Published tasks that no worker has taken; few, however many tasks there are.
COUNT_PUBLISHED = f"""SELECT COUNT(*) FROM crawler_tasks
WHERE execution_id = :execution_id AND status = 'PUBLISHED' AND {NOT_COMPLETED}"""

PUBLISHED_BEFORE = f"{SELECT} WHERE status = 'PUBLISHED' AND published_at <= :time LIMIT :limit"

# The other tasks of these products: an event is due when none is open any more.
OPEN_ITEMS = """
SELECT item_no, COUNT(*) FROM crawler_tasks
WHERE execution_id = :execution_id AND item_no IN (:items) AND status IN (:states) GROUP BY item_no
"""

COUNT_LISTS = """SELECT COUNT(*) FROM crawler_tasks
WHERE execution_id = :execution_id AND item_no IS NULL AND task_type = 'MINISHOP'"""

COUNT_OPEN_LISTS = f"{COUNT_LISTS} AND status IN (:states)"

# Pages that were to be read and that no task of the run has read.
UNREAD_PAGES = """SELECT COUNT(DISTINCT page_no) FROM crawler_tasks f
WHERE execution_id = :execution_id AND item_no IS NULL AND task_type = 'MINISHOP' AND NOT EXISTS (
    SELECT 1 FROM crawler_tasks c WHERE c.execution_id = f.execution_id AND c.item_no IS NULL
        AND c.task_type = 'MINISHOP' AND c.page_no = f.page_no AND c.status = 'COMPLETED')"""

# Tasks whose worker is gone or silent.
HELD_BY_LAPSED = f"""{SELECT} WHERE status = 'IN_PROGRESS' AND worker_id NOT IN (
    SELECT worker_id FROM workers WHERE stopped_at IS NULL AND heartbeat_at > :beat_before)"""

# Told to the queue by somebody silent: perhaps never sent.
PUBLISHED_BY_LAPSED = f"""{SELECT} WHERE status = 'PUBLISHED' AND worker_id IN (
    SELECT worker_id FROM workers WHERE stopped_at IS NULL AND heartbeat_at <= :beat_before)"""

# What went wrong in a run, most frequent first.
FAILURES = f"""SELECT failure_code, failure_blame, failure_facts, MAX(failure_at), COUNT(*) FROM crawler_tasks
WHERE execution_id = :execution_id AND status = 'FAILED' AND {NOT_COMPLETED} AND failure_code IS NOT NULL
GROUP BY failure_code, failure_blame, failure_facts ORDER BY COUNT(*) DESC, failure_code, failure_facts LIMIT :limit"""


TALLY = """SELECT task_type, status, COUNT(*) FROM crawler_tasks WHERE execution_id = :execution_id
GROUP BY task_type, status"""


COUNT = "SELECT seller_id, task_type, COUNT(*) FROM crawler_tasks"


class SqlTasks(Repository):
    def add(self, tasks: Iterable[Task]) -> int:
        return self._db.many(ADD_ONCE, [ADD.values(task, task.created_at) for task in tasks])

    def get(self, task_id: TaskId) -> Task | None:
        row = self._db.hold_row(f"{SELECT} WHERE task_id = :task_id", {"task_id": task_id})
        return None if row is None else task_of(row)

    def hold(self, tasks: Sequence[Task]) -> Sequence[Task]:
        if not self._db.shared or not tasks:
            return tasks
        rows = self._db.hold(f"{SELECT} WHERE task_id IN (:ids)", ids=[task.task_id for task in tasks])
        still = {task.task_id: task for task in map(task_of, rows)}
        return [task for task in tasks if still.get(task.task_id) == task]

    def get_many(self, task_ids: Sequence[TaskId]) -> dict[TaskId, Task]:
        rows = self._db.rows(f"{SELECT} WHERE task_id IN (:ids)", ids=task_ids)
        return {TaskId(row[0]): task_of(row) for row in rows}

    def take_many(self, task_ids: Sequence[TaskId]) -> dict[TaskId, Task]:
        rows = self._db.take(f"{SELECT} WHERE task_id IN (:ids)", ids=task_ids)
        return {TaskId(row[0]): task_of(row) for row in rows}

    def save(self, tasks: Iterable[Task], now: datetime) -> None:
        self._db.many(SAVE.sql, [SAVE.values(task, now) for task in tasks])

    def start(self, tasks: Iterable[Task], now: datetime) -> None:
        names = ("status", "published_at", "publish_count", "attempt", "worker_id", "requests_made", "agent_row")
        self._move_alike(START, names, tasks, now)

    def end(self, tasks: Iterable[Task], now: datetime) -> None:
        alike = defaultdict[tuple[TaskStatus, Failure | None, str | None, int], list[TaskId]](list)
        for task in tasks:
            alike[task.status, task.failure, task.note, task.lost_leases].append(task.task_id)
        for (status, failure, note, lost_leases), task_ids in alike.items():
            self._end(status, failure, note, lost_leases, task_ids, now)

    def complete(self, tasks: Sequence[Task], now: datetime) -> None:
        if tasks:
            # All alike, so one stands for them.
            done = tasks[0].complete(now)
            self._end(done.status, None, None, done.lost_leases, [task.task_id for task in tasks], now)

    def _end(
        self,
        status: TaskStatus,
        failure: Failure | None,
        note: str | None,
        lost_leases: int,
        task_ids: Sequence[TaskId],
        now: datetime,
    ) -> None:
        code, blame, facts, at = failure_columns(failure)
        given = {"failure_code": code, "failure_blame": blame, "failure_facts": facts, "failure_at": at, "note": note}
        self._db.run(END, {**given, "status": status, "lost_leases": lost_leases, "now": now}, task_ids=task_ids)

    def _move_alike(self, sql: str, names: tuple[str, ...], tasks: Iterable[Task], now: datetime) -> None:
        """Run the statement once for all tasks with equal values of these columns."""
        values, alike = attrgetter(*names), defaultdict[tuple[Any, ...], list[TaskId]](list)
        for task in tasks:
            alike[values(task)].append(task.task_id)
        for given, task_ids in alike.items():
            self._db.run(sql, {**dict(zip(names, given, strict=True)), "now": now}, task_ids=task_ids)


class SqlTaskQueries(Repository):
    def newest(
        self,
        *,
        execution_id: ExecutionId | None,
        seller_id: SellerId | None,
        status: TaskStatus | None,
        limit: int,
    ) -> Sequence[Task]:
        given = {"execution_id": execution_id, "seller_id": seller_id, "status": status}
        where = " AND ".join(f"{name} = :{name}" for name, value in given.items() if value is not None)
        # Of all tasks there are, the inner id alone gives the order: no index begins with created_at.
        ordered = f"WHERE {where} ORDER BY created_at DESC, id DESC" if where else "ORDER BY id DESC"
        rows = self._db.rows(
            f"{SELECT} {ordered} LIMIT :limit",
            given | {"limit": limit},
        )
        return [task_of(row) for row in rows]

    def page(self, choice: TaskFilter, cursor: Cursor | None, limit: int) -> Page[Task]:
        return read_page(self._db, _page_query(choice), TASK.select_rows, task_of, cursor=cursor, limit=limit)

    def count(self, choice: TaskFilter) -> Mapping[tuple[SellerId, TaskType], int]:
        given = vars(choice)
        where = " AND ".join(f"{name} = :{name}" for name, value in given.items() if value is not None)
        rows = self._db.rows(f"{COUNT} {f'WHERE {where}' if where else ''} GROUP BY seller_id, task_type", given)
        return {(SellerId(row[0]), TaskType(row[1])): row[2] for row in rows}

    def ages(self, since: Sequence[datetime]) -> Mapping[TaskStatus, TaskAges]:
        younger = ", ".join(f"SUM(created_at > :since{n})" for n in range(len(since)))
        given = {f"since{n}": at for n, at in enumerate(since)}
        rows = self._db.rows(
            f"SELECT status, COUNT(*), MIN(created_at), {younger} FROM crawler_tasks GROUP BY status", given
        )
        return {TaskStatus(row[0]): TaskAges(row[1], time_of(row[2]), tuple(map(int, row[3:]))) for row in rows}


class SqlRunTasks(Repository):
    def open_of(self, execution_id: ExecutionId, statuses: Sequence[TaskStatus]) -> Sequence[Task]:
        indexed = "" if TaskStatus.COMPLETED in statuses else f" AND {NOT_COMPLETED}"
        sql = f"{SELECT} WHERE execution_id = :execution_id AND status IN (:statuses){indexed}"
        rows = self._db.hold(sql, {"execution_id": execution_id}, statuses=statuses)
        return [task_of(row) for row in rows]

    def open_items(self, execution_id: ExecutionId, items: Sequence[ItemNo]) -> dict[ItemNo, int]:
        rows = self._db.rows(OPEN_ITEMS, {"execution_id": execution_id}, items=items, states=OPEN_STATES)
        return {ItemNo(item): number for item, number in rows}

    def count_lists(self, execution_id: ExecutionId, *, is_open: bool = False) -> int:
        if is_open:
            return int(self._db.rows(COUNT_OPEN_LISTS, {"execution_id": execution_id}, states=OPEN_STATES)[0][0])
        return int(self._db.value(COUNT_LISTS, {"execution_id": execution_id}))

    def unread_pages(self, execution_id: ExecutionId) -> int:
        return int(self._db.value(UNREAD_PAGES, {"execution_id": execution_id}))

    def failures(self, execution_id: ExecutionId, limit: int) -> Sequence[tuple[Failure, int]]:
        rows = self._db.rows(FAILURES, {"execution_id": execution_id, "limit": limit})
        found = ((Failure.stored(row[0], row[1], row[2], time_of(row[3])), row[4]) for row in rows)
        return [(failure, number) for failure, number in found if failure is not None]

    def tally(self, execution_id: ExecutionId) -> dict[tuple[str, str], int]:
        return {(row[0], row[1]): row[2] for row in self._db.rows(TALLY, {"execution_id": execution_id})}


class SqlTaskClaims(Repository):
    def attempts_held(self, worker_id: WorkerId, task_ids: Sequence[TaskId]) -> dict[TaskId, int]:
        rows = self._db.hold(ATTEMPTS_HELD, {"worker_id": worker_id}, ids=task_ids)
        return {TaskId(row[0]): row[1] for row in rows}

    def ready(
        self,
        execution_id: ExecutionId,
        now: datetime,
        limit: int,
        states: Sequence[TaskStatus] = READY_STATES,
        types: Sequence[TaskType] | None = None,
    ) -> Sequence[Task]:
        found: list[Task] = []
        for status in states:
            if len(found) < limit:
                params = {"execution_id": execution_id, "status": status, "now": now, "limit": limit - len(found)}
                rows = (
                    self._db.take(READY, params)
                    if types is None
                    else self._db.take(READY_OF_TYPES, params, types=types)
                )
                found += [task_of(row) for row in rows]
        return found

    def next_ready(self, execution_id: ExecutionId, types: Sequence[TaskType] | None = None) -> datetime | None:
        given = {"execution_id": execution_id}
        if types is None:
            found = [self._db.value(NEXT_READY, given | {"status": status}) for status in READY_STATES]
        elif types:
            states = [given | {"status": status} for status in READY_STATES]
            found = [self._db.rows(NEXT_READY_OF_TYPES, state, types=types)[0][0] for state in states]
        else:
            found = []
        times = [time_of(time) for time in found]
        return min((time for time in times if time is not None), default=None)

    def count_published(self, execution_id: ExecutionId) -> int:
        return int(self._db.value(COUNT_PUBLISHED, {"execution_id": execution_id}))

    def published_before(self, time: datetime, limit: int) -> Sequence[Task]:
        return [task_of(row) for row in self._db.rows(PUBLISHED_BEFORE, {"time": time, "limit": limit})]

    def published_by_lapsed(self, beat_before: datetime) -> Sequence[Task]:
        return [task_of(row) for row in self._db.rows(PUBLISHED_BY_LAPSED, {"beat_before": beat_before})]

    def held_by_lapsed(self, beat_before: datetime) -> Sequence[Task]:
        return [task_of(row) for row in self._db.rows(HELD_BY_LAPSED, {"beat_before": beat_before})]

    def held_by(self, worker_id: WorkerId) -> Sequence[Task]:
        where = "WHERE status = 'IN_PROGRESS' AND worker_id = :worker_id"
        return [task_of(row) for row in self._db.rows(f"{SELECT} {where}", {"worker_id": worker_id})]


def _page_query(choice: TaskFilter) -> PageQuery:
    """Return the query for a page of tasks. A run has its own index, whose few rows are sorted; a seller and a status
    have ordered ones."""
    given = vars(choice)
    asked = {name: f"w.{name} = :{name}" for name, value in given.items() if value is not None}
    only = {"task_type": asked.pop("task_type")} if choice.task_type is not None else {}
    if choice.execution_id is not None:
        if choice.status not in (None, TaskStatus.COMPLETED):
            asked["status"] += f" AND w.{NOT_COMPLETED}"
        if choice.seller_id is not None:
            only["seller_id"] = asked.pop("seller_id")
        return PageQuery("crawler_tasks", given, [*asked.values()], only)
    if choice.seller_id is not None and choice.status is not None:
        # Held against the seller's own index: a state's rows are those of all sellers.
        asked["status"] = f"+{asked['status']}"
    return PageQuery("crawler_tasks", given, [*asked.values()], only, by_time=bool(asked))


def task_of(row: AnyRow) -> Task:
    values = TASK.by_name(row)
    values["is_final"] = values["status"] is TaskStatus.FAILED
    return Task(**values)
