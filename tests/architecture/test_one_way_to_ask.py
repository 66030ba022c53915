"""The marketplace is asked in one way: one place lends agents, one judges answers. Read from the source.

A second place that lends would not count in the limits; a second one that judges would charge somebody else.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from sellerwatch.agents.answers import AnswerKind
from sellerwatch.agents.judgement import VERDICTS as TABLE

PACKAGE = Path(__file__).parents[2] / "src/sellerwatch"

Rule = Callable[[ast.AST], Iterator[str]]

#: Methods by which an agent is chosen and its permit written, and the modules that may call each.
LENDING_METHODS: Mapping[str, set[str]] = {
    "lend": {"agents/lending.py"},
    "lend_visit": {"agents/lending.py"},
    # Permits, and what a limiter sets aside ahead of them.
    "reserve": {"agents/lending.py", "agents/ask.py", "crawling/claim_ahead.py"},
    "reserve_visit": {"agents/sessions.py"},
    "candidates": {
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
    "record_outcome": {"agents/ask.py"},
    # An outage that an answer begins or ends has its effects on runs in the same transaction.
    "record_answer": {"agents/ask.py", "agents/sessions.py"},
    "apply_outage": {"crawling/absorb_results.py", "crawling/context.py"},
    "charge_agents": {"agents/record_outcomes.py"},
}
#: Modules of those functions.
MODULES = {"lending", "judgement", "outages", "record_outcomes", "context"}
#: Requests leave from here only; the client's own module is where they are made.
REQUESTS: Mapping[str, set[str]] = {
    "fetch": {"agents/ask.py", "crawling/fetch.py"},
    "open_session": {"agents/sessions.py"},
}
#: Modules that say what a kind of answer means. The client names the kinds; `judged_result.py` asks if there is a body.
KINDS = {
    "agents/answers.py",
    "agents/judgement.py",
    "marketplaces/mustit/client.py",
    "crawling/judged_result.py",
}
KIND_NAMES = {kind.value for kind in AnswerKind}
#: Who makes a verdict; `judged_result.py` has the one for an error of our own, where there is no answer.
VERDICTS = {"agents/judgement.py", "crawling/judged_result.py"}
#: Where a status code is a number: the client, our own API, the receiver of events, and what shows them.
CODES = {401, 403, 404, 429, 500, 502, 503}
CODES_MAY_BE_COMPARED = ("marketplaces/", "adapters/", "outbox/", "simulator/", "web/", "compose/", "cli/")


def methods(table: Mapping[str, set[str]]) -> Callable[[str], Rule]:
    """Methods of this name, whatever they are called on, that this module may not use."""

    def of(module: str) -> Rule:
        def rule(tree: ast.AST) -> Iterator[str]:
            for node in ast.walk(tree):
                if isinstance(node, ast.Attribute) and module not in table.get(node.attr, {module}):
                    yield f"line {node.lineno} uses .{node.attr}"

        return rule

    return of


def functions(table: Mapping[str, set[str]]) -> Callable[[str], Rule]:
    """Functions that this module may not use: by name, through their module, or imported under another name."""

    def of(module: str) -> Rule:
        def rule(tree: ast.AST) -> Iterator[str]:
            for node in ast.walk(tree):
                for name in _named_by(node):
                    if module not in table.get(name, {module}):
                        yield f"line {getattr(node, 'lineno', 0)} uses {name}"

        return rule

    return of


def _named_by(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in MODULES:
        yield node.attr
    elif isinstance(node, ast.ImportFrom):
        yield from (alias.name for alias in node.names)


def judging(module: str) -> Rule:
    """A kind of answer looked at, a verdict made, or a status code compared, elsewhere than in the one table."""

    def rule(tree: ast.AST) -> Iterator[str]:
        for node in ast.walk(tree):
            line, names = getattr(node, "lineno", 0), set(_named_by(node))
            if module not in KINDS and ("AnswerKind" in names or _is_kind_of_answer(node)):
                yield f"line {line} looks at the kind of an answer"
            if module not in VERDICTS and ("VERDICTS" in names or _makes_verdict(node)):
                yield f"line {line} makes a verdict"
            if not module.startswith(CODES_MAY_BE_COMPARED) and _compares_code(node):
                yield f"line {line} decides by a status code"

    return rule


def _is_kind_of_answer(node: ast.AST) -> bool:
    """A kind compared with the name of one."""
    if not isinstance(node, ast.Compare) or ".kind" not in ast.unparse(node):
        return False
    return any(isinstance(n, ast.Constant) and n.value in KIND_NAMES for n in ast.walk(node))


def _makes_verdict(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    changed = node.args[0] if node.args and ast.unparse(node.func).endswith("replace") else None
    is_changed = changed is not None and ast.unparse(changed).endswith("verdict")
    return is_changed or "Verdict" in set(_named_by(node.func))


def _compares_code(node: ast.AST) -> bool:
    """A status of an answer in order with something, in hundreds, or compared with a code; a table of codes."""
    if isinstance(node, ast.Dict | ast.Set | ast.Tuple | ast.List):
        entries = node.keys if isinstance(node, ast.Dict) else node.elts
        codes = {entry.value for entry in entries if isinstance(entry, ast.Constant) and type(entry.value) is int}
        return len(codes) > 1 and codes <= CODES
    if isinstance(node, ast.ImportFrom | ast.Attribute):
        return "HTTPStatus" in _named_by_http(node)
    if isinstance(node, ast.MatchValue):
        return _numbers(node) <= CODES and bool(_numbers(node))
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.FloorDiv) and "status" in ast.unparse(node.left)
    if not isinstance(node, ast.Compare):
        return False
    said = ast.unparse(node)
    in_order = any(isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for op in node.ops)
    return "status" in said and (in_order or bool(_numbers(node) & CODES))


def _named_by_http(node: ast.ImportFrom | ast.Attribute) -> set[str]:
    if isinstance(node, ast.ImportFrom):
        return {alias.name for alias in node.names}
    return {node.attr, ast.unparse(node.value).rpartition(".")[2]}


def _numbers(node: ast.AST) -> set[int]:
    return {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and type(n.value) is int}


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
    limiters = ("agents/lending.py", "agents/ports.py", "adapters/")
    assert across(methods(LENDING_METHODS), exempt=("simulator/", *limiters)) == []


def test_lending_and_settling_are_done_by_those_who_ask() -> None:
    defined = ("agents/lending.py", "agents/judgement.py", "agents/outages.py", "agents/lending.py", "agents/ports.py")
    assert across(functions(STEPS), exempt=("simulator/", "adapters/", *defined)) == []


def test_requests_to_the_marketplace_leave_by_those_who_were_lent_an_agent() -> None:
    assert across(methods(REQUESTS)) == []


def test_one_table_says_what_an_answer_means() -> None:
    assert across(judging, exempt=JUDGED_ELSEWHERE) == []


def test_every_kind_of_answer_stands_in_the_table() -> None:
    assert set(TABLE) == set(AnswerKind)


def test_what_the_tables_here_allow_is_still_done_there() -> None:
    """An entry that nobody needs any more would let a second place come back unseen."""
    stale = []
    for rule_of, table in ((methods, LENDING_METHODS), (functions, STEPS), (methods, REQUESTS)):
        for name, modules in table.items():
            for module in modules:
                source = (PACKAGE / module).read_text("utf-8")
                if not list(rule_of({name: set()})(module)(ast.parse(source))):
                    stale.append(f"{module} does not use {name}")
    assert stale == []


@pytest.mark.parametrize(
    ("rule_of", "plant"),
    [
        (methods(LENDING_METHODS), "permits = tx.permits.reserve(grants, [None], worker_id, at)"),
        (methods(LENDING_METHODS), "permits = tx.permits\npermits.reserve(grants, [None], worker_id, at)"),
        (methods(LENDING_METHODS), "lending = terms.limiter.lend(tx, ahead, candidates, 1, limits, at)"),
        (methods(LENDING_METHODS), "best = max(tx.agents.candidates(at))"),
        (functions(STEPS), "verdict = judge_answer(answer)"),
        (functions(STEPS), "from sellerwatch.agents.judgement import judge_answer as decide"),
        (
            functions(STEPS),
            "from sellerwatch.agents import lending\nlending.lend_for(tx, offered, [None], me, terms, at)",
        ),
        (functions(STEPS), "reserve = partial(offer, tx)"),
        (methods(REQUESTS), "answer = await crawl.marketplace.fetch(url, identity, now)"),
        (methods(REQUESTS), "client = crawl.marketplace\nanswer = await client.fetch(url, identity, now)"),
        (methods(REQUESTS), "session = await client.open_session(user_agent, now)"),
        (judging, "if answer.kind is AnswerKind.TOO_MANY: ..."),
        (judging, "if answer.kind.name == 'TOO_MANY': ..."),
        (judging, "from sellerwatch.agents.answers import AnswerKind as Kind"),
        (judging, "good = {AnswerKind.OK}"),
        (judging, "mine = Verdict(TaskEnd.DONE, Outcome.SUCCESS)"),
        (judging, "mine = judgement.Verdict(TaskEnd.DONE, Outcome.SUCCESS)"),
        (judging, "mine = replace(verdict, agent=Outcome.BLAMELESS)"),
        (judging, "mine = VERDICTS[kind]"),
        (judging, "if answer.status == 401: ..."),
        (judging, "if answer.status in (401, 403): ..."),
        (judging, "again = 429 == status"),
        (judging, "was_answered = charge.status < SERVER_FAULT"),
        (judging, "is_theirs = answer.status // 100 == 5"),
        (judging, "match answer.status:\n    case 429: ..."),
        (judging, "outcome = {429: Outcome.TOO_MANY, 503: Outcome.SERVER_ERROR}[answer.status]"),
        (judging, "REFUSALS = (401, 403)"),
        (judging, "if answer.status == http.HTTPStatus.UNAUTHORIZED: ..."),
        (judging, "from http import HTTPStatus"),
    ],
)
def test_a_planted_second_way_is_caught(rule_of: Callable[[str], Rule], plant: str) -> None:
    assert list(rule_of("crawling/elsewhere.py")(ast.parse(plant))) != []
