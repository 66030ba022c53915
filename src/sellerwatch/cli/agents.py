"""`sellerwatch agents`: show the agents of the pool, and suspend, block, add and remove them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from sellerwatch.agents import commands, pool_status, queries
from sellerwatch.agents.agent import AgentName, AgentStatus
from sellerwatch.agents.agent_list import AgentChoice, AgentSort, list_agents
from sellerwatch.agents.budget_history import budget_history
from sellerwatch.agents.open_circuits import list_open_circuits
from sellerwatch.cli import agents_output, session
from sellerwatch.cli.help import CommandApp
from sellerwatch.cli.output import print_refusal, print_view
from sellerwatch.cli.session import AsJson, DryRun, Limit, say
from sellerwatch.cli.texts import Texts
from sellerwatch.cli.times import parse_time
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.errors import Invalid
from sellerwatch.operations.recount import recount_pool

if TYPE_CHECKING:
    from sellerwatch.agents.commands import ChangedAgentsView, ChangedAgentView, RekeyedView
    from sellerwatch.cli.database_session import CommandSession

app = CommandApp()

_LENGTH = re.compile(r"([0-9]{1,9}) ?(s|sec|m|min|h|d)", re.IGNORECASE)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
TEXTS = "cli_agents"
LONGEST_SUSPENSION = timedelta(days=365)

AgentArgument = Annotated[str, typer.Argument(metavar="AGENT")]
AgentArguments = Annotated[list[str], typer.Argument(metavar="AGENT...")]


class TokenSort(StrEnum):
    """The order of the list of tokens: the oldest, those to be renewed next, or those whose renewals fail."""

    AGE = "age"
    RENEWAL = "renewal"
    FAILURES = "failures"


TOKEN_SORTS = {
    TokenSort.AGE: AgentSort.TOKEN_AGE,
    TokenSort.RENEWAL: AgentSort.RENEWAL,
    TokenSort.FAILURES: AgentSort.RENEWAL_FAILURES,
}


@dataclass(eq=False)
class UnreadableRest(Invalid):
    """Not a length of time for which an agent can be suspended."""

    given: str


@app.command("list")
def list_(
    status: Annotated[AgentStatus | None, typer.Option("--status", case_sensitive=False)] = None,
    circuit: Annotated[CircuitState | None, typer.Option("--circuit", case_sensitive=False)] = None,
    limited: Annotated[bool, typer.Option("--limited")] = False,
    sort: Annotated[AgentSort, typer.Option("--sort", case_sensitive=False)] = AgentSort.NUMBER,
    since: str | None = None,
    until: str | None = None,
    limit: Limit = 1000,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch agents list --status SUSPENDED --json
    sellerwatch agents list --sort failures --since 24h --limit 20
    sellerwatch agents list --limited --sort 429 --since 1h
    """
    with session.command_session() as at:
        times = parse_time(since, at.now), parse_time(until, at.now)
        choice = AgentChoice(status, circuit, sort, *times, limited=limited, limit=limit)
        found = at.ask(list_agents, at.operations.pool, choice)
        if as_json:
            print_view(found)
        else:
            agents_output.print_agents(found, choice, at.texts(TEXTS))


