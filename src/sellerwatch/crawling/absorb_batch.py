"""The state of one transaction that absorbs a batch of results, thrown away with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

from sellerwatch.agents.breaker import BreakerRules
from sellerwatch.agents.marketplace_circuit import MarketplaceCircuitRules
from sellerwatch.catalog.absorb import EntryCache, ProductBatch
from sellerwatch.catalog.announce import Announcer
from sellerwatch.catalog.changes import FoundProducts
from sellerwatch.catalog.policies import NO_POLICIES, Policies
from sellerwatch.catalog.product import PartType
from sellerwatch.catalog.quarantine import CheckCounts, DriftRules
from sellerwatch.catalog.quarantine_check import CheckedRun, QuarantineCheck
from sellerwatch.catalog.removal import RemovalRules
from sellerwatch.crawling.execution import Execution
from sellerwatch.crawling.ports import CrawlTx, NoteKind
from sellerwatch.crawling.save_execution import record_progress, save_execution
from sellerwatch.crawling.task import Task
from sellerwatch.kernel.ids import ExecutionId, ItemNo, OutboxId, SellerId, TaskId
from sellerwatch.kernel.notices import Notice
from sellerwatch.marketplaces.ports import Marketplace
from sellerwatch.sellers.seller import SellerStatus


@dataclass(frozen=True)
class CrawlRules:
    """Rules for absorbing and for ending runs, from the settings."""

    marketplace: Marketplace
    page_size: int = 500
    max_list_total: int = 1_000_000
    #: How often a run that is paused by unreadable answers reads a few of them again.
    recheck_every: timedelta = timedelta(minutes=5)
    task_retries: int = 2
    breaker: BreakerRules = field(default_factory=BreakerRules)
    marketplace_circuit: MarketplaceCircuitRules = field(default_factory=MarketplaceCircuitRules)
    drift: DriftRules = field(default_factory=DriftRules)
    removal_rules: RemovalRules = field(default_factory=RemovalRules)
    policies: Policies = NO_POLICIES


@dataclass
class RunState(CheckedRun):
    """A run, with what the batch changes about it."""

    execution: Execution
    #: As it was in the database.
    loaded: Execution
    added: int = 0
    completed: int = 0
    failed: int = 0
    list_total: int | None = None
    a_list_ended: bool = False
    follow_ups: list[Task] = field(default_factory=list)
    #: Products with a task that has ended or a part that was taken in, and the number of their ended tasks.
    ended_items: dict[ItemNo, int] = field(default_factory=dict)
    foreign: dict[ItemNo, None] = field(default_factory=dict)
    proved: list[ItemNo] = field(default_factory=list)
    was_paused: bool = False
    #: Its seller was removed: answers in flight end their tasks, and nothing of them is taken in.
    is_of_archived: bool = False
    #: The problem for which it is paused now, as a note keeps it, and the number of its answers.
    paused: tuple[str, int] | None = None
    #: Tasks that failed because their answer could not be read, each with the kind of problem.
    unread: dict[TaskId, str] = field(default_factory=dict)
    #: Those of them that are read again although the run is paused.
    rechecks: dict[TaskId, None] = field(default_factory=dict)
    #: Kinds of problem that are over, because a re-check could read an answer.
    readable: dict[str, None] = field(default_factory=dict)
    _noted: dict[tuple[NoteKind, str], int] = field(default_factory=dict)
    _erased: dict[tuple[NoteKind, str], None] = field(default_factory=dict)

    def note_unread(self, task_id: TaskId, problem: str) -> None:
        self.forget_unread(task_id)
        self.unread[task_id] = problem
        self._note(NoteKind.UNREAD_TASK, f"{task_id} {problem}")

    def note_recheck(self, task_id: TaskId) -> None:
        self.rechecks[task_id] = None
        self._note(NoteKind.RECHECK, task_id)

    def forget_unread(self, task_id: TaskId) -> str | None:
        """Forget that the answer of a task could not be read; return what was wrong with it."""
        self.end_recheck(task_id)
        problem = self.unread.pop(task_id, None)
        if problem is not None:
            self._erase(NoteKind.UNREAD_TASK, f"{task_id} {problem}")
        return problem

    def end_recheck(self, task_id: TaskId) -> None:
        if task_id in self.rechecks:
            del self.rechecks[task_id]
            self._erase(NoteKind.RECHECK, task_id)

    def read_well(self, task_id: TaskId) -> None:
        """Note that the answer of a task was read. After a re-check, its kind of problem is over."""
        is_recheck = task_id in self.rechecks
        problem = self.forget_unread(task_id)
        if is_recheck and problem is not None:
            self.readable[problem] = None

    def forget_problem(self, problem: str) -> None:
        self.tally.forget_unreadable(problem)
        self._erase(NoteKind.UNREADABLE, problem)

    def note_taken_in(self, items: Iterable[ItemNo]) -> None:
        """Note products that had a held part taken in: their events may be due."""
        for item in items:
            self.ended_items.setdefault(item, 0)

    def go_on(self) -> None:
        """End the pause."""
        self.was_paused, self.paused = False, None

    def _note(self, kind: NoteKind, name: str) -> None:
        self._erased.pop((kind, name), None)
        self._noted[kind, name] = 1

    def _erase(self, kind: NoteKind, name: str) -> None:
        self._noted.pop((kind, name), None)
        self._erased[kind, name] = None

    @property
    def is_paused(self) -> bool:
        return self.was_paused or self.paused is not None

    @property
    def is_over(self) -> bool:
        """Whether it was ended from outside: results in flight are absorbed, but no task is added or retried."""
        return not self.execution.is_open

    @property
    def ends(self) -> bool:
        """Whether no task is left, the changes of this batch included."""
        return self.execution.would_end(added=self.added, completed=self.completed, failed=self.failed)

    def erased_notes(self) -> list[tuple[NoteKind, str]]:
        return list(self._erased)

    def written_notes(self) -> dict[tuple[NoteKind, str], int]:
        notes = self._noted | {(NoteKind(kind), name): number for (kind, name), number in self.tally.added.items()}
        notes |= {(NoteKind.FOREIGN, str(item)): 1 for item in self.foreign}
        return notes | ({(NoteKind.PAUSED, self.paused[0]): self.paused[1]} if self.paused else {})


@dataclass
class AbsorbBatch:
    """What a batch has read and changed, until it is written."""

    tx: CrawlTx
    rules: CrawlRules
    ids: Iterator[str]
    now: datetime
    product_batch: ProductBatch
    runs: dict[ExecutionId, RunState]
    tasks: list[Task] = field(default_factory=list)
    #: As they were claimed: nothing else about them changes, so no copy is made.
    completed: list[Task] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    again: int = 0
    events: int = 0
    products: int = 0

    @classmethod
    def begin(
        cls,
        tx: CrawlTx,
        rules: CrawlRules,
        ids: Iterator[str],
        now: datetime,
        runs: Iterable[ExecutionId],
        items: Iterable[ItemNo],
        entries: EntryCache | None = None,
    ) -> AbsorbBatch:
        # The runs first: they are locked, so that one process at a time absorbs for a run.
        loaded = {run.execution.execution_id: run for run in _load(tx, runs)}
        product_batch = ProductBatch(tx.products.of_items(list(dict.fromkeys(items))), entries=entries or EntryCache())
        return cls(tx, rules, ids, now, product_batch, loaded)

    def fetch_bodies(self, items: Sequence[ItemNo]) -> None:
        """Load the stored bodies of the parts of these products that this batch has not read itself."""
        products, product_batch = self.product_batch.products, self.product_batch
        for item in items:
            product_batch.recall(item)
        stored = {product_id: dict(bodies) for product_id, bodies in product_batch.stored.items()}
        for part in PartType:
            lacking = [products[item].product_id for item in items if (item, part) not in product_batch.normalized]
            wanted = [product_id for product_id in lacking if part not in stored.get(product_id, ())]
            for product_id, bodies in self.tx.bodies.latest_raws(wanted, part).items():
                stored.setdefault(product_id, {}).update(bodies)
        product_batch.stored = stored

    @cached_property
    def announcer(self) -> Announcer:
        tx, rules = self.tx, self.rules
        return Announcer(
            self.product_batch,
            tx.bodies,
            tx.product_outbox,
            tx.history,
            tx.backups,
            rules.marketplace,
            self.now,
            rules.policies,
        )

    @cached_property
    def quarantine_check(self) -> QuarantineCheck:
        rules = self.rules
        return QuarantineCheck(
            self.product_batch, self.tx, rules.marketplace, rules.drift, self.ids, self.now, self.notices
        )

    def announce(self, item: ItemNo, execution_id: ExecutionId | None) -> None:
        outbox_id = OutboxId(next(self.ids))
        self.events += self.announcer.announce(self.product_batch.products[item], outbox_id, execution_id) is not None

    def announce_removal(self, item: ItemNo, execution_id: ExecutionId | None) -> None:
        self.announcer.announce_removal(self.product_batch.products[item], OutboxId(next(self.ids)), execution_id)
        self.events += 1

    def archive(self, item: ItemNo) -> None:
        """Delete a product without an event."""
        self.product_batch.put(self.product_batch.products[item].archive(self.now))
        self.product_batch.deleted.append(item)

    def announce_snapshot(self, item: ItemNo) -> None:
        self.announcer.announce_snapshot(self.product_batch.products[item], OutboxId(next(self.ids)))
        self.events += 1

    def write_products(self) -> None:
        """Write the products, so that later queries of this transaction find them."""
        tx, product_batch = self.tx, self.product_batch
        added, changed, listed = product_batch.take_products()
        tx.products.add(added)
        tx.products.save(changed)
        tx.products.note_listed(listed)
        self.products += len(added)

    def write(self) -> None:
        """Write everything that is not written yet."""
        tx, product_batch = self.tx, self.product_batch
        self.write_products()
        for (part, at), items in product_batch.read.items():
            tx.read_times.note(part, items, at)
        tx.bodies.keep_raw(product_batch.raws)
        tx.bodies.keep_body_hashes(product_batch.body_hashes)
        tx.history.add(product_batch.history)
        tx.product_outbox.add_all(product_batch.take_messages())
        if product_batch.deleted:
            tx.bodies.forget_body_hashes(product_batch.deleted)
            tx.held_parts.free([(item, part) for item in product_batch.deleted for part in PartType])
        for run in self.runs.values():
            erased, notes = run.erased_notes(), run.written_notes()
            if erased:
                tx.run_notes.remove(run.execution.execution_id, erased)
            if notes:
                tx.run_notes.add(run.execution.execution_id, notes)
            execution = run.execution
            saved = execution.record(self.now, added=run.added, completed=run.completed, failed=run.failed)
            if not saved.is_open and (run.ends or product_batch.history):
                saved = saved.count_products(_found(tx, saved))
            save_execution(tx, run.loaded, saved)
            record_progress(tx, saved, self.now)


def _found(tx: CrawlTx, run: Execution) -> FoundProducts:
    return tx.changes.found_by(run.execution_id, run.seller_id, run.started_at or run.created_at)


def _load(tx: CrawlTx, runs: Iterable[ExecutionId]) -> Iterator[RunState]:
    for execution_id in sorted(set(runs)):
        execution = tx.executions.get(execution_id)
        if execution is not None:
            notes = tx.run_notes.of(execution_id)
            tally = CheckCounts(
                judged={PartType(name): number for name, number in notes[NoteKind.JUDGED].items()},
                changed=notes[NoteKind.CHANGED],
                unreadable=notes[NoteKind.UNREADABLE],
            )
            cases = list(tx.quarantine.open_cases(execution.seller_id))
            yield RunState(
                execution.seller_id,
                execution_id,
                tally,
                cases,
                execution,
                loaded=execution,
                was_paused=bool(notes[NoteKind.PAUSED]),
                is_of_archived=not execution.is_open and _is_archived(tx, execution.seller_id),
                unread=dict(unread_task(name) for name in notes[NoteKind.UNREAD_TASK]),
                rechecks={TaskId(name): None for name in notes[NoteKind.RECHECK]},
            )


def _is_archived(tx: CrawlTx, seller_id: SellerId) -> bool:
    seller = tx.sellers.get(seller_id)
    return seller is None or seller.status is SellerStatus.ARCHIVED


def unread_task(note: str) -> tuple[TaskId, str]:
    task_id, _, problem = note.partition(" ")
    return TaskId(task_id), problem
