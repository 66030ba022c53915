"""What an operator does to the pool by hand: agents, their tokens, and the limits. Each verb is one transaction, and
each thing it changed is on the audit trail. Nothing of a token is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Self

from sellerwatch.agents.agent import Agent, AgentExists, AgentNotFound
from sellerwatch.agents.circuit import Circuit
from sellerwatch.agents.limits import Limits
from sellerwatch.agents.ports import PoolTx, Sealer, Stored
from sellerwatch.agents.token import InvalidToken
from sellerwatch.kernel.bulk import BulkResult, handle_each
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.clock import Moment
from sellerwatch.kernel.errors import Conflict, Invalid
from sellerwatch.kernel.ids import InvalidId, PublicId, UserAgentId
from sellerwatch.oversight.audit import AuditEntry

#: How far back the trail is searched for an agent that was removed lately.
REMOVALS_SEARCHED = 1000
#: A request that was under way when its agent was removed was answered within so long.
UNDER_WAY = timedelta(minutes=1)
#: Digits that a row's number can have.
LONGEST_NUMBER = 18


#: All limits that would hold with these overrides; refuses what is wrong.
InForce = Callable[[Mapping[str, str]], Mapping[str, Any]]


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


@dataclass(eq=False)
class InvalidAgentName(Invalid):
    """Neither a number nor a UUID."""

    given: str


class AgentName(PublicId):
    """An agent as people name it: its UUID, or its number in the list."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        number = text.removeprefix("#")
        if number.isascii() and number.isdecimal() and len(number) <= LONGEST_NUMBER:
            return cls(number)
        try:
            return super().parse(text)
        except InvalidId:
            raise InvalidAgentName(given=text[:100]) from None


@dataclass(frozen=True)
class Moved:
    """What became of several agents; `agents` are those that were moved, as they are now."""

    handled: BulkResult
    agents: tuple[Agent, ...]


@dataclass(frozen=True)
class Rekeyed:
    """Tokens sealed anew, those that had the first key already, and the agents whose token no key opens."""

    key_id: str | None
    resealed: int
    current: int
    unopened: tuple[UserAgentId, ...]


def find_agent(tx: PoolTx, name: AgentName) -> Stored:
    """By its number or its id."""
    user_agent_id = UserAgentId(name)
    if name.isdecimal():
        numbered = tx.agents.get_rows([int(name)]).get(int(name))
        user_agent_id = user_agent_id if numbered is None else numbered.user_agent_id
    found = tx.agents.find(user_agent_id)
    if found is None:
        raise AgentNotFound(agent=name)
    return found


def add_agent(tx: PoolTx, user_agent: str, limits: Limits, *, actor: str, ids: Iterator[str], at: Moment) -> Stored:
    """One more identity, AVAILABLE and without a token: it gets one when work waits for it.

    Its budget is cut like the others': a service may have been started with other settings than are in force here.
    """
    agent = Agent.create(UserAgentId(next(ids)), user_agent, at.now)
    _must_have_rested(tx, agent.user_agent, limits, at.now)
    budgets = [stored.window_limit for stored in tx.agents.everyone()]
    if not tx.agents.add(agent, replace(limits, window_limit=min(budgets, default=limits.window_limit))):
        raise AgentExists(user_agent=agent.user_agent)
    made = find_agent(tx, AgentName(agent.user_agent_id))
    after = _shown(agent) | {"userAgent": agent.user_agent}
    _record(tx, actor, "agent.add", agent.user_agent_id, None, after, at.now)
    return made


def remove_agents(tx: PoolTx, names: Sequence[AgentName], limits: Limits, *, actor: str, at: Moment) -> Moved:
    """Out of the pool for good. What it asked of the marketplace stays in the log and on the trail."""
    in_use = {standing.row: standing.window.used for standing in tx.pool_report.standings(at, limits)}

    def remove(stored: Stored) -> Agent:
        before = _shown(stored.agent) | {
            "userAgent": stored.agent.user_agent,
            "requestsInWindow": in_use.get(stored.row, 0),
        }
        tx.agents.remove(stored.row)
        _record(tx, actor, "agent.remove", stored.agent.user_agent_id, before, None, at.now)
        return stored.agent

    return _each_agent(tx, names, remove)


def suspend_agents(
    tx: PoolTx, names: Sequence[AgentName], rest: timedelta, reason: str, *, actor: str, now: datetime
) -> Moved:
    """They rest for so long and come back by themselves. A rest that lasts longer already stays."""
    return _move(tx, names, "agent.suspend", lambda agent: agent.suspend(now, rest, reason), actor, now)


def recover_agents(tx: PoolTx, names: Sequence[AgentName], *, actor: str, now: datetime) -> Moved:
    """Back before their rest is over, and with a token to be issued anew, as after any rest."""

    def after(stored: Stored) -> None:
        tx.tokens.drop([stored.row])

    return _move(tx, names, "agent.recover", lambda agent: agent.recover(now), actor, now, after)


def block_agents(tx: PoolTx, names: Sequence[AgentName], reason: str, *, actor: str, now: datetime) -> Moved:
    """Out until somebody unblocks them."""
    return _move(tx, names, "agent.block", lambda agent: agent.block(now, reason), actor, now)


def unblock_agents(tx: PoolTx, names: Sequence[AgentName], *, actor: str, now: datetime) -> Moved:
    """Back, and with the circuit closed: whoever unblocks it wants it asked at once."""

    def after(stored: Stored) -> None:
        if stored.circuit.state is not CircuitState.CLOSED:
            tx.circuits.save({stored.row: stored.circuit}, {stored.row: stored.circuit.close(now)}, now)

    return _move(tx, names, "agent.unblock", lambda agent: agent.unblock(now), actor, now, after)


