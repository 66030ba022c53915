"""Agents and the pool as commands print them to people."""

from __future__ import annotations

from datetime import datetime

from sellerwatch.agents.agent import AgentStatus
from sellerwatch.agents.agent_list import AgentChoice, AgentListView, ListedAgentView
from sellerwatch.agents.agent_status import EXPIRED, CircuitEventView
from sellerwatch.agents.budget_history import BudgetHistoryView
from sellerwatch.agents.open_circuits import OpenCircuitsView, OpenCircuitView
from sellerwatch.agents.pool_status import PoolStatusView
from sellerwatch.agents.ports import LastHourView
from sellerwatch.agents.queries import AgentDetailView, AgentView
from sellerwatch.agents.recount import RecountedView
from sellerwatch.cli import session
from sellerwatch.cli.output import print_facts, print_table
from sellerwatch.cli.session import say
from sellerwatch.cli.tables import Columns, print_views
from sellerwatch.cli.texts import Texts

LONGEST_USER_AGENT = 30


def _token(agent: AgentView, text: Texts) -> str | None:
    if agent.token is None:
        return None
    return text("expired") if agent.token_age == EXPIRED else text.ago(agent.token.issued_at)


def _renewal(agent: AgentView, text: Texts) -> str | None:
    """When the token is renewed next, and how often that has failed in a row."""
    if agent.token is None or agent.token.next_refresh_at is None:
        return None
    when = _when(agent.token.next_refresh_at, text)
    return text("show.renewal", when=when, n=agent.token.failures_in_a_row) if agent.token.failures_in_a_row else when


def _back(agent: AgentView, text: Texts) -> str | None:
    if agent.status is AgentStatus.BLOCKED:
        return text("back.unblocked")
    if agent.suspended_until is not None and agent.suspended_until <= text.now:
        return text("back.maintenance")
    if agent.back_at is None:
        return None if agent.why is None else text("back.answered")
    return _when(agent.back_at, text)


def _when(time: datetime | None, text: Texts) -> str:
    if time is None:
        return text("unknown")
    return text("now") if time <= text.now else f"{text.ago(time)} ({time:%H:%M:%S} UTC)"


def _user_agent(agent: AgentView | OpenCircuitView, _: Texts) -> str | None:
    return session.short(agent.user_agent, LONGEST_USER_AGENT)


AGENTS: Columns[ListedAgentView] = {
    "number": lambda agent, _: agent.number,
    "user_agent": _user_agent,
    "status": lambda agent, _: agent.status,
    "health": lambda agent, _: agent.health_score,
    "budget": lambda agent, _: f"{agent.budget.used}/{agent.budget.limit}",
    "circuit": lambda agent, _: agent.circuit.state,
    "token": _token,
    "why": lambda agent, _: session.short(agent.why),
    "back": _back,
}
#: Instead of these, where requests are asked for.
USAGE: Columns[ListedAgentView] = {
    "number": lambda agent, _: agent.number,
    "user_agent": _user_agent,
    "status": lambda agent, _: agent.status,
    "requests": lambda agent, _: agent.requests,
    "failed": lambda agent, _: agent.failed,
    "rate": lambda agent, _: None if agent.success_rate is None else f"{agent.success_rate:g} %",
    "429s": lambda agent, _: agent.too_many,
    "last_429": lambda agent, text: text.ago(agent.last_too_many_at),
    "last_used": lambda agent, text: text.ago(agent.last_used_at) or text("never"),
    "back": _back,
}
TOKENS: Columns[ListedAgentView] = {
    "number": lambda agent, _: agent.number,
    "user_agent": _user_agent,
    "token": _token,
    "expires": lambda agent, text: None if agent.token is None else text.ago(agent.token.expires_at),
    "renewal": lambda agent, text: None if agent.token is None else text.ago(agent.token.next_refresh_at),
    "renewals_failed": lambda agent, _: None if agent.token is None else agent.token.failures_in_a_row,
    "issue_failures": lambda agent, _: agent.issue_failures,
}
CIRCUITS: Columns[OpenCircuitView] = {
    "number": lambda circuit, _: circuit.number,
    "user_agent": _user_agent,
    "circuit": lambda circuit, _: circuit.state,
    "since": lambda circuit, text: text.ago(circuit.since),
    "probe_at": lambda circuit, text: _when(circuit.until, text),
    "after": lambda circuit, text: ", ".join(map(failure_of_event, circuit.failures)) or None,
}
#: Hours of the last day that `agents budget` shows.
EACH_HOUR = 4


