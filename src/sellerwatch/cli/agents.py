"""`sellerwatch agents`: the identities we ask as, how they are, and what can be done about it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from sellerwatch.agents.agent import LONGEST_REASON, Agent, AgentStatus
from sellerwatch.agents.overview import Pool
from sellerwatch.cli import session
from sellerwatch.cli.agents_output import (
    event_json,
    last_hour_json,
    pool_json,
    print_events,
    print_last_hour,
    print_pool,
    print_standing,
    print_standings,
    standing_json,
)
from sellerwatch.cli.output import err, print_json
from sellerwatch.cli.session import AsJson, Desk, say, this_moment
from sellerwatch.kernel.errors import Invalid
from sellerwatch.kernel.views import view_json
from sellerwatch.oversight.queries import AuditEntryView

if TYPE_CHECKING:
    from sellerwatch.agents.agent_status import AgentDetails, CircuitEvent
    from sellerwatch.agents.commands import AgentName, Moved, Rekeyed
    from sellerwatch.agents.limits import Limits
    from sellerwatch.agents.ports import LastHour
    from sellerwatch.kernel.clock import Moment
    from sellerwatch.operations.ports import ServiceTx
    from sellerwatch.oversight.audit import AuditEntry
    from sellerwatch.settings.model import Settings

app = typer.Typer(no_args_is_help=True, help="Look at the agents we ask as; suspend, block and mend them.")

LAST_EVENTS = 10
_REST = re.compile(r"([0-9]{1,9}) ?(s|sec|m|min|h|d)", re.IGNORECASE)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
LONGEST_REST = timedelta(days=365)

AgentArgument = Annotated[str, typer.Argument(metavar="AGENT", help="Its number in `agents list`, or its UUID.")]
AgentArguments = Annotated[list[str], typer.Argument(metavar="AGENT...", help="Numbers as in `agents list`, or UUIDs.")]


@dataclass(eq=False)
class UnreadableRest(Invalid):
    """Not a length of time that an agent can rest for."""

    given: str


@app.command("list")
def list_(
    status: Annotated[
        AgentStatus | None, typer.Option("--status", case_sensitive=False, help="Only those in this state.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the agents: health, budget used in the window, circuit, token, and why one rests and until when.

    \b
    sellerwatch agents list
    sellerwatch agents list --status SUSPENDED --json
    """
    when = this_moment()

    def work(tx: ServiceTx, at: Desk) -> tuple[list[AgentDetails], datetime]:
        everyone = _standings(tx, at, when)
        return [standing for standing in everyone if status in (None, standing.agent.status)], at.now

    found, now = session.look(work)
    if as_json:
        print_json({"content": [standing_json(standing, now) for standing in found]})
        return
    nothing = 'No agents: nothing can be crawled. Add one: sellerwatch agents add "Mozilla/5.0 ..."'
    if status is not None:
        nothing = f"No agent is {status}. All of them: sellerwatch agents list"
    print_standings(f"Agents ({len(found)})", found, now, empty=nothing)


@dataclass(frozen=True)
class _Shown:
    standing: AgentDetails
    hour: LastHour
    events: Sequence[CircuitEvent]
    entries: Sequence[AuditEntry]
    now: datetime


@app.command()
def show(agent: AgentArgument, as_json: AsJson = False) -> None:
    """Show an agent: what it did in the last hour, why it is where it is, and when it is back.

    \b
    sellerwatch agents show 17
    sellerwatch agents show 0198c0de-0000-7000-8006-000000000001 --json
    """
    (name,), when = _names([agent]), this_moment()

    def work(tx: ServiceTx, at: Desk) -> _Shown:
        from sellerwatch.agents.commands import find_agent  # noqa: PLC0415

        stored = find_agent(tx, name)
        standing = next(one for one in _standings(tx, at, when) if one.row == stored.row)
        entries = tx.audit.newest(limit=LAST_EVENTS, subject_type="agent", subject_id=stored.agent.user_agent_id)
        hour = tx.usage_log.last_hour(stored.row, at.now)
        return _Shown(standing, hour, tx.pool_report.circuit_events(stored.row, LAST_EVENTS), entries, at.now)

    found = session.look(work)
    if as_json:
        more = {
            "lastHour": last_hour_json(found.hour),
            "circuitEvents": [event_json(event) for event in found.events],
            "audit": [view_json(AuditEntryView.of(entry)) for entry in found.entries],
        }
        print_json(standing_json(found.standing, found.now) | more)
        return
    print_standing(found.standing, found.now)
    print_last_hour(found.hour)
    print_events(found.events, found.entries, found.now)


