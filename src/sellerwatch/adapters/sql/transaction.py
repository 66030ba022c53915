"""The transaction that `work(tx)` gets: its tables, each as a repository."""

from __future__ import annotations

from functools import cached_property

from sqlalchemy import Connection

from sellerwatch.adapters.sql.activity import SqlActivity
from sellerwatch.adapters.sql.agents import SqlAgents, SqlRemovedAgents, SqlUsageLog
from sellerwatch.adapters.sql.audit import SqlAuditTrail
from sellerwatch.adapters.sql.channels import SqlAttempts, SqlChannels
from sellerwatch.adapters.sql.circuits import SqlCircuits
from sellerwatch.adapters.sql.counts import SqlCounts
from sellerwatch.adapters.sql.dashboard import SqlDashboard
from sellerwatch.adapters.sql.delivery_queue import SqlDeliveryQueue
from sellerwatch.adapters.sql.due_times import SqlDueTimes
from sellerwatch.adapters.sql.executions import SqlExecutionQueries, SqlExecutions, SqlRunNotes, SqlWorkers
from sellerwatch.adapters.sql.history import SqlHistory
from sellerwatch.adapters.sql.idempotency_keys import SqlIdempotencyKeys
from sellerwatch.adapters.sql.leases import SqlLeases
from sellerwatch.adapters.sql.marketplace import SqlMarketplaceState
from sellerwatch.adapters.sql.outbox import SqlOutbox
from sellerwatch.adapters.sql.outbox_queries import SqlOutboxQueries
from sellerwatch.adapters.sql.overrides import SqlOverrides
from sellerwatch.adapters.sql.permits import SqlPermits, SqlRequestWindows
from sellerwatch.adapters.sql.pool_report import SqlPoolReport
from sellerwatch.adapters.sql.products import SqlProductBodies, SqlProductQueries, SqlProducts
from sellerwatch.adapters.sql.quarantine import SqlDrift, SqlHeldParts, SqlQuarantine, SqlRemovals
from sellerwatch.adapters.sql.sellers import SqlSchedules, SqlSellers
from sellerwatch.adapters.sql.statements import open_db
from sellerwatch.adapters.sql.tasks import SqlRunTasks, SqlTaskClaims, SqlTaskQueries, SqlTasks
from sellerwatch.adapters.sql.tokens import SqlTokens
from sellerwatch.adapters.sql.users import SqlLogins, SqlUsers
from sellerwatch.outbox.message import OutboxKind


class Transaction:
    """Repositories are created on first use: most transactions need few of them."""

    def __init__(self, connection: Connection) -> None:
        self.db = open_db(connection)

    @cached_property
    def sellers(self) -> SqlSellers:
        return SqlSellers(self.db)

    @cached_property
    def schedules(self) -> SqlSchedules:
        return SqlSchedules(self.db)

    @cached_property
    def executions(self) -> SqlExecutions:
        return SqlExecutions(self.db)

    @cached_property
    def execution_queries(self) -> SqlExecutionQueries:
        return SqlExecutionQueries(self.db)

    @cached_property
    def run_notes(self) -> SqlRunNotes:
        return SqlRunNotes(self.db)

    @cached_property
    def history(self) -> SqlHistory:
        return SqlHistory(self.db)

    @cached_property
    def quarantine(self) -> SqlQuarantine:
        return SqlQuarantine(self.db)

    @cached_property
    def held_parts(self) -> SqlHeldParts:
        return SqlHeldParts(self.db)

    @cached_property
    def removals(self) -> SqlRemovals:
        return SqlRemovals(self.db)

    @cached_property
    def drift(self) -> SqlDrift:
        return SqlDrift(self.db)

    @cached_property
    def tasks(self) -> SqlTasks:
        return SqlTasks(self.db)

    @cached_property
    def task_queries(self) -> SqlTaskQueries:
        return SqlTaskQueries(self.db)

    @cached_property
    def run_tasks(self) -> SqlRunTasks:
        return SqlRunTasks(self.db)

    @cached_property
    def task_claims(self) -> SqlTaskClaims:
        return SqlTaskClaims(self.db)

    @cached_property
    def workers(self) -> SqlWorkers:
        return SqlWorkers(self.db)

    @cached_property
    def agents(self) -> SqlAgents:
        return SqlAgents(self.db)

    @cached_property
    def removed_agents(self) -> SqlRemovedAgents:
        return SqlRemovedAgents(self.db)

    @cached_property
    def usage_log(self) -> SqlUsageLog:
        return SqlUsageLog(self.db)

    @cached_property
    def tokens(self) -> SqlTokens:
        return SqlTokens(self.db)

    @cached_property
    def circuits(self) -> SqlCircuits:
        return SqlCircuits(self.db)

    @cached_property
    def marketplace(self) -> SqlMarketplaceState:
        return SqlMarketplaceState(self.db)

    @cached_property
    def dues(self) -> SqlDueTimes:
        return SqlDueTimes(self.db)

    @cached_property
    def leases(self) -> SqlLeases:
        return SqlLeases(self.db)

    @cached_property
    def overrides(self) -> SqlOverrides:
        return SqlOverrides(self.db)

    @cached_property
    def permits(self) -> SqlPermits:
        return SqlPermits(self.db)

    @cached_property
    def windows(self) -> SqlRequestWindows:
        return SqlRequestWindows(self.db)

    @cached_property
    def pool_report(self) -> SqlPoolReport:
        return SqlPoolReport(self.db)

    @cached_property
    def products(self) -> SqlProducts:
        return SqlProducts(self.db)

    @cached_property
    def product_queries(self) -> SqlProductQueries:
        return SqlProductQueries(self.db)

    @cached_property
    def bodies(self) -> SqlProductBodies:
        return SqlProductBodies(self.db)

    @cached_property
    def product_outbox(self) -> SqlOutbox:
        return SqlOutbox(self.db, OutboxKind.PRODUCT)

    @cached_property
    def scheduler_outbox(self) -> SqlOutbox:
        return SqlOutbox(self.db, OutboxKind.SCHEDULER)

    def outbox(self, kind: OutboxKind) -> SqlOutbox:
        return self.product_outbox if kind is OutboxKind.PRODUCT else self.scheduler_outbox

    def delivery_queue(self, kind: OutboxKind) -> SqlDeliveryQueue:
        return SqlDeliveryQueue(self.db, kind)

    def outbox_queries(self, kind: OutboxKind) -> SqlOutboxQueries:
        return SqlOutboxQueries(self.db, kind)

    @cached_property
    def channels(self) -> SqlChannels:
        return SqlChannels(self.db)

    @cached_property
    def attempts(self) -> SqlAttempts:
        return SqlAttempts(self.db)

    @cached_property
    def audit(self) -> SqlAuditTrail:
        return SqlAuditTrail(self.db)

    @cached_property
    def activity(self) -> SqlActivity:
        return SqlActivity(self.db)

    @cached_property
    def users(self) -> SqlUsers:
        return SqlUsers(self.db)

    @cached_property
    def logins(self) -> SqlLogins:
        return SqlLogins(self.db)

    @cached_property
    def idempotency_keys(self) -> SqlIdempotencyKeys:
        return SqlIdempotencyKeys(self.db)

    @cached_property
    def counts(self) -> SqlCounts:
        return SqlCounts(self.db)

    @cached_property
    def dashboard(self) -> SqlDashboard:
        return SqlDashboard(self.db)
