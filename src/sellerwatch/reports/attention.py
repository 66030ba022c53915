"""What needs a person: the findings of all checks, as sentences, with the actions that help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from sellerwatch.kernel.failure_view import FailureView
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About, View
from sellerwatch.kernel.wording import failure_text
from sellerwatch.reports.checks import AttentionKind, Finding, run_checks
from sellerwatch.reports.ports import ReportsTx
from sellerwatch.reports.service_state import CheckContext, ServiceState
from sellerwatch.reports.severity import Severity
from sellerwatch.texts import say

#: Sellers that are named.
MOST_SELLERS = 20


@dataclass(frozen=True)
class ActionView(View):
    """Something that helps: as a command, as a route of the API, and as a page of the console."""

    command: Annotated[str, About(example="sellerwatch outbox list --status FAILED")]
    route: Annotated[str, About(example="GET /api/v1/outbox?status=FAILED")]
    page: Annotated[str, About(example="/outbox?status=FAILED")]


@dataclass(frozen=True)
class AttentionView(View):
    """Something that needs a person, and how much of it."""

    kind: AttentionKind
    severity: Severity
    count: int
    sentence: Annotated[str, About("In the caller's language, without a full stop.")]
    actions: Annotated[Sequence[ActionView], About("What helps, the likeliest first.")]
    cause: Annotated[FailureView | None, About("Why, where that differs from case to case.")]
    seller_ids: Annotated[Sequence[str], About("The sellers it is about, at most 20.")]


@dataclass(frozen=True)
class AttentionListView(View):
    """Everything that needs a person: one entry for each cause, worst first."""

    content: Sequence[AttentionView]


def list_attention(tx: ReportsTx, context: OperationContext, check_context: CheckContext) -> AttentionListView:
    """List everything that needs a person, worst first."""
    return AttentionListView(attention(ServiceState(tx, context, check_context)))


def attention(look: ServiceState) -> list[AttentionView]:
    """Return an entry for each finding."""
    return [_entry(finding, look.context.language) for finding in run_checks(look)]


def _entry(finding: Finding, language: str) -> AttentionView:
    cause = "" if finding.cause is None else failure_text(finding.cause, language).rstrip(".")
    return AttentionView(
        kind=finding.kind,
        severity=finding.kind.severity,
        count=finding.count,
        sentence=say("attention", finding.kind, language, n=finding.count, cause=cause),
        actions=[ActionView(*each) for each in ACTIONS[finding.kind]],
        cause=FailureView.of(finding.cause),
        seller_ids=[str(seller_id) for seller_id in finding.seller_ids[:MOST_SELLERS]],
    )


_OUTBOX_STATUS = ("sellerwatch outbox status", "GET /api/v1/outbox/status", "/outbox")
_RESUME = ("sellerwatch marketplace resume", "POST /api/v1/marketplace/resume", "/#marketplace")
_MARKETPLACE = ("sellerwatch marketplace status", "GET /api/v1/marketplace/status", "/#marketplace")
_PLAN = ("sellerwatch plan", "GET /api/v1/plan", "/schedules")
_AGENTS = ("sellerwatch agents status", "GET /api/v1/user-agents/status", "/agents")

#: What helps with each kind: a command, a route, a page.
ACTIONS: Mapping[AttentionKind, Sequence[tuple[str, str, str]]] = {
    AttentionKind.DISK_FULL: [("sellerwatch db status", "GET /actuator/health", "/settings")],
    AttentionKind.UNSAFE_TO_EXPOSE: [("sellerwatch config check --deploy", "GET /api/v1/attention", "/settings")],
    AttentionKind.NO_WORKER: [("sellerwatch worker", "GET /actuator/health", "/settings")],
    AttentionKind.NO_SCHEDULER: [("sellerwatch scheduler", "GET /actuator/health", "/settings")],
    AttentionKind.RECEIVER_AWAY: [
        _OUTBOX_STATUS,
        ("sellerwatch outbox resume", "POST /api/v1/outbox/resume", "/outbox"),
    ],
    AttentionKind.REFUSED_SELLERS: [
        _OUTBOX_STATUS,
        ("sellerwatch outbox resume", "POST /api/v1/outbox/resume", "/outbox"),
    ],
    AttentionKind.ENDPOINTS_AWAY: [_MARKETPLACE],
    AttentionKind.POOL_BREAKER: [
        _AGENTS,
        ("sellerwatch agents recover", "POST /api/v1/agents/recover", "/agents"),
        ("sellerwatch agents add", "POST /api/v1/agents", "/agents"),
    ],
    AttentionKind.FAILED_EVENTS: [
        ("sellerwatch outbox list --status FAILED", "GET /api/v1/outbox?status=FAILED", "/outbox?status=FAILED"),
        ("sellerwatch outbox replay", "POST /api/v1/outbox/replay", "/outbox?status=FAILED"),
        ("sellerwatch outbox discard", "POST /api/v1/outbox/discard", "/outbox?status=FAILED"),
    ],
    AttentionKind.STUCK_EVENTS: [_OUTBOX_STATUS],
    AttentionKind.FAILED_SCHEDULES: [("sellerwatch schedules list", "GET /api/v1/schedules", "/schedules#failed")],
    AttentionKind.FAILING_STARTS: [
        ("sellerwatch executions list --status PENDING", "GET /api/v1/executions?status=PENDING", "/executions"),
        _MARKETPLACE,
    ],
    AttentionKind.FAILED_RUNS: [
        ("sellerwatch tasks list --status FAILED", "GET /api/v1/tasks?status=FAILED", "/tasks?status=FAILED"),
        ("sellerwatch tasks retry --all-failed", "POST /api/v1/tasks/retry", "/tasks?status=FAILED"),
    ],
    AttentionKind.DEAD_LETTERS: [
        ("sellerwatch tasks dead-letters", "GET /api/v1/tasks/dead-letters", "/dead-letters"),
        ("sellerwatch tasks redrive", "POST /api/v1/tasks/dead-letters/redrive", "/dead-letters"),
    ],
    AttentionKind.LOST_WORKERS: [
        ("sellerwatch tasks list --status FAILED", "GET /api/v1/tasks?status=FAILED", "/tasks?status=FAILED"),
        ("sellerwatch tasks retry --all-failed", "POST /api/v1/tasks/retry", "/tasks?status=FAILED"),
    ],
    AttentionKind.MARKETPLACE_PAUSED: [_RESUME],
    AttentionKind.OUTBOX_PAUSED: [("sellerwatch outbox resume", "POST /api/v1/outbox/resume", "/outbox")],
    AttentionKind.NO_RECEIVER: [("sellerwatch config check", "GET /api/v1/outbox/status", "/settings")],
    AttentionKind.SELLERS_PAUSED: [_MARKETPLACE, _RESUME],
    AttentionKind.PAUSED_RUNS: [
        ("sellerwatch quarantine list --status OPEN", "GET /api/v1/quarantine?status=OPEN", "/quarantine?status=OPEN"),
        (
            "sellerwatch executions list --status RUNNING",
            "GET /api/v1/executions?status=RUNNING",
            "/executions?status=RUNNING",
        ),
    ],
    AttentionKind.QUARANTINE_CASES: [
        ("sellerwatch quarantine list --status OPEN", "GET /api/v1/quarantine?status=OPEN", "/quarantine?status=OPEN"),
    ],
    AttentionKind.HELD_REMOVALS: [
        ("sellerwatch removals list --status HELD", "GET /api/v1/removals?status=HELD", "/removals?status=HELD"),
    ],
    AttentionKind.BUDGET_TOO_SMALL: [_PLAN, ("sellerwatch agents add", "POST /api/v1/agents", "/agents")],
    AttentionKind.LATE_SELLERS: [("sellerwatch sellers list", "GET /api/v1/sellers", "/sellers?fresh=late")],
    AttentionKind.OLD_BACKUP: [("sellerwatch db backup FILE", "GET /api/v1/status", "/settings")],
    AttentionKind.BLOCKED_AGENTS: [
        (
            "sellerwatch agents list --status BLOCKED",
            "GET /api/v1/agents?status=BLOCKED",
            "/agents?status=BLOCKED",
        ),
        ("sellerwatch agents unblock", "POST /api/v1/agents/unblock", "/agents?status=BLOCKED"),
    ],
}
