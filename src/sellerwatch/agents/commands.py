"""What people can do with agents, their tokens and the limits: each command is one transaction, and everything it
changes is on the audit trail. Nothing of a token is recorded there but its dates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, Any

from sellerwatch.agents.agent import LONGEST_REASON, NO_REASON, Agent, AgentExists, AgentName, AgentStatus
from sellerwatch.agents.circuit import Circuit, events_of
from sellerwatch.agents.limits import Limits, LimitSettings, PoolRules
from sellerwatch.agents.ports import PoolTx, Sealer, StoredAgent
from sellerwatch.agents.queries import AgentView, agent_view, find_agent, limits_in_force
from sellerwatch.agents.record_outcomes import status_notice
from sellerwatch.agents.token import InvalidToken
from sellerwatch.kernel.bulk import BulkResult, BulkResultView, handle_each, refused_views
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.errors import Conflict, Invalid
from sellerwatch.kernel.ids import UserAgentId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About, View, shared_fields
from sellerwatch.oversight.audit import AuditEntry, record_audit

#: A request that was under way when its agent was removed is answered within this time.
UNDER_WAY = timedelta(minutes=1)


@dataclass(eq=False)
class NoToken(Conflict):
    """An agent without a token has none to be thrown away."""

    agent: str


@dataclass(eq=False)
class RemovedLately(Conflict):
    """The same user agent was removed with requests in its window: a fresh budget would go over the limit."""

    again_at: str


@dataclass(eq=False)
class NotOverridden(Conflict):
    """A limit that was never changed at run time."""

    name: str


@dataclass(frozen=True)
class AddedAgentView(AgentView):
    dry_run: Annotated[bool, About("Nothing was added: the agent is shown as it would be.")]


@dataclass(frozen=True)
class ChangedAgentView(View):
    agent_id: str
    user_agent: str
    status: AgentStatus
    health_score: int
    suspended_until: datetime | None
    reason: str | None

    @classmethod
    def of(cls, agent: Agent) -> ChangedAgentView:
        return cls(agent_id=agent.user_agent_id, **shared_fields(cls, agent))


@dataclass(frozen=True)
class ChangedAgentsView(BulkResultView):
    """The result for several agents; `agents` are those that were changed, as they are now."""

    agents: Sequence[ChangedAgentView] = ()


@dataclass(frozen=True)
class RekeyedView(View):
    """`resealed` tokens got the key `keyId`, `current` had it already; no key opens those of `unopened`."""

    dry_run: bool
    key_id: str | None
    resealed: int
    current: int
    unopened: Sequence[str]


@dataclass(frozen=True)
class ChangedLimitView(View):
    """A limit before and after a change; null: not limited."""

    name: Annotated[str, About(example="WINDOW_LIMIT")]
    before: float | None
    after: float | None
    taken_over_within_seconds: Annotated[float, About("When running services go by it at the latest.", 30)]
    dry_run: Annotated[bool, About("Nothing was changed: the values are shown as they would be.")]


def add_agent(tx: PoolTx, context: OperationContext, rules: PoolRules, user_agent: str) -> AddedAgentView:
    """Add an agent to the pool. It gets its token when work waits for it.

    Its budget is the lowest of the others': a service may have been started with other settings than are known here.
    """
    limits = limits_in_force(tx, rules)
    agent = Agent.create(UserAgentId(next(context.ids)), user_agent, context.now)
    _refuse_removed_lately(tx, agent.user_agent, limits, context.now)
    budgets = [stored.window_limit for stored in tx.pool_report.agents()]
    if not tx.agents.add(agent, replace(limits, window_limit=min(budgets, default=limits.window_limit))):
        raise AgentExists(user_agent=agent.user_agent)
    _record(tx, context, "agent.add", agent, None, _audited(agent) | {"userAgent": agent.user_agent})
    row = find_agent(tx, AgentName(agent.user_agent_id)).row
    return AddedAgentView(**vars(agent_view(tx, context, limits, row)), dry_run=context.dry_run)


def remove_agents(tx: PoolTx, context: OperationContext, rules: PoolRules, names: Sequence[str]) -> ChangedAgentsView:
    """Remove agents from the pool for good. Their requests stay in the usage log and on the audit trail."""
    details = tx.pool_report.standings(context.moment, limits_in_force(tx, rules))
    in_window = {each.row: each.window.used for each in details}

    def remove(stored: StoredAgent) -> Agent:
        agent, used = stored.agent, in_window.get(stored.row, 0)
        before = _audited(agent) | {"userAgent": agent.user_agent, "requestsInWindow": used}
        tx.agents.remove(stored.row)
        if used:
            tx.removed_agents.add(agent.user_agent, context.now)
        _record(tx, context, "agent.remove", agent, before, None)
        return agent

    return _each_agent(tx, context, names, remove)


def suspend_agents(
    tx: PoolTx,
    context: OperationContext,
    rules: PoolRules,
    names: Sequence[str],
    length: timedelta | None = None,
    reason: str | None = None,
) -> ChangedAgentsView:
    """Suspend agents for a time, after which they are available again. A suspension that ends later already stays."""
    text, lasting = _reason(context, reason), length or rules.suspension

    def suspend(stored: StoredAgent) -> Agent:
        return stored.agent.suspend(context.now, lasting, text)

    return _move(tx, context, names, "agent.suspend", suspend, is_alert=True)


def recover_agents(tx: PoolTx, context: OperationContext, names: Sequence[str]) -> ChangedAgentsView:
    """End suspensions early and close the agents' circuits, so that they are used at once. Each agent gets a new token,
    as after any suspension. Of an agent that is available already only the circuit is closed."""

    def recover(stored: StoredAgent) -> Agent:
        is_kept_out = stored.circuit.state is not CircuitState.CLOSED
        only_circuit = stored.agent.status is AgentStatus.AVAILABLE and is_kept_out
        return stored.agent if only_circuit else stored.agent.recover(context.now)

    def make_ready(stored: StoredAgent) -> None:
        if stored.agent.status is not AgentStatus.AVAILABLE:
            tx.tokens.drop([stored.row])
        _close_circuit(tx, stored, context.now)

    return _move(tx, context, names, "agent.recover", recover, make_ready)


def block_agents(
    tx: PoolTx, context: OperationContext, names: Sequence[str], reason: str | None = None
) -> ChangedAgentsView:
    """Block agents until a person unblocks them."""
    text = _reason(context, reason)
    return _move(tx, context, names, "agent.block", lambda stored: stored.agent.block(context.now, text), is_alert=True)


def unblock_agents(tx: PoolTx, context: OperationContext, names: Sequence[str]) -> ChangedAgentsView:
    """Make blocked agents available again and close their circuits, so that they are used at once."""

    def close_circuit(stored: StoredAgent) -> None:
        _close_circuit(tx, stored, context.now)

    return _move(tx, context, names, "agent.unblock", lambda stored: stored.agent.unblock(context.now), close_circuit)


def _close_circuit(tx: PoolTx, stored: StoredAgent, now: datetime) -> None:
    if stored.circuit.state is not CircuitState.CLOSED:
        closed = stored.circuit.close(now)
        tx.circuits.save(
            {stored.row: closed}, [(stored.row, event) for event in events_of(stored.circuit, closed, now)]
        )


def rotate_tokens(tx: PoolTx, context: OperationContext, names: Sequence[str]) -> ChangedAgentsView:
    """Throw the tokens of agents away; a service issues new ones when work waits for these agents."""

    def rotate(stored: StoredAgent) -> Agent:
        if stored.token_issued_at is None:
            raise NoToken(agent=stored.agent.user_agent_id)
        tx.tokens.drop([stored.row])
        before, after = {"tokenIssuedAt": stored.token_issued_at}, {"tokenIssuedAt": None}
        _record(tx, context, "agent.rotate", stored.agent, before, after)
        return stored.agent

    return _each_agent(tx, context, names, rotate)


def rekey_tokens(tx: PoolTx, context: OperationContext, sealer: Sealer) -> RekeyedView:
    """Seal every active token with the first key. A token that no key opens is left as it is and named."""
    key_id: str | None = None
    resealed = current = 0
    unopened: list[UserAgentId] = []
    for token_row, user_agent_id, token in tx.tokens.sealed():
        try:
            session = sealer.open(token, user_agent_id)
        except InvalidToken:
            unopened.append(user_agent_id)
            continue
        resealed_token = sealer.seal(session, bound_to=user_agent_id, issued_at=token.issued_at)
        key_id = resealed_token.key_id
        if resealed_token.key_id == token.key_id:
            current += 1
            continue
        resealed += 1
        tx.tokens.reseal(token_row, resealed_token)
    if resealed:
        after = {"keyId": key_id, "resealed": resealed, "unopened": len(unopened)}
        record_audit(tx, AuditEntry(context.now, context.actor, "agent.rekey", "agent", "all", after=after))
    return RekeyedView(context.dry_run, key_id, resealed, current, unopened)


def set_limit(tx: PoolTx, context: OperationContext, limits: LimitSettings, given: str, value: str) -> ChangedLimitView:
    """Change a limit. It is kept over restarts; running services take it over within some seconds."""
    name, overrides = limits.find(given), tx.overrides.all()
    before, after = _held(overrides, name, limits), limits.check(name, value, overrides)
    tx.overrides.set(name, value, context.actor, context.now)
    if name == "window_limit":
        # It goes before every process's own settings, so the budgets are right at once.
        tx.windows.set_window_limit(int(after))
    return _changed_limit(tx, context, "limit.set", name, limits, (before, after))


def unset_limit(tx: PoolTx, context: OperationContext, limits: LimitSettings, given: str) -> ChangedLimitView:
    """Take a change back: the limit is what the environment, the file or the default says."""
    name = limits.find(given)
    before = _held(tx.overrides.all(), name, limits)
    if not tx.overrides.unset(name):
        raise NotOverridden(name=name.upper())
    return _changed_limit(tx, context, "limit.unset", name, limits, (before, _held(tx.overrides.all(), name, limits)))


def _held(overrides: Mapping[str, str], name: str, limits: LimitSettings) -> Any:
    """Return what a running service goes by: where changes have become wrong, it goes without any."""
    try:
        return limits.in_force(overrides)[name]
    except Invalid:
        return limits.configured[name]


def _changed_limit(
    tx: PoolTx, context: OperationContext, action: str, name: str, limits: LimitSettings, values: tuple[Any, Any]
) -> ChangedLimitView:
    before, after = ({"value": value} for value in values)
    record_audit(tx, AuditEntry(context.now, context.actor, action, "setting", name.upper(), before, after))
    return ChangedLimitView(name.upper(), *values, limits.taken_over_within, context.dry_run)


def _move(
    tx: PoolTx,
    context: OperationContext,
    names: Sequence[str],
    action: str,
    move: Callable[[StoredAgent], Agent],
    then: Callable[[StoredAgent], None] = lambda _: None,
    *,
    is_alert: bool = False,
) -> ChangedAgentsView:
    def move_one(stored: StoredAgent) -> Agent:
        moved = move(stored)
        tx.agents.save({stored.row: moved})
        then(stored)
        circuit = tx.circuits.get_rows([stored.row])[stored.row]
        before, after = _audited(stored.agent, stored.circuit), _audited(moved, circuit)
        _record(tx, context, action, moved, before, after)
        if is_alert:
            context.notices.append(status_notice(moved))
        return moved

    return _each_agent(tx, context, names, move_one)


def _each_agent(
    tx: PoolTx, context: OperationContext, names: Sequence[str], handle: Callable[[StoredAgent], Agent]
) -> ChangedAgentsView:
    """Handle each agent once, also when it is named twice. One that is refused does not stop the others."""
    changed: dict[UserAgentId, Agent] = {}

    def handle_one(name: AgentName) -> None:
        stored = find_agent(tx, name)
        if stored.agent.user_agent_id not in changed:
            changed[stored.agent.user_agent_id] = handle(stored)

    refused = handle_each([AgentName.parse(name) for name in names], handle_one).refused
    return ChangedAgentsView(
        done=tuple(changed),
        refused=refused_views(BulkResult((), refused), context.language),
        dry_run=context.dry_run,
        agents=[ChangedAgentView.of(agent) for agent in changed.values()],
    )


def _reason(context: OperationContext, given: str | None) -> str:
    if given is None:
        return f"by {context.actor}"[:LONGEST_REASON]
    return " ".join(given.split())[:LONGEST_REASON] or NO_REASON


def _refuse_removed_lately(tx: PoolTx, user_agent: str, limits: Limits, now: datetime) -> None:
    """The marketplace identifies an agent by its user-agent string, and still counts its earlier requests."""
    removed_at = tx.removed_agents.removed_at(user_agent)
    if removed_at is None:
        return
    again_at = removed_at + limits.window + UNDER_WAY
    if again_at > now:
        raise RemovedLately(again_at=f"{again_at:%Y-%m-%d %H:%M:%S} UTC")
    tx.removed_agents.forget(user_agent)


def _record(
    tx: PoolTx,
    context: OperationContext,
    action: str,
    agent: Agent,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
) -> None:
    record_audit(tx, AuditEntry(context.now, context.actor, action, "agent", agent.user_agent_id, before, after))


def _audited(agent: Agent, circuit: Circuit | None = None) -> dict[str, Any]:
    """Return what the audit trail has of an agent before and after a change."""
    values: dict[str, Any] = {
        "status": agent.status,
        "healthScore": agent.health_score,
        "suspendedUntil": agent.suspended_until,
        "reason": agent.reason,
    }
    return values if circuit is None else values | {"circuit": circuit.state}
