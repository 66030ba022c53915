"""The transaction that `work(tx)` gets: its tables, each as a repository."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

from sqlalchemy import Connection

from sellerwatch.adapters.sql.activity import SqlActivity
from sellerwatch.adapters.sql.agents import SqlAgents, SqlRemovedAgents, SqlUsageLog
from sellerwatch.adapters.sql.audit import SqlAuditTrail
from sellerwatch.adapters.sql.backups import SqlBackups
from sellerwatch.adapters.sql.changes import SqlChanges
from sellerwatch.adapters.sql.channels import SqlAttempts, SqlChannels, SqlSellerCircuits
from sellerwatch.adapters.sql.circuits import SqlCircuits
from sellerwatch.adapters.sql.counts import SqlCounts
from sellerwatch.adapters.sql.dashboard import SqlDashboard
from sellerwatch.adapters.sql.day_metrics import SqlDayRows, SqlKeptDays
from sellerwatch.adapters.sql.delivery_queue import SqlDeliveryQueue
from sellerwatch.adapters.sql.deltas import Deltas
from sellerwatch.adapters.sql.due_times import SqlDueTimes
from sellerwatch.adapters.sql.executions import SqlExecutionQueries, SqlExecutions, SqlRunNotes, SqlWorkers
from sellerwatch.adapters.sql.freshness import SqlFreshness, SqlLateness
from sellerwatch.adapters.sql.history import SqlHistory
from sellerwatch.adapters.sql.idempotency_keys import SqlIdempotencyKeys
from sellerwatch.adapters.sql.invariants import SqlInvariants
from sellerwatch.adapters.sql.leases import SqlLeases
from sellerwatch.adapters.sql.login_sessions import SqlApiTokens, SqlLoginSessions
from sellerwatch.adapters.sql.marketplace import SqlMarketplaceState
from sellerwatch.adapters.sql.old_rows import SqlOldRows
from sellerwatch.adapters.sql.outbox import SqlOutbox
from sellerwatch.adapters.sql.outbox_queries import SqlOutboxQueries
from sellerwatch.adapters.sql.overrides import SqlOverrides
from sellerwatch.adapters.sql.permits import SqlPermits, SqlRequestWindows
from sellerwatch.adapters.sql.pool_report import SqlPoolReport
from sellerwatch.adapters.sql.products import SqlProductBodies, SqlProductQueries, SqlProducts, SqlReadTimes
from sellerwatch.adapters.sql.quarantine import SqlDrift, SqlHeldParts, SqlQuarantine, SqlRemovals
from sellerwatch.adapters.sql.resends import SqlResends, SqlResentEvents
from sellerwatch.adapters.sql.resyncs import SqlResyncs
from sellerwatch.adapters.sql.sellers import SqlSchedules, SqlSellers
from sellerwatch.adapters.sql.statements import Db, open_db
from sellerwatch.adapters.sql.tasks import SqlRunTasks, SqlTaskClaims, SqlTaskQueries, SqlTasks
from sellerwatch.adapters.sql.text_conversions import SqlTextConversions
from sellerwatch.adapters.sql.tokens import SqlTokens
from sellerwatch.adapters.sql.users import SqlLogins, SqlUsers
from sellerwatch.outbox.message import OutboxKind

T = TypeVar("T")


def table(repository: Callable[[Db], T]) -> cached_property[T]:
    """Return an attribute of a transaction: the repository, created on first use."""
    return cached_property(lambda tx: repository(tx.db))


class Transaction:
    """Repositories are created on first use: most transactions need few of them."""

    def __init__(self, connection: Connection) -> None:
        self.db = open_db(connection)

    sellers = table(SqlSellers)
    schedules = table(SqlSchedules)
    executions = table(SqlExecutions)
    execution_queries = table(SqlExecutionQueries)
    run_notes = table(SqlRunNotes)
    deltas = table(Deltas)
    history = cached_property(lambda tx: SqlHistory(tx.db, tx.deltas))
    changes = cached_property(lambda tx: SqlChanges(tx.db, tx.deltas))
    quarantine = table(SqlQuarantine)
    held_parts = table(SqlHeldParts)
    removals = table(SqlRemovals)
    drift = table(SqlDrift)
    resyncs = table(SqlResyncs)
    tasks = table(SqlTasks)
    task_queries = table(SqlTaskQueries)
    run_tasks = table(SqlRunTasks)
    task_claims = table(SqlTaskClaims)
    workers = table(SqlWorkers)
    agents = table(SqlAgents)
    removed_agents = table(SqlRemovedAgents)
    usage_log = table(SqlUsageLog)
    tokens = table(SqlTokens)
    circuits = table(SqlCircuits)
    marketplace = table(SqlMarketplaceState)
    dues = table(SqlDueTimes)
    leases = table(SqlLeases)
    overrides = table(SqlOverrides)
    permits = table(SqlPermits)
    windows = table(SqlRequestWindows)
    pool_report = table(SqlPoolReport)
    products = table(SqlProducts)
    read_times = table(SqlReadTimes)
    product_queries = table(SqlProductQueries)
    bodies = cached_property(lambda tx: SqlProductBodies(tx.db, tx.deltas))
    text_conversions = cached_property(lambda tx: SqlTextConversions(tx.db, tx.deltas))
    channels = table(SqlChannels)
    seller_circuits = table(SqlSellerCircuits)
    attempts = table(SqlAttempts)
    resends = table(SqlResends)
    resent_events = table(SqlResentEvents)
    audit = table(SqlAuditTrail)
    backups = table(SqlBackups)
    activity = table(SqlActivity)
    users = table(SqlUsers)
    logins = table(SqlLogins)
    login_sessions = table(SqlLoginSessions)
    api_tokens = table(SqlApiTokens)
    idempotency_keys = table(SqlIdempotencyKeys)
    counts = table(SqlCounts)
    dashboard = table(SqlDashboard)
    freshness = table(SqlFreshness)
    lateness = table(SqlLateness)
    day_rows = table(SqlDayRows)
    kept_days = table(SqlKeptDays)
    old_rows = table(SqlOldRows)
    invariants = table(SqlInvariants)
    product_outbox = cached_property(lambda tx: SqlOutbox(tx.db, OutboxKind.PRODUCT, tx.deltas))
    scheduler_outbox = cached_property(lambda tx: SqlOutbox(tx.db, OutboxKind.SCHEDULER, tx.deltas))

    def outbox(self, kind: OutboxKind) -> SqlOutbox:
        return self.product_outbox if kind is OutboxKind.PRODUCT else self.scheduler_outbox

    def delivery_queue(self, kind: OutboxKind) -> SqlDeliveryQueue:
        return SqlDeliveryQueue(self.db, kind, self.deltas)

    def outbox_queries(self, kind: OutboxKind) -> SqlOutboxQueries:
        return SqlOutboxQueries(self.db, kind, self.deltas)