@app.command()
def tokens(
    sort: Annotated[TokenSort, typer.Option("--sort", case_sensitive=False)] = TokenSort.AGE,
    limit: Limit = 1000,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch agents tokens
    sellerwatch agents tokens --sort failures --limit 20
    """
    with session.command_session() as at:
        found = at.ask(list_agents, at.operations.pool, AgentChoice(sort=TOKEN_SORTS[sort], limit=limit))
        at.show(found, agents_output.print_tokens, TEXTS, as_json=as_json)


@app.command()
def circuits(as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch agents circuits
    """
    with session.command_session() as at:
        found = at.ask(list_open_circuits, at.operations.pool)
        at.show(found, agents_output.print_circuits, TEXTS, as_json=as_json)


@app.command()
def budget(as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch agents budget
    """
    with session.command_session() as at:
        found = at.ask(budget_history, at.operations.pool)
        at.show(found, agents_output.print_budget, TEXTS, as_json=as_json)


@app.command()
def show(agent: AgentArgument, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch agents show 17
    sellerwatch agents show 0198c0de-0000-7000-8006-000000000001 --json
    """
    name = AgentName.parse(session.text(agent))
    with session.command_session() as at:
        found = at.ask(queries.show_agent, at.operations.pool, name)
        at.show(found, agents_output.print_agent, TEXTS, as_json=as_json)


@app.command()
def status(as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch agents status
    sellerwatch agents status --json
    """
    with session.command_session() as at:
        found = at.ask(pool_status.pool_status, at.operations.pool)
        at.show(found, agents_output.print_pool, TEXTS, as_json=as_json)


@app.command()
def add(
    user_agent: Annotated[str, typer.Argument(metavar="USER_AGENT")],
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch agents add "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
    """
    with session.command_session(dry_run=dry_run) as at:
        added = at.run(commands.add_agent, at.operations.pool, user_agent)
        if as_json:
            print_view(added)
        else:
            text = at.texts(TEXTS)
            if dry_run:
                say(text("dry_run"), "dim")
            say(text("added", number=str(added.number), agent=added.agent_id), "green")


@app.command()
def remove(agents: AgentArguments, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch agents remove 17
    """

    _change(
        agents,
        lambda at, names: at.run(commands.remove_agents, at.operations.pool, names),
        lambda text, agent: text("removed", agent=agent.agent_id, user_agent=agent.user_agent),
        dry_run=dry_run,
        as_json=as_json,
    )


@app.command()
def suspend(
    agents: AgentArguments,
    length: Annotated[str | None, typer.Option("--for", metavar="TIME")] = None,
    reason: str | None = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch agents suspend 17 --for 2h
    sellerwatch agents suspend 17 18 --reason "checking a complaint"
    """
    lasting = None if length is None else _length(length)
    given = None if reason is None else session.text(reason)
    _change(
        agents,
        lambda at, names: at.run(commands.suspend_agents, at.operations.pool, names, lasting, given),
        _changed,
        dry_run=dry_run,
        as_json=as_json,
    )


@app.command()
def recover(agents: AgentArguments, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch agents recover 17
    """
    _change(
        agents, lambda at, names: at.run(commands.recover_agents, names), _changed, dry_run=dry_run, as_json=as_json
    )


@app.command()
def block(
    agents: AgentArguments,
    reason: Annotated[str, typer.Option("--reason")],
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Examples:

    sellerwatch agents block 17 --reason "the marketplace complained"
    """
    given = session.text(reason)
    _change(
        agents,
        lambda at, names: at.run(commands.block_agents, names, given),
        _changed,
        dry_run=dry_run,
        as_json=as_json,
    )


@app.command()
def unblock(agents: AgentArguments, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch agents unblock 17
    sellerwatch agents unblock 17 18 19 --json
    """
    _change(
        agents, lambda at, names: at.run(commands.unblock_agents, names), _changed, dry_run=dry_run, as_json=as_json
    )


@app.command()
def recount(dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch agents recount --dry-run
    sellerwatch agents recount
    """
    with session.command_session(dry_run=dry_run) as at:
        done = at.wait(recount_pool(at.operations))
        at.show(done, agents_output.print_recounted, TEXTS, as_json=as_json)


@app.command()
def rotate(agents: AgentArguments, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch agents rotate 17 18
    """
    _change(
        agents,
        lambda at, names: at.run(commands.rotate_tokens, names),
        lambda text, agent: text("rotated", agent=agent.agent_id),
        dry_run=dry_run,
        as_json=as_json,
    )


@app.command()
def rekey(dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch agents rekey --dry-run
    sellerwatch agents rekey
    """
    from sellerwatch.compose.keys import open_sealer  # noqa: PLC0415 - cryptography, for one command

    with session.command_session(dry_run=dry_run) as at:
        done = at.run(commands.rekey_tokens, open_sealer(at.settings))
        if as_json:
            print_view(done)
        else:
            _print_rekeyed(done, at.texts(TEXTS))
    if done.unopened:
        raise typer.Exit(3 if done.resealed or done.current else 1)


def _print_rekeyed(done: RekeyedView, text: Texts) -> None:
    if done.resealed:
        key = "rekey.would" if done.dry_run else "rekey.done"
        say(text(key, n=done.resealed, key=done.key_id, current=done.current), "green")
    elif done.current:
        say(text("rekey.current", n=done.current, key=done.key_id), "green")
    elif not done.unopened:
        say(text("rekey.nothing"), "dim")
    for agent_id in done.unopened:
        print_refusal(text("rekey.unopened", agent=agent_id))


def _change(
    given: Sequence[str],
    run: Callable[[CommandSession, Sequence[str]], ChangedAgentsView],
    sentence: Callable[[Texts, ChangedAgentView], str],
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Run a command on agents and print a sentence for each that was changed."""
    names = [session.text(name) for name in given]
    with session.command_session(dry_run=dry_run) as at:
        changed, text = run(at, names), at.texts(TEXTS)
    sentences = [sentence(text, agent) for agent in changed.agents]
    if dry_run:
        sentences.insert(0, text("dry_run"))
    session.report_bulk(changed, "\n".join(sentences), as_json=as_json)


def _changed(text: Texts, agent: ChangedAgentView) -> str:
    if agent.suspended_until is not None:
        until = f"{agent.suspended_until:%Y-%m-%d %H:%M:%S}"
        return text("changed.until", agent=agent.agent_id, status=agent.status, until=until, reason=agent.reason)
    key = "changed.why" if agent.reason else "changed"
    return text(key, agent=agent.agent_id, status=agent.status, reason=agent.reason)


def _length(given: str) -> timedelta:
    read = _LENGTH.fullmatch(given.strip())
    length = timedelta(seconds=int(read[1]) * _UNITS[read[2][0].lower()]) if read else timedelta(0)
    if not timedelta(0) < length <= LONGEST_SUSPENSION:
        raise UnreadableRest(given=session.text(given)[:100])
    return length