@app.command()
def status(as_json: AsJson = False) -> None:
    """Show how the pool is: who is available, what budget is left, circuits, the breaker, and who met a 429.

    \b
    sellerwatch agents status
    sellerwatch agents status --json
    """
    when = this_moment()

    def work(tx: ServiceTx, at: Desk) -> Pool:
        from sellerwatch.agents.breaker import BreakerRules  # noqa: PLC0415
        from sellerwatch.compose.database import lost_permits  # noqa: PLC0415

        rules = BreakerRules(
            at.settings.breaker_min_available_percent, timedelta(seconds=at.settings.breaker_open_seconds)
        )
        breaker = tx.circuits.breaker().look(*tx.agents.tally(), rules, at.now)
        restored = lost_permits(at.settings, tx.windows.highest())
        return Pool(_standings(tx, at, when), _limits(tx, at), breaker, rules, restored, at.now)

    pool = session.look(work)
    if as_json:
        print_json(pool_json(pool))
    else:
        print_pool(pool)


@app.command()
def add(
    user_agent: Annotated[str, typer.Argument(metavar="USER_AGENT", help="The whole string, in quotes.")],
    as_json: AsJson = False,
) -> None:
    """Add an agent to the pool. It gets its token when work waits for it.

    \b
    sellerwatch agents add "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
    """
    when = this_moment()

    def work(tx: ServiceTx, at: Desk) -> tuple[AgentDetails, datetime]:
        from sellerwatch.agents.commands import add_agent  # noqa: PLC0415

        made = add_agent(tx, user_agent, _limits(tx, at), actor=at.actor, ids=at.ids, at=when)
        return next(one for one in _standings(tx, at, when) if one.row == made.row), at.now

    made, now = session.change(work)
    if as_json:
        print_json(standing_json(made, now))
        return
    say(f"Added agent #{made.row} ({made.agent.user_agent_id}); it gets its token when work waits for it.", "green")


@app.command()
def remove(agents: AgentArguments, as_json: AsJson = False) -> None:
    """Take agents out of the pool for good; to have one back, add its string again. What they asked stays in the log.

    \b
    sellerwatch agents remove 17
    """
    when = this_moment()

    def work(tx: ServiceTx, at: Desk, names: Sequence[AgentName]) -> Moved:
        from sellerwatch.agents.commands import remove_agents  # noqa: PLC0415

        return remove_agents(tx, names, _limits(tx, at), actor=at.actor, at=when)

    _move(agents, work, lambda agent: f"Removed {agent.user_agent_id}: {agent.user_agent}", as_json=as_json)


