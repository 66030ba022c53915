"""The marketplace is asked in one way: one place lends agents, one judges answers. Read from the source.

A second place that lends would not count in the limits; a second one that judges would charge somebody else.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src/sellerwatch"

Rule = Callable[[ast.AST], Iterator[str]]

#: Methods by which an agent is chosen and its permit written, and the modules that may call each.
LENDING_METHODS: Mapping[str, set[str]] = {
    ".lend": {"agents/lending.py"},
    ".permits.reserve": {"agents/lending.py"},
    ".agents.candidates": {
        "agents/lending.py",
        "agents/ask.py",
        "agents/sessions.py",
        "crawling/claim.py",
        "crawling/trigger.py",
    },
}
#: Steps of lending and settling, and the modules that take them: single questions, the token page, workers.
STEPS: Mapping[str, set[str]] = {
    "offer": {"agents/ask.py", "crawling/claim.py"},
    "lend_for": {"agents/ask.py", "crawling/claim.py"},
    "lend_visit": {"agents/sessions.py"},
    "judge_answer": {"agents/ask.py", "agents/sessions.py", "crawling/judged_result.py", "crawling/fetch.py"},
    "observe": {"agents/sessions.py", "agents/record_outcomes.py", "crawling/absorb_results.py"},
    # An outage that an answer begins or ends has its effects on runs in the same transaction.
    "record_answer": {"agents/ask.py", "agents/sessions.py"},
    "apply_outage": {"crawling/absorb_results.py", "crawling/context.py"},
    "charge_agents": {"agents/record_outcomes.py"},
}
MODULES = ("lending", "judgement", "outages", "record_outcomes")
#: Requests leave from here only; the client's own module is where they are made.
REQUESTS: Mapping[str, set[str]] = {
    ".marketplace.fetch": {"agents/ask.py", "crawling/fetch.py"},
    ".marketplace.open_session": {"agents/sessions.py"},
}
#: Modules that say what a kind of answer means. The client names the kinds; `judged_result.py` asks if there is a body.
KINDS = {
    "agents/answers.py",
    "agents/judgement.py",
    "marketplaces/mustit/client.py",
    "crawling/judged_result.py",
}
#: Who makes a verdict; `judged_result.py` has the one for an error of our own, where there is no answer.
VERDICTS = {"agents/judgement.py", "crawling/judged_result.py"}
#: Where a status code is a number: the client, our own API, the receiver of events, and what shows them.
CODES = {401, 403, 404, 429, 500, 502, 503}
CODES_MAY_BE_COMPARED = ("marketplaces/", "adapters/", "outbox/", "simulator/", "web/", "compose/", "cli/")


def calls(table: Mapping[str, set[str]]) -> Callable[[str], Rule]:
    """Calls of a name that this module may not make."""

    def of(module: str) -> Rule:
        def rule(tree: ast.AST) -> Iterator[str]:
            for node in ast.walk(tree):
                if isinstance(node, ast.Call | ast.Attribute | ast.Name):
                    said = ast.unparse(node.func if isinstance(node, ast.Call) else node)
                    for name, allowed in table.items():
                        if module not in allowed and _names(said, name):
                            yield f"line {node.lineno} uses {name}"

        return rule

    return of


def _names(said: str, name: str) -> bool:
    """Names that begin with a dot are methods; others are functions, by themselves or as a module's."""
    if name.startswith("."):
        return said.endswith(name)
    return said == name or said in {f"{module}.{name}" for module in MODULES}


def judging(module: str) -> Rule:
    """A kind of answer looked at, a verdict made, or a status code compared, elsewhere than in the one table."""

    def rule(tree: ast.AST) -> Iterator[str]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "AnswerKind" and module not in KINDS:
                yield f"line {node.lineno} decides by {ast.unparse(node)}"
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Verdict" and module not in VERDICTS:
                yield f"line {node.lineno} makes a verdict"
            if isinstance(node, ast.Compare) and not module.startswith(CODES_MAY_BE_COMPARED):
                numbers = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and type(n.value) is int}
                if numbers & CODES and "status" in ast.unparse(node):
                    yield f"line {node.lineno} decides by a status code"

    return rule


#: Other people's words: the outbox has verdicts on deliveries, the simulator on requests.
JUDGED_ELSEWHERE = ("outbox/", "simulator/", "schedules/", "adapters/")


def across(rule_of: Callable[[str], Rule], exempt: tuple[str, ...] = ("simulator/",)) -> list[str]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE).as_posix()
        if not module.startswith(exempt):
            found += [f"{module}: {said}" for said in rule_of(module)(ast.parse(path.read_text("utf-8")))]
    return found


def test_one_place_lends_agents_and_writes_permits() -> None:
    # The limiters behind the port are what the one place calls.
    limiters = ("agents/limiter.py", "agents/ports.py", "adapters/")
    assert across(calls(LENDING_METHODS), exempt=("simulator/", *limiters)) == []


def test_lending_and_settling_are_done_by_those_who_ask() -> None:
    defined = ("agents/lending.py", "agents/judgement.py", "agents/outages.py", "agents/limiter.py", "agents/ports.py")
    assert across(calls(STEPS), exempt=("simulator/", "adapters/", *defined)) == []


def test_requests_to_the_marketplace_leave_by_those_who_were_lent_an_agent() -> None:
    assert across(calls(REQUESTS)) == []


def test_one_table_says_what_an_answer_means() -> None:
    assert across(judging, exempt=JUDGED_ELSEWHERE) == []


def test_every_kind_of_answer_stands_in_the_table() -> None:
    from sellerwatch.agents.answers import AnswerKind  # noqa: PLC0415
    from sellerwatch.agents.judgement import VERDICTS as TABLE  # noqa: PLC0415

    assert set(TABLE) == set(AnswerKind)


def test_what_the_tables_here_allow_is_still_done_there() -> None:
    """An entry that nobody needs any more would let a second place come back unseen."""
    stale = []
    for table in (LENDING_METHODS, STEPS, REQUESTS):
        for name, modules in table.items():
            for module in modules:
                source = (PACKAGE / module).read_text("utf-8")
                if not list(calls({name: set()})(module)(ast.parse(source))):
                    stale.append(f"{module} does not use {name}")
    assert stale == []


@pytest.mark.parametrize(
    ("rule_of", "plant"),
    [
        (calls(LENDING_METHODS), "permits = tx.permits.reserve(grants, [None], worker_id, at)"),
        (calls(LENDING_METHODS), "lending = terms.limiter.lend(tx, ahead, candidates, 1, limits, at)"),
        (calls(LENDING_METHODS), "best = max(tx.agents.candidates(at))"),
        (calls(STEPS), "verdict = judge_answer(answer)"),
        (calls(STEPS), "from sellerwatch.agents import lending\nlending.lend_for(tx, offered, [None], me, terms, at)"),
        (calls(STEPS), "reserve = partial(offer, tx)"),
        (calls(REQUESTS), "answer = await crawl.marketplace.fetch(url, identity, now)"),
        (judging, "if answer.kind is AnswerKind.TOO_MANY: ..."),
        (judging, "good = {AnswerKind.OK}"),
        (judging, "mine = Verdict(TaskEnd.DONE, Outcome.SUCCESS)"),
        (judging, "if answer.status == 401: ..."),
        (judging, "if answer.status in (401, 403): ..."),
        (judging, "again = 429 == status"),
    ],
)
def test_a_planted_second_way_is_caught(rule_of: Callable[[str], Rule], plant: str) -> None:
    assert list(rule_of("crawling/elsewhere.py")(ast.parse(plant))) != []
