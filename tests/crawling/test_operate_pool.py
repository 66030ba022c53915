"""What an operator does to the pool by hand, and what the pool looks like to one."""

from __future__ import annotations

import logging
import traceback
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Engine
from tests.builders import HOUR, LATER, MINUTE, NOW, SECOND, ids, worker_id
from tests.conftest import ENGINES
from tests.recorded import asked, plan

from sellerwatch.adapters.sealing import AesGcmSealer
from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents import commands
from sellerwatch.agents.agent import (
    AgentExists,
    AgentName,
    AgentNotFound,
    AgentStatus,
    InvalidAgentName,
    InvalidUserAgent,
)
from sellerwatch.agents.agent_status import AgentDetails, FullReason, UnavailableCause, next_free_at, tokens_by_age
from sellerwatch.agents.answers import Session
from sellerwatch.agents.breaker import BreakerRules
from sellerwatch.agents.circuit import Circuit, CircuitEvent, events_of
from sellerwatch.agents.commands import AddedAgentView, ChangedAgentsView, NotOverridden, RekeyedView, RemovedLately
from sellerwatch.agents.limits import Host, Limits, PoolRules
from sellerwatch.agents.pool import Grant
from sellerwatch.agents.ports import Permit, StoredAgent, UsageEntry
from sellerwatch.agents.queries import find_agent
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.clock import Moment
from sellerwatch.kernel.errors import Invalid
from sellerwatch.kernel.ids import ReplayableIds, UserAgentId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.settings.limits import TunableLimits
from sellerwatch.settings.load import load


@pytest.fixture(params=ENGINES)
def on(request: pytest.FixtureRequest) -> str:
    return str(request.param)


ME = "cli:민지"
TOKEN = "eyJhbGciOi.known-token-8d1f.signature"
OLD, NEW = ("old", b"o" * 32), ("new", b"n" * 32)
LIMITS = Limits()
START_US = 10_000_000_000
BOOT = "this-boot"