def failure_of_event(event: CircuitEventView) -> str:
    """Return the status of the answer, or what it was where there was none."""
    return str(event.status or event.outcome or "?")


def print_pool(pool: PoolStatusView, text: Texts) -> None:
    health, budget, circuits = pool.health_score_stats, pool.budget, pool.circuits
    share = 100 * budget.used / budget.limit if budget.limit else 0.0
    counts = {
        "available": pool.available_agents,
        "suspended": pool.suspended_agents,
        "blocked": pool.blocked_agents,
        "rate": f"{pool.available_rate:g}",
    }
    closed = pool.total_agents - circuits.open - circuits.half_open
    left = {"bar": session.bar(share), "used": budget.used, "limit": budget.limit, "left": budget.left}
    print_facts(
        [
            (text("fact.agents"), text("pool.agents", n=pool.total_agents, **counts)),
            (text("fact.health"), text("pool.health", average=health.average, least=health.min, most=health.max)),
            (text("fact.budget"), text("pool.budget", **left)),
            (text("fact.window"), text("pool.window", seconds=f"{budget.window_seconds:g}")),
            (text("fact.tokens"), _tokens(pool, text)),
            (
                text("fact.circuits"),
                text("pool.circuits", closed=closed, open=circuits.open, half_open=circuits.half_open),
            ),
            (text("fact.breaker"), pool.breaker.state),
            (text("fact.next_free"), _when(pool.next_free_at, text)),
        ]
    )
    print_table(
        text("pool.too_many"),
        text.columns("number", "user_agent", "429s", "last_429", "back"),
        [
            (
                each.number,
                session.short(each.user_agent, LONGEST_USER_AGENT),
                each.count,
                text.ago(each.last_at),
                None if each.suspended_until is None else _when(each.suspended_until, text),
            )
            for each in pool.too_many_last_hour
        ],
        empty=text("pool.no_429"),
    )
    _print_warnings(pool, text)


def _tokens(pool: PoolStatusView, text: Texts) -> str | None:
    counts = [text(f"age.{age}", n=number) for age, number in pool.tokens_by_age.items() if number]
    return ", ".join(counts) or None


def _print_warnings(pool: PoolStatusView, text: Texts) -> None:
    full = pool.windows_full
    if full is not None:
        until = None if full.until is None else f"{full.until:%Y-%m-%d %H:%M:%S}"
        say(full.why if until is None else text("pool.full_until", why=full.why, until=until), "yellow")
    if pool.breaker.message is not None:
        say(pool.breaker.message, "red")
    if not pool.total_agents:
        say(text("pool.empty"))
    elif pool.blocked_agents:
        say(text("pool.blocked"), "dim")


def print_recounted(done: RecountedView, text: Texts) -> None:
    if done.dry_run:
        say(text("dry_run"), "dim")
    for agent in done.repaired:
        say(text("recount.agent", number=str(agent.number), before=agent.before, after=agent.after), "yellow")
    if done.limiter_repaired:
        say(text("recount.limiter", n=done.limiter_repaired), "yellow")
    if not done.repaired and not done.limiter_repaired:
        say(text("recount.right", n=done.checked), "green")


def print_agents(found: AgentListView, choice: AgentChoice, text: Texts) -> None:
    if choice.is_all:
        empty = text("list.empty")
    else:
        empty = text("list.none_found", status=choice.status) if choice.status else text("list.none_chosen")
    columns = USAGE if choice.asks_usage else AGENTS
    print_views(text("list.title", n=len(found.content)), found.content, columns, text, empty=empty)
    if found.content and choice.asks_usage:
        said = {"since": _moment(found.since) or text("list.begin"), "until": _moment(found.until) or text("now")}
        key = "list.ever" if found.since is None and found.until is None else "list.counted"
        say(text(key, **said), "dim")