def rotate_tokens(tx: PoolTx, names: Sequence[AgentName], *, actor: str, now: datetime) -> Moved:
    """Throw the tokens away; a service issues new ones when work waits for these agents."""

    def rotate(stored: Stored) -> Agent:
        if stored.token_issued_at is None:
            raise NoToken(agent=stored.agent.user_agent_id)
        tx.tokens.drop([stored.row])
        before, after = {"tokenIssuedAt": stored.token_issued_at}, {"tokenIssuedAt": None}
        _record(tx, actor, "agent.rotate", stored.agent.user_agent_id, before, after, now)
        return stored.agent

    return _each_agent(tx, names, rotate)


def rekey(tx: PoolTx, sealer: Sealer, *, dry_run: bool, actor: str, now: datetime) -> Rekeyed:
    """Seal every active token with the first key. One that no key opens is left as it is and named."""
    key_id: str | None = None
    resealed = current = 0
    unopened: list[UserAgentId] = []
    for token_row, user_agent_id, token in tx.tokens.sealed():
        try:
            plain = sealer.open(token, user_agent_id)
        except InvalidToken:
            unopened.append(user_agent_id)
            continue
        anew = sealer.seal(
            plain,
            bound_to=user_agent_id,
            nid=token.nid,
            mustit_uid=token.mustit_uid,
            issued_at=token.issued_at,
            expires_at=token.expires_at,
        )
        key_id = anew.key_id
        if anew.key_id == token.key_id:
            current += 1
            continue
        resealed += 1
        if not dry_run:
            tx.tokens.reseal(token_row, anew)
    if resealed and not dry_run:
        after = {"keyId": key_id, "resealed": resealed, "unopened": len(unopened)}
        tx.audit.record(AuditEntry(now, actor, "agent.rekey", "agent", "all", after=after))
    return Rekeyed(key_id, resealed, current, tuple(unopened))


def set_limit(tx: PoolTx, name: str, value: str, in_force: InForce, *, actor: str, now: datetime) -> tuple[Any, Any]:
    """Change a limit from now on; says its value before and after."""
    overrides = tx.overrides.all()
    after = in_force(overrides | {name: value})[name]
    before = _held(overrides, name, in_force)
    tx.overrides.set(name, value, actor, now)
    _record_limit(tx, actor, "limit.set", name, (before, after), now)
    return before, after


def unset_limit(tx: PoolTx, name: str, in_force: InForce, *, actor: str, now: datetime) -> tuple[Any, Any]:
    """Back to what the environment, the file or the default says."""
    before = _held(tx.overrides.all(), name, in_force)
    if not tx.overrides.unset(name):
        raise NotOverridden(name=name.upper())
    after = _held(tx.overrides.all(), name, in_force)
    _record_limit(tx, actor, "limit.unset", name, (before, after), now)
    return before, after


def _held(overrides: Mapping[str, str], name: str, in_force: InForce) -> Any:
    """What a running service goes by: where overrides have become wrong, it goes without any."""
    try:
        return in_force(overrides)[name]
    except Invalid:
        return in_force({})[name]


def _record_limit(tx: PoolTx, actor: str, action: str, name: str, values: tuple[Any, Any], now: datetime) -> None:
    before, after = ({"value": value} for value in values)
    tx.audit.record(AuditEntry(now, actor, action, "setting", name.upper(), before, after))


def _move(
    tx: PoolTx,
    names: Sequence[AgentName],
    action: str,
    move: Callable[[Agent], Agent],
    actor: str,
    now: datetime,
    then: Callable[[Stored], None] = lambda _: None,
) -> Moved:
    def one(stored: Stored) -> Agent:
        moved = move(stored.agent)
        tx.agents.save({stored.row: moved})
        then(stored)
        circuit = tx.circuits.get_rows([stored.row])[stored.row]
        shown = _shown(stored.agent, stored.circuit), _shown(moved, circuit)
        _record(tx, actor, action, moved.user_agent_id, *shown, now)
        return moved

    return _each_agent(tx, names, one)


def _each_agent(tx: PoolTx, names: Sequence[AgentName], handle: Callable[[Stored], Agent]) -> Moved:
    """One by one; what is refused keeps nothing else from being done. Two names of one agent are one."""
    moved: dict[UserAgentId, Agent] = {}

    def one(name: AgentName) -> None:
        stored = find_agent(tx, name)
        if stored.agent.user_agent_id not in moved:
            moved[stored.agent.user_agent_id] = handle(stored)

    refused = handle_each(names, one).refused
    return Moved(BulkResult(tuple(moved), refused), tuple(moved.values()))


def _must_have_rested(tx: PoolTx, user_agent: str, limits: Limits, now: datetime) -> None:
    """The marketplace knows it by its string: what it asked before it was removed still counts there."""
    for entry in tx.audit.newest(limit=REMOVALS_SEARCHED, subject_type="agent"):
        again_at = entry.at + limits.window + UNDER_WAY
        if again_at <= now:
            return
        before = entry.before or {}
        same = entry.action == "agent.remove" and before.get("userAgent") == user_agent
        if same and before.get("requestsInWindow"):
            raise RemovedLately(again_at=f"{again_at:%Y-%m-%d %H:%M:%S} UTC")


def _record(
    tx: PoolTx,
    actor: str,
    action: str,
    user_agent_id: UserAgentId,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    now: datetime,
) -> None:
    tx.audit.record(AuditEntry(now, actor, action, "agent", user_agent_id, before, after))


def _shown(agent: Agent, circuit: Circuit | None = None) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "status": agent.status,
        "healthScore": agent.health_score,
        "suspendedUntil": agent.suspended_until,
        "reason": agent.reason,
    }
    return shown if circuit is None else shown | {"circuit": circuit.state}
