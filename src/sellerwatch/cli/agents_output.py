"""Agents and the pool as commands show them: to people and as JSON. Of a token only its dates are ever here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sellerwatch.agents.agent import AgentStatus
from sellerwatch.agents.agent_status import AgentDetails, tokens_by_age
from sellerwatch.agents.overview import Pool
from sellerwatch.cli import session
from sellerwatch.cli.output import ago, print_facts, print_table
from sellerwatch.cli.session import say, stamp
from sellerwatch.kernel.circuit import CircuitState

if TYPE_CHECKING:
    from sellerwatch.agents.agent_status import CircuitEvent
    from sellerwatch.agents.ports import LastHour
    from sellerwatch.oversight.audit import AuditEntry


def pool_json(pool: Pool) -> dict[str, Any]:
    full = pool.windows_full
    return {
        "totalAgents": len(pool.standings),
        "availableAgents": pool.count(AgentStatus.AVAILABLE),
        "suspendedAgents": pool.count(AgentStatus.SUSPENDED),
        "blockedAgents": pool.count(AgentStatus.BLOCKED),
        "availableRate": pool.available_rate,
        "healthScoreStats": pool.health,
        "budget": pool.budget,
        "tokensByAge": tokens_by_age(pool.standings, pool.now),
        "circuits": {"open": pool.circuits(CircuitState.OPEN), "halfOpen": pool.circuits(CircuitState.HALF_OPEN)},
        "breaker": {
            "state": pool.breaker.state,
            "minAvailablePercent": pool.rules.min_percent,
            "openedAt": stamp(pool.breaker.opened_at),
            "message": pool.refusal,
        },
        "nextFreeAt": stamp(pool.next_free_at),
        "tooManyLastHour": [
            {"agentId": s.agent.user_agent_id, "number": s.row, "count": s.too_many} for s in pool.too_many
        ],
        "windowsFull": None if full is None else {"why": full[0], "until": stamp(full[1])},
    }


def print_pool(pool: Pool) -> None:
    statuses = ", ".join(f"{pool.count(status)} {status.lower()}" for status in AgentStatus)
    health, budget, now = pool.health, pool.budget, pool.now
    tokens = {name: number for name, number in tokens_by_age(pool.standings, now).items() if number}
    share = 100 * budget["used"] / budget["limit"] if budget["limit"] else 0.0
    print_facts(
        [
            ("agents", f"{len(pool.standings)}: {statuses} ({pool.available_rate:g} % available)"),
            ("health", f"average {health['average']}, lowest {health['min']}, highest {health['max']}"),
            ("budget", f"{session.bar(share)}: {budget['used']} of {budget['limit']} used, {budget['left']} left"),
            ("window", f"{budget['windowSeconds']:g} s"),
            ("tokens", ", ".join(f"{number} {AGE_WORDS[name]}" for name, number in tokens.items()) or None),
            ("circuits", ", ".join(f"{pool.circuits(state)} {_worded(state)}" for state in CircuitState)),
            ("breaker", pool.breaker.state),
            ("next agent free", _when(pool.next_free_at, now)),
        ]
    )
    print_table(
        "429s in the last hour",
        ("#", "agent", "429s", "status", "back"),
        [(s.row, s.agent.user_agent_id, s.too_many, s.agent.status, _back(s, now)) for s in pool.too_many],
        empty="No 429 in the last hour.",
    )
    _print_warnings(pool)


AGE_WORDS = {
    "under10Minutes": "under 10 min old",
    "under30Minutes": "under 30 min",
    "under1Hour": "under 1 h",
    "older": "older",
    "expired": "expired",
    "none": "without one",
}


def _print_warnings(pool: Pool) -> None:
    full, refusal = pool.windows_full, pool.refusal
    if full is not None:
        until = "" if full[1] is None else f" Every window counts as full until {full[1]:%Y-%m-%d %H:%M:%S} UTC."
        say(full[0] + until, "yellow")
    if refusal is not None:
        say(refusal, "red")
    if not pool.standings:
        say('Nothing can be crawled without an agent. Add one: sellerwatch agents add "Mozilla/5.0 ..."')
    elif pool.count(AgentStatus.BLOCKED):
        say("Blocked agents stay out until somebody brings them back: sellerwatch agents list --status BLOCKED", "dim")


def standing_json(standing: AgentDetails, now: datetime) -> dict[str, Any]:
    agent, circuit, window = standing.agent, standing.circuit, standing.window
    token = None
    if standing.token_issued_at is not None:
        token = {
            "issuedAt": stamp(standing.token_issued_at),
            "expiresAt": stamp(standing.token_expires_at),
            "ageSeconds": int((now - standing.token_issued_at).total_seconds()),
        }
    return {
        "agentId": agent.user_agent_id,
        "number": standing.row,
        "userAgent": agent.user_agent,
        "status": agent.status,
        "healthScore": agent.health_score,
        "reason": agent.reason,
        "why": standing.why(now),
        "backAt": stamp(standing.back_at(now)),
        "budget": {
            "used": window.used,
            "left": window.left,
            "limit": window.limit,
            "freeAt": stamp(window.free_at),
            "fullUntil": stamp(window.full_until),
        },
        "circuit": {
            "state": circuit.state,
            "failureCount": circuit.failure_count,
            "probeAt": stamp(circuit.probe_at()),
        },
        "token": token,
        "requestsPerDay": agent.requests_per_day,
        "usageCount": agent.usage_count,
        "successCount": agent.success_count,
        "failureCount": agent.failure_count,
        "issueFailures": agent.issue_failures,
        "tooManyLastHour": standing.too_many,
        "lastUsedAt": stamp(agent.last_used_at),
        "suspendedAt": stamp(agent.suspended_at),
        "suspendedUntil": stamp(agent.suspended_until),
        "createdAt": stamp(agent.created_at),
        "updatedAt": stamp(agent.updated_at),
    }


def print_standings(title: str, standings: Sequence[AgentDetails], now: datetime, *, empty: str) -> None:
    print_table(
        title,
        ("#", "status", "health", "budget", "circuit", "token", "last used", "why", "back"),
        [
            (
                standing.row,
                standing.agent.status,
                standing.agent.health_score,
                f"{standing.window.used}/{standing.window.limit}",
                standing.circuit.state,
                _token(standing, now),
                ago(standing.agent.last_used_at, now),
                session.short(standing.why(now)),
                _back(standing, now),
            )
            for standing in standings
        ],
        empty=empty,
    )


def print_standing(standing: AgentDetails, now: datetime) -> None:
    agent, circuit, window = standing.agent, standing.circuit, standing.window
    failures = f" ({circuit.failure_count} failure(s) in a row)" if circuit.failure_count else ""
    spent = "" if window.left or window.full_until else f"; a slot comes free {_when(window.free_at, now)}"
    counts = f"{agent.usage_count} requests, {agent.success_count} succeeded, {agent.failure_count} failed"
    print_facts(
        [
            ("agent", f"{agent.user_agent_id} (#{standing.row})"),
            ("user agent", agent.user_agent),
            ("status", agent.status),
            ("why", standing.why(now) or "nothing keeps it from work"),
            ("back", _back(standing, now) or "it is"),
            ("health", agent.health_score),
            ("budget", f"{window.used} of {window.limit} used in the window, {window.left} left{spent}"),
            ("circuit", f"{circuit.state}{failures}"),
            ("token", _token(standing, now)),
            ("tokens refused in a row", agent.issue_failures),
            ("today", f"{agent.requests_per_day} requests"),
            ("ever", counts),
            ("last used", ago(agent.last_used_at, now)),
            ("added", agent.created_at),
        ]
    )


def last_hour_json(hour: LastHour) -> dict[str, Any]:
    return {
        "requests": hour.requests,
        "succeeded": hour.succeeded,
        "tooMany": hour.too_many,
        "averageMs": hour.average_ms,
    }


def print_last_hour(hour: LastHour) -> None:
    if not hour.requests:
        say("It made no request in the last hour.", "dim")
        return
    took = "" if hour.average_ms is None else f", {hour.average_ms} ms each"
    say(f"In the last hour: {hour.requests} requests, {hour.succeeded} succeeded, {hour.too_many} met a 429{took}.")


def event_json(event: CircuitEvent) -> dict[str, Any]:
    return {
        "at": stamp(event.at),
        "eventType": event.event_type,
        "fromState": event.from_state,
        "toState": event.to_state,
    }


def print_events(events: Sequence[CircuitEvent], entries: Sequence[AuditEntry], now: datetime) -> None:
    if events:
        print_table(
            "What became of its circuit",
            ("when", "what", "from", "to"),
            [(ago(e.at, now), _worded(e.event_type), e.from_state, e.to_state) for e in events],
            empty="",
        )
    if entries:
        print_table(
            "What people did to it",
            ("when", "who", "what"),
            [(ago(e.at, now), e.actor, e.action) for e in entries],
            empty="",
        )


def _token(standing: AgentDetails, now: datetime) -> str | None:
    age = standing.token_age(now)
    if age in ("none", "expired"):
        return None if age == "none" else age
    return ago(standing.token_issued_at, now)


def _back(standing: AgentDetails, now: datetime) -> str | None:
    if standing.agent.status is AgentStatus.BLOCKED:
        return "when unblocked"
    if standing.agent.status is AgentStatus.SUSPENDED and standing.agent.is_rested(now):
        return "at the next tending turn"
    back_at = standing.back_at(now)
    if back_at is None:
        return None if standing.may_ask(now) else "when its requests are answered"
    return _when(back_at, now)


def _when(time: datetime | None, now: datetime) -> str:
    if time is None:
        return "nobody can tell"
    return "now" if time <= now else f"{ago(time, now)} ({time:%H:%M:%S} UTC)"


def _worded(state: str) -> str:
    return state.lower().replace("_", " ")