@app.command()
def suspend(
    agents: AgentArguments,
    rest: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="Such as 30m or 2h; default AGENT_SUSPENSION_SECONDS.")
    ] = None,
    reason: Annotated[str | None, typer.Option("--reason", help="Why, for whoever looks at it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Let agents rest. They come back by themselves; a rest that lasts longer already stays.

    \b
    sellerwatch agents suspend 17 --for 2h
    sellerwatch agents suspend 17 18 --reason "checking a complaint"
    """
    length = None if rest is None else _rest(rest)
    given = None if reason is None else _reason(reason)

    def work(tx: ServiceTx, at: Desk, names: Sequence[AgentName]) -> Moved:
        from sellerwatch.agents.commands import suspend_agents  # noqa: PLC0415

        lasting = length or timedelta(seconds=at.settings.agent_suspension_seconds)
        return suspend_agents(tx, names, lasting, given or f"by {at.actor}", actor=at.actor, now=at.now)

    _move(agents, work, _told, as_json=as_json, alert=True)


@app.command()
def recover(agents: AgentArguments, as_json: AsJson = False) -> None:
    """Bring suspended agents back before their rest is over. Each gets a new token.

    \b
    sellerwatch agents recover 17
    """

    def work(tx: ServiceTx, at: Desk, names: Sequence[AgentName]) -> Moved:
        from sellerwatch.agents.commands import recover_agents  # noqa: PLC0415

        return recover_agents(tx, names, actor=at.actor, now=at.now)

    _move(agents, work, _told, as_json=as_json)


@app.command()
def block(
    agents: AgentArguments,
    reason: Annotated[str, typer.Option("--reason", help="Why, for whoever looks at it.")],
    as_json: AsJson = False,
) -> None:
    """Keep agents out until somebody unblocks them.

    \b
    sellerwatch agents block 17 --reason "the marketplace complained"
    """
    given = _reason(reason)

    def work(tx: ServiceTx, at: Desk, names: Sequence[AgentName]) -> Moved:
        from sellerwatch.agents.commands import block_agents  # noqa: PLC0415

        return block_agents(tx, names, given, actor=at.actor, now=at.now)

    _move(agents, work, _told, as_json=as_json, alert=True)


@app.command()
def unblock(agents: AgentArguments, as_json: AsJson = False) -> None:
    """Bring blocked agents back and close their circuits.

    \b
    sellerwatch agents unblock 17
    sellerwatch agents unblock 17 18 19 --json
    """

    def work(tx: ServiceTx, at: Desk, names: Sequence[AgentName]) -> Moved:
        from sellerwatch.agents.commands import unblock_agents  # noqa: PLC0415

        return unblock_agents(tx, names, actor=at.actor, now=at.now)

    _move(agents, work, _told, as_json=as_json)


@app.command()
def rotate(agents: AgentArguments, as_json: AsJson = False) -> None:
    """Throw the tokens of agents away. A running service issues new ones when work waits for these agents.

    \b
    sellerwatch agents rotate 17 18
    """

    def work(tx: ServiceTx, at: Desk, names: Sequence[AgentName]) -> Moved:
        from sellerwatch.agents.commands import rotate_tokens  # noqa: PLC0415

        return rotate_tokens(tx, names, actor=at.actor, now=at.now)

    _move(agents, work, lambda agent: f"The token of {agent.user_agent_id} was thrown away.", as_json=as_json)


@app.command()
def rekey(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    as_json: AsJson = False,
) -> None:
    """Seal every token with the first key of TOKEN_KEYS. Put the new key in front, restart the services, rekey, and
    drop the old key.

    \b
    sellerwatch agents rekey --dry-run
    sellerwatch agents rekey
    """

    def work(tx: ServiceTx, at: Desk) -> Rekeyed:
        from sellerwatch.agents import commands  # noqa: PLC0415
        from sellerwatch.compose.keys import open_sealer  # noqa: PLC0415

        return commands.rekey(tx, open_sealer(at.settings), dry_run=dry_run, actor=at.actor, now=at.now)

    done = session.look(work) if dry_run else session.change(work)
    if as_json:
        counts = {"dryRun": dry_run, "keyId": done.key_id, "resealed": done.resealed, "current": done.current}
        print_json(counts | {"unopened": list(done.unopened)})
    else:
        _say_rekeyed(done, dry_run)
    if done.unopened:
        raise typer.Exit(3 if done.resealed or done.current else 1)


def _say_rekeyed(done: Rekeyed, dry_run: bool) -> None:
    if done.resealed:
        would = "would be" if dry_run else "were"
        say(f"{done.resealed} token(s) {would} sealed with the key {done.key_id}; {done.current} had it.", "green")
    elif done.current:
        say(f"All {done.current} token(s) have the key {done.key_id} already.", "green")
    elif not done.unopened:
        say("No agent has a token: there is nothing to seal.", "dim")
    for user_agent_id in done.unopened:
        text = f"error: No key opens the token of {user_agent_id}; have a new one: sellerwatch agents rotate"
        err.print(f"{text} {user_agent_id}", style="red", markup=False, highlight=False, soft_wrap=True)


def _move(
    given: Sequence[str],
    work: Callable[[ServiceTx, Desk, Sequence[AgentName]], Moved],
    sentence: Callable[[Agent], str],
    *,
    as_json: bool,
    alert: bool = False,
) -> None:
    """Do something to agents, one by one, and say what became of each."""
    names = _names(given)
    moved, at = session.change(lambda tx, at: (work(tx, at, names), at))
    if alert:
        _alert(at.settings, moved.agents, at.now)
    session.report(moved.handled, "\n".join(sentence(agent) for agent in moved.agents), as_json=as_json)


def _alert(settings: Settings, agents: Sequence[Agent], now: datetime) -> None:
    from sellerwatch.agents.record_outcomes import standing_notice  # noqa: PLC0415
    from sellerwatch.compose.alerts import send_alerts  # noqa: PLC0415
    from sellerwatch.oversight.alerts import Alert  # noqa: PLC0415

    notices = [standing_notice(agent) for agent in agents]
    asyncio.run(send_alerts(settings, [Alert(notice.kind, notice.subject, notice.text, now) for notice in notices]))


def _told(agent: Agent) -> str:
    until = f" until {agent.suspended_until:%Y-%m-%d %H:%M:%S} UTC" if agent.suspended_until else ""
    why = f": {agent.reason}" if agent.reason else ""
    return f"{agent.user_agent_id} is {agent.status}{until}{why}."


def _names(given: Sequence[str]) -> list[AgentName]:
    from sellerwatch.agents.commands import AgentName  # noqa: PLC0415

    return [AgentName.parse(session.text(name)) for name in given]


def _limits(tx: ServiceTx, at: Desk) -> Limits:
    from sellerwatch.compose.rules import tuning_in_force  # noqa: PLC0415

    return tuning_in_force(at.settings, tx.overrides.all()).limits


def _standings(tx: ServiceTx, at: Desk, when: Moment) -> Sequence[AgentDetails]:
    """Windows are reckoned by the boot's clock, so the desk's time alone does not do."""
    return tx.pool_report.standings(when, _limits(tx, at))


def _reason(given: str) -> str:
    return " ".join(session.text(given).split())[:LONGEST_REASON] or "no reason was given"


def _rest(given: str) -> timedelta:
    read = _REST.fullmatch(given.strip())
    rest = timedelta(seconds=int(read[1]) * _UNITS[read[2][0].lower()]) if read else timedelta(0)
    if not timedelta(0) < rest <= LONGEST_REST:
        raise UnreadableRest(given=session.text(given)[:100])
    return rest