def at(after: timedelta = timedelta(0), boot_id: str = BOOT) -> Moment:
    return Moment(NOW + after, START_US + after // timedelta(microseconds=1), boot_id)


def context(after: timedelta = timedelta(0)) -> OperationContext:
    return OperationContext(ME, at(after), ReplayableIds(ids(int(after.total_seconds()))).replay())


def rules(limits: Limits = LIMITS) -> PoolRules:
    return PoolRules(BreakerRules(), HOUR, lambda _: limits, lambda _: Host(), lambda _: False)


def names(*given: int | str) -> list[str]:
    return [str(name) for name in given]


def give_token(tx: Transaction, row: int, sealer: AesGcmSealer, text: str = TOKEN) -> UserAgentId:
    user_agent_id = tx.agents.get_rows([row])[row].user_agent_id
    session = Session(f"{text}-{row}", f"known-nid-{row}", f"known-uid-{row}", 2 * HOUR)
    token = sealer.seal(session, bound_to=user_agent_id, issued_at=NOW)
    tx.tokens.keep(row, token, NOW + HOUR)
    return user_agent_id


def open_circuit(tx: Transaction, row: int) -> None:
    opened: Circuit = tx.circuits.get_rows([row])[row]
    events: list[tuple[int, CircuitEvent]] = []
    for _ in range(opened.threshold):
        was, opened = opened, opened.failed(NOW)
        events += ((row, event) for event in events_of(was, opened, NOW, "TOO_MANY", 429))
    tx.circuits.save({row: opened}, events)


def lend(tx: Transaction, row: int, number: int, moment: Moment) -> list[Permit]:
    """So many permits of one agent, unanswered."""
    tx.windows.enter_boot(moment, LIMITS)
    (candidate,) = [c for c in tx.agents.candidates(moment) if c.row == row]
    grant = Grant(candidate, moment.boot_us)
    return list(tx.permits.reserve([grant] * number, [None] * number, worker_id(), moment))


def found(tx: Transaction, row: int) -> StoredAgent:
    return find_agent(tx, AgentName(str(row)))


def standing(tx: Transaction, row: int, moment: Moment, limits: Limits = LIMITS) -> AgentDetails:
    return next(one for one in tx.pool_report.standings(moment, limits) if one.row == row)


async def trail(store: SqlStore) -> list[tuple[str, str]]:
    entries = await store.read(lambda tx: tx.audit.newest(limit=100))
    assert {entry.actor for entry in entries} <= {ME}
    return [(entry.action, entry.subject_id) for entry in reversed(entries)]


# Naming agents


@pytest.mark.parametrize("given", ["", "x", "-1", "1.5", "9" * 19, "٣", "0198c0de", "#"])
def test_an_agent_is_named_by_its_number_or_its_uuid_and_nothing_else(given: str) -> None:
    with pytest.raises(InvalidAgentName) as refusal:
        AgentName.parse(given)
    assert isinstance(refusal.value, Invalid)


async def test_a_number_and_a_uuid_name_the_same_agent(inline_store: SqlStore) -> None:
    def work(tx: Transaction) -> None:
        by_number = find_agent(tx, AgentName.parse("#7"))
        by_id = find_agent(tx, AgentName.parse(by_number.agent.user_agent_id.upper()))
        assert by_number.row == by_id.row == 7
        with pytest.raises(AgentNotFound):
            find_agent(tx, AgentName.parse("12345"))

    await inline_store.read(work)


# Coming and going


async def test_an_added_agent_is_ready_with_a_whole_budget_and_is_on_the_trail(inline_store: SqlStore) -> None:
    given = rules(Limits(window_limit=200))
    made = await inline_store.transact(lambda tx: commands.add_agent(tx, context(), given, " Opera/9 "))
    assert (made.user_agent, made.status, made.budget.left) == ("Opera/9", AgentStatus.AVAILABLE, 80)
    assert await trail(inline_store) == [("agent.add", made.agent_id)]


@pytest.mark.parametrize(("given", "error"), [("", InvalidUserAgent), ("a\nb", InvalidUserAgent), (None, AgentExists)])
async def test_an_agent_that_is_no_header_or_there_already_is_refused(
    inline_store: SqlStore, given: str | None, error: type[Exception]
) -> None:
    def work(tx: Transaction) -> None:
        text = tx.agents.get_rows([1])[1].user_agent if given is None else given
        with pytest.raises(error):
            commands.add_agent(tx, context(), rules(), text)

    await inline_store.transact(work)
    assert await trail(inline_store) == []


async def test_a_removed_agent_with_requests_in_its_window_gets_no_fresh_budget_by_being_added_again(
    inline_store: SqlStore,
) -> None:
    def remove(tx: Transaction) -> dict[int, str]:
        strings = {row: agent.user_agent for row, agent in tx.agents.get_rows([1, 2]).items()}
        lend(tx, 1, 1, at())
        done = commands.remove_agents(tx, context(), rules(), names(1, 2))
        assert len(done.agents) == 2
        assert tx.agents.tally() == (98, 98)
        return strings

    strings = await inline_store.transact(remove)

    def add(tx: Transaction, text: str, after: timedelta) -> AddedAgentView:
        return commands.add_agent(tx, context(after), rules(), text)

    with pytest.raises(RemovedLately, match="Add it after 2026-11-15 07:05:05 UTC"):
        await inline_store.transact(partial(add, text=strings[1], after=HOUR))
    await inline_store.transact(partial(add, text=strings[2], after=SECOND))
    assert (await inline_store.transact(partial(add, text=strings[1], after=HOUR + MINUTE))).budget.left == 80


async def test_the_number_of_a_removed_agent_is_never_used_again(inline_store: SqlStore) -> None:
    """Its permits and its log stay, and would be counted for the new agent."""
    await inline_store.transact(lambda tx: commands.remove_agents(tx, context(), rules(), names(100)))
    made = await inline_store.transact(lambda tx: commands.add_agent(tx, context(), rules(), "Opera/9"))
    assert made.number > 100
    assert made.budget.left == 80


# Resting, blocking and coming back


async def test_a_suspension_can_be_made_longer_but_not_shorter(inline_store: SqlStore) -> None:
    async def suspend(rest: timedelta) -> ChangedAgentsView:
        return await inline_store.transact(
            lambda tx: commands.suspend_agents(tx, context(), rules(), names(3), rest, "quiet")
        )

    for rest, until in ((HOUR, LATER), (MINUTE, LATER), (2 * HOUR, NOW + 2 * HOUR)):
        (agent,) = (await suspend(rest)).agents
        assert (agent.status, agent.suspended_until, agent.reason) == (AgentStatus.SUSPENDED, until, "quiet")


async def test_a_recovered_agent_has_health_70_and_no_token_yet(inline_store: SqlStore) -> None:
    def work(tx: Transaction) -> StoredAgent:
        give_token(tx, 3, AesGcmSealer([OLD]))
        commands.suspend_agents(tx, context(), rules(), names(3), HOUR, "quiet")
        commands.recover_agents(tx, context(), names(3))
        return found(tx, 3)

    stored = await inline_store.transact(work)
    assert (stored.agent.status, stored.agent.health_score, stored.token_issued_at) == (
        AgentStatus.AVAILABLE,
        70,
        None,
    )
    user_agent_id = stored.agent.user_agent_id
    assert await trail(inline_store) == [("agent.suspend", user_agent_id), ("agent.recover", user_agent_id)]


async def test_unblocking_closes_the_circuit_and_keeps_both_in_the_history(inline_store: SqlStore) -> None:
    def work(tx: Transaction) -> StoredAgent:
        open_circuit(tx, 4)
        commands.block_agents(tx, context(), names(4), "a complaint")
        assert found(tx, 4).agent.reason == "a complaint"
        commands.unblock_agents(tx, context(HOUR), names(4))
        return found(tx, 4)

    stored = await inline_store.transact(work)
    assert (stored.agent.status, stored.circuit.state) == (AgentStatus.AVAILABLE, CircuitState.CLOSED)
    events = await inline_store.read(lambda tx: tx.pool_report.circuit_events(4, 10))
    assert [(e.event_type, e.to_state) for e in events] == [
        ("STATE_CHANGE", "CLOSED"),
        ("STATE_CHANGE", "OPEN"),
        ("FAILURE", None),
        ("FAILURE", None),
        ("FAILURE", None),
    ]
    (entry, _) = await inline_store.read(lambda tx: tx.audit.newest(limit=2))
    assert entry.before is not None
    assert entry.after is not None
    assert (entry.before["circuit"], entry.after["circuit"]) == ("OPEN", "CLOSED")


async def test_what_is_refused_keeps_nothing_else_from_being_done(inline_store: SqlStore) -> None:
    def work(tx: Transaction) -> ChangedAgentsView:
        commands.suspend_agents(tx, context(), rules(), names(1, 2), HOUR, "quiet")
        return commands.recover_agents(tx, context(), names(1, 3, 999, 2, found(tx, 1).agent.user_agent_id))

    moved = await inline_store.transact(work)
    assert len(moved.done) == len(moved.agents) == 2
    assert [refused.error_code for refused in moved.refused] == ["ILLEGAL_MOVE", "AGENT_NOT_FOUND"]
    assert len(await trail(inline_store)) == 4


# Tokens


async def test_rotating_throws_the_token_away_and_only_where_there_is_one(inline_store: SqlStore) -> None:
    def work(tx: Transaction) -> ChangedAgentsView:
        give_token(tx, 1, AesGcmSealer([OLD]))
        moved = commands.rotate_tokens(tx, context(), names(1, 2))
        assert found(tx, 1).token_issued_at is None
        assert tx.tokens.due(NOW + HOUR, 10) == []
        return moved

    moved = await inline_store.transact(work)
    assert [refused.error_code for refused in moved.refused] == ["NO_TOKEN"]
    assert await trail(inline_store) == [("agent.rotate", moved.agents[0].agent_id)]


async def test_rekeyed_tokens_open_without_the_old_key(inline_store: SqlStore) -> None:
    def seal(tx: Transaction) -> None:
        for row in (1, 2):
            give_token(tx, row, AesGcmSealer([OLD]))
        give_token(tx, 3, AesGcmSealer([NEW]))
        give_token(tx, 4, AesGcmSealer([("lost", b"l" * 32)]))

    await inline_store.transact(seal)
    both = AesGcmSealer([NEW, OLD])

    def rekey(tx: Transaction) -> RekeyedView:
        return commands.rekey_tokens(tx, context(), both)

    done = await inline_store.transact(rekey)
    assert (done.key_id, done.resealed, done.current, len(done.unopened)) == ("new", 2, 1, 1)
    again = await inline_store.transact(rekey)
    assert (again.resealed, again.current) == (0, 3)
    assert await trail(inline_store) == [("agent.rekey", "all")]

    def opened(tx: Transaction) -> list[Session]:
        sealed = [(user_agent_id, token) for _, user_agent_id, token in tx.tokens.sealed() if token.key_id == "new"]
        return [AesGcmSealer([NEW]).open(token, user_agent_id) for user_agent_id, token in sealed]

    assert await inline_store.read(opened) == [
        Session(f"{TOKEN}-{row}", f"known-nid-{row}", f"known-uid-{row}", 2 * HOUR) for row in (1, 2, 3)
    ]


async def test_nothing_of_a_token_is_in_a_repr_a_log_line_or_a_traceback(
    inline_store: SqlStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    def work(tx: Transaction) -> str:
        user_agent_id = give_token(tx, 1, AesGcmSealer([OLD]))
        told = [repr(found(tx, 1)), repr(standing(tx, 1, at())), repr(tx.agents.candidates(at())[0])]
        told += [repr(tx.tokens.sealed()), repr(AesGcmSealer([OLD]))]
        for sealer, whose in ((AesGcmSealer([NEW]), user_agent_id), (AesGcmSealer([OLD]), UserAgentId("another"))):
            try:
                sealer.open(tx.tokens.sealed()[0][2], whose)
            except Invalid as error:
                told.append("".join(traceback.format_exception(error)))
        told.append(repr(commands.rekey_tokens(tx, context(), AesGcmSealer([NEW, OLD]))))
        told.append(repr(commands.rotate_tokens(tx, context(), names(1))))
        told.append(repr(tx.audit.newest(limit=10)))
        return "\n".join(told)

    told = await inline_store.transact(work) + caplog.text
    assert "Token(sealed)" in told
    assert not [secret for secret in ("known-token", "known-nid", "known-uid") if secret in told]


# The limits


LIMITS_SET = TunableLimits(load({}).settings)


async def test_a_changed_limit_is_kept_with_before_and_after(inline_store: SqlStore) -> None:
    async def set_to(value: str) -> tuple[Any, Any]:
        changed = await inline_store.transact(
            lambda tx: commands.set_limit(tx, context(), LIMITS_SET, "window-limit", value)
        )
        return changed.before, changed.after

    assert await set_to("60") == (80, 60)
    assert await set_to("40") == (60, 40)
    assert await inline_store.read(lambda tx: tx.overrides.all()) == {"window_limit": "40"}
    with pytest.raises(Invalid):
        await set_to("many")

    def unset(tx: Transaction) -> tuple[Any, Any]:
        changed = commands.unset_limit(tx, context(), LIMITS_SET, "WINDOW_LIMIT")
        return changed.before, changed.after

    assert await inline_store.transact(unset) == (40, 80)
    with pytest.raises(NotOverridden):
        await inline_store.transact(unset)
    entries = await inline_store.read(lambda tx: tx.audit.newest(limit=10, subject_type="setting"))
    assert [(e.action, e.subject_id, e.before, e.after) for e in reversed(entries)] == [
        ("limit.set", "WINDOW_LIMIT", {"value": 80}, {"value": 60}),
        ("limit.set", "WINDOW_LIMIT", {"value": 60}, {"value": 40}),
        ("limit.unset", "WINDOW_LIMIT", {"value": 40}, {"value": 80}),
    ]


async def test_a_limit_that_has_become_wrong_can_be_mended_and_taken_back(inline_store: SqlStore) -> None:
    def work(tx: Transaction) -> None:
        tx.overrides.set("window_limit", "broken", ME, NOW)
        mended = commands.set_limit(tx, context(), LIMITS_SET, "WINDOW_LIMIT", "60")
        assert (mended.before, mended.after) == (80, 60)
        tx.overrides.set("window_limit", "broken", ME, NOW)
        unset = commands.unset_limit(tx, context(), LIMITS_SET, "WINDOW_LIMIT")
        assert (unset.before, unset.after) == (80, 80)

    await inline_store.transact(work)


# Where agents stand


async def test_a_window_is_shown_as_the_next_claim_will_find_it(inline_store: SqlStore) -> None:
    def ask(tx: Transaction) -> None:
        first, second, _ = lend(tx, 1, 3, at())
        tx.permits.answer([first.number], at(SECOND))
        tx.permits.answer([second.number], at(MINUTE))

    await inline_store.transact(ask)

    async def window(after: timedelta) -> tuple[int, int, timedelta | None]:
        seen = (await inline_store.read(lambda tx: standing(tx, 1, at(after)))).window
        return seen.used, seen.left, None if seen.free_at is None else seen.free_at - NOW

    assert await window(MINUTE) == (3, 77, HOUR + SECOND)
    assert await window(HOUR + SECOND) == (2, 78, HOUR + MINUTE)
    assert await window(HOUR + MINUTE) == (1, 79, None)


async def test_what_an_earlier_boot_left_counts_until_this_boot_is_a_window_old(inline_store: SqlStore) -> None:
    def ask(tx: Transaction) -> None:
        (first, _) = lend(tx, 1, 2, at())
        tx.permits.answer([first.number], at(SECOND))

    await inline_store.transact(ask)

    def used(tx: Transaction, seconds: int) -> int:
        return standing(tx, 1, Moment(LATER, seconds * 1_000_000, "next-boot")).window.used

    assert await inline_store.read(partial(used, seconds=60)) == 2
    assert await inline_store.read(partial(used, seconds=3600)) == 0


async def test_a_window_that_counts_as_full_says_until_when(inline_store: SqlStore) -> None:
    def prepare(tx: Transaction) -> None:
        tx.windows.enter_boot(at(), LIMITS)
        tx.windows.fill(at(), LIMITS, FullReason.RESTORED)

    await inline_store.transact(prepare)

    def look(tx: Transaction) -> None:
        full = standing(tx, 1, at(MINUTE))
        assert (full.window.left, full.window.full_until) == (0, LATER)
        assert (full.unavailable_cause(NOW), full.back_at(NOW)) == (UnavailableCause.WINDOW_FULL, LATER)
        assert standing(tx, 1, at(HOUR)).window.left == 80

    await inline_store.read(look)


async def test_why_an_agent_is_not_asked_and_when_it_is_back(inline_store: SqlStore) -> None:
    def prepare(tx: Transaction) -> None:
        commands.block_agents(tx, context(), names(*range(5, 101)), "not needed")
        tx.permits.answer([permit.number for permit in lend(tx, 1, 80, at())], at())
        open_circuit(tx, 2)
        commands.suspend_agents(tx, context(), rules(), names(3), 2 * HOUR, "quiet")

    await inline_store.transact(prepare)
    seen = await inline_store.read(lambda tx: tx.pool_report.standings(at(), LIMITS))
    causes = {one.row: (one.unavailable_cause(NOW), one.back_at(NOW)) for one in seen[:5]}
    assert causes == {
        1: (UnavailableCause.WINDOW_USED_UP, LATER),
        2: (UnavailableCause.CIRCUIT_OPEN, NOW + 10 * MINUTE),
        3: (UnavailableCause.SUSPENDED, NOW + 2 * HOUR),
        4: (None, None),
        5: (UnavailableCause.BLOCKED, None),
    }
    assert next_free_at(seen, NOW) == NOW
    assert next_free_at(seen[:3], NOW) == NOW + 10 * MINUTE
    assert next_free_at(seen[4:], NOW) is None


async def test_tokens_are_counted_by_age(inline_store: SqlStore) -> None:
    def prepare(tx: Transaction) -> None:
        for row in (1, 2):
            give_token(tx, row, AesGcmSealer([OLD]))

    await inline_store.transact(prepare)
    ages = {"under10Minutes": 0, "under30Minutes": 0, "under1Hour": 0, "older": 0, "expired": 0, "none": 98}
    seen = await inline_store.read(lambda tx: tx.pool_report.standings(at(), LIMITS))
    for after, name in (
        (SECOND, "under10Minutes"),
        (20 * MINUTE, "under30Minutes"),
        (59 * MINUTE, "under1Hour"),
        (HOUR, "older"),
        (2 * HOUR, "expired"),
    ):
        assert tokens_by_age(seen, NOW + after) == ages | {name: 2}


@pytest.mark.parametrize("on", ["sqlite"])
async def test_429s_of_the_last_hour_are_counted_per_agent_by_the_index_alone(
    inline_store: SqlStore, engine: Engine
) -> None:
    def log(tx: Transaction) -> None:
        times = [NOW - 2 * HOUR, NOW - MINUTE, NOW - SECOND]
        tx.usage_log.add(
            [
                UsageEntry(1, None, 429, 10, succeeded=False, rate_limited=True, too_many=True, sent_at=time)
                for time in times
            ]
        )
        tx.usage_log.add(
            [UsageEntry(2, None, 200, 10, succeeded=True, rate_limited=False, too_many=False, sent_at=NOW)]
        )

    await inline_store.transact(log)
    seen = await inline_store.read(lambda tx: tx.pool_report.standings(at(), LIMITS))
    assert {one.row: one.too_many for one in seen if one.too_many} == {1: 2}

    sent = asked(engine, lambda tx: (tx.pool_report.standings(at(), LIMITS), tx.pool_report.circuit_events(1, 10)))
    plans = [line for statement in sent for line in plan(engine, statement).splitlines()]
    assert any("COVERING INDEX token_usage_log__idx_429_errors (is_429_error=? AND agent_id=? AND " in p for p in plans)
    assert sum("COVERING INDEX permits__idx_answered_boot_us (answered_boot_us" in line for line in plans) == 2
    assert any("INDEX circuit_breaker_event__idx_user_agent_time (agent_id=?)" in line for line in plans)
    # Those with a hundred rows are read whole: they are what is reported.
    scanned = {line.split()[1] for line in plans if line.startswith("SCAN")}
    assert scanned <= {"a", "rate_limit_bucket"}