def _moment(time: datetime | None) -> str | None:
    return None if time is None else f"{time:%Y-%m-%d %H:%M:%S} UTC"


def print_tokens(found: AgentListView, text: Texts) -> None:
    print_views(text("tokens.title"), found.content, TOKENS, text, empty=text("list.empty"))


def print_circuits(found: OpenCircuitsView, text: Texts) -> None:
    print_views(text("circuits.title"), found.content, CIRCUITS, text, empty=text("circuits.empty"))


def print_budget(found: BudgetHistoryView, text: Texts) -> None:
    now = found.now
    share = 100 * now.used / now.limit if now.limit else 0.0
    say(text("pool.budget", bar=session.bar(share), used=now.used, limit=now.limit, left=now.left))
    print_table(
        text("budget.title"),
        text.columns("time", "used", "left", "share"),
        [
            (
                f"{point.at:%H:%M}",
                point.used,
                point.left,
                session.bar(100 * point.used / max(point.used + point.left, 1)),
            )
            for point in found.content[::EACH_HOUR]
        ],
        empty="",
    )


def print_agent(agent: AgentDetailView, text: Texts) -> None:
    circuit = str(agent.circuit.state)
    if agent.circuit.failure_count:
        circuit = text("show.failures", state=circuit, n=agent.circuit.failure_count)
    counts = {
        "n": agent.usage_count,
        "good": agent.success_count,
        "bad": agent.failure_count,
        "other": agent.other_count,
    }
    print_facts(
        [
            (text("fact.agent"), f"{agent.agent_id} (#{agent.number})"),
            (text("fact.user_agent"), agent.user_agent),
            (text("fact.status"), agent.status),
            (text("fact.why"), agent.why or text("show.why_not")),
            (text("fact.back"), _back(agent, text) or text("show.is_back")),
            (text("fact.health"), agent.health_score),
            (text("fact.budget"), _budget(agent, text)),
            (text("fact.circuit"), circuit),
            (text("fact.token"), _token(agent, text)),
            (text("fact.renewal"), _renewal(agent, text)),
            (text("fact.issue_failures"), agent.issue_failures),
            (text("fact.today"), text("show.today", n=agent.requests_per_day)),
            (text("fact.total"), text("show.total", **counts)),
            (text("fact.last_used"), text.ago(agent.last_used_at) or text("never")),
            (text("fact.added"), agent.created_at),
        ]
    )
    _print_last_hour(agent.last_hour, text)
    _print_history(agent, text)


def _budget(agent: AgentView, text: Texts) -> str:
    budget = agent.budget
    used = text("show.budget", used=budget.used, limit=budget.limit, left=budget.left)
    if budget.left or budget.full_until:
        return used
    return text("show.free", budget=used, when=_when(budget.free_at, text))


def _print_last_hour(hour: LastHourView, text: Texts) -> None:
    if not hour.requests:
        say(text("hour.none"), "dim")
        return
    key = "hour.sum" if hour.average_ms is None else "hour.average"
    say(text(key, n=hour.requests, good=hour.succeeded, many=hour.too_many, ms=hour.average_ms))


def _print_history(agent: AgentDetailView, text: Texts) -> None:
    if agent.circuit_events:
        print_table(
            text("events.title"),
            text.columns("when", "what", "answer", "before", "after"),
            [
                (text.ago(e.at), text(f"event.{e.event_type}"), e.status or e.outcome, e.from_state, e.to_state)
                for e in agent.circuit_events
            ],
            empty="",
        )
    if agent.audit:
        print_table(
            text("audit.title"),
            text.columns("when", "who", "what"),
            [(text.ago(entry.at), entry.actor, entry.action) for entry in agent.audit],
            empty="",
        )
