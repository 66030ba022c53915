"""The catalogue: whole in every language, and nothing on a page that is not from it."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from string import Formatter

import pytest
from jinja2 import Environment, nodes
from tests.builders import NOW

from sellerwatch.access.users import Role
from sellerwatch.agents.agent import AgentStatus
from sellerwatch.agents.marketplace_circuit import Endpoint
from sellerwatch.catalog.differences import ChangeKind
from sellerwatch.catalog.product import PartType, ProductEvent, ProductState
from sellerwatch.catalog.quarantine import CaseKind, CaseStatus
from sellerwatch.catalog.removal import RemovalReason, RemovalStatus
from sellerwatch.crawling.execution import ExecutionStatus
from sellerwatch.crawling.task import TaskStatus, TaskType
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.failure import Blame
from sellerwatch.outbox.message import MessageStatus
from sellerwatch.outbox.receipt import DeliveryVerdict
from sellerwatch.schedules.interval import IntervalUnit
from sellerwatch.schedules.schedule import ScheduleEventType, ScheduleStatus
from sellerwatch.sellers.seller import SellerStatus
from sellerwatch.settings.model import Settings
from sellerwatch.web.console.texts import TEXTS, ago, say

PACKAGE = Path(__file__).parents[3] / "src/sellerwatch"
CONSOLE = PACKAGE / "web/console"
TEMPLATES = sorted((CONSOLE / "templates").glob("*.html"))
HANGUL = re.compile(r"[가-힣]")
#: The same in both.
SAME = {"brand", "csv", "col.http"}
FAMILIES = {
    "status": [
        *SellerStatus,
        *ScheduleStatus,
        *ExecutionStatus,
        *TaskStatus,
        *MessageStatus,
        *ProductState,
        *AgentStatus,
    ],
    "circuit": list(CircuitState),
    "breaker": list(CircuitState),
    "channel": list(CircuitState),
    "endpoint": list(Endpoint),
    "case": [*CaseStatus, *CaseKind],
    "removal": [*RemovalStatus, *RemovalReason],
    "verdict": list(DeliveryVerdict),
    "type": list(TaskType),
    "part": list(PartType),
    "event": [*ProductEvent, *ScheduleEventType],
    "blame": list(Blame),
    "change": list(ChangeKind),
    "unit": list(IntervalUnit),
    "every": list(IntervalUnit),
    "role": list(Role),
    "setting": list(Settings.model_fields),
}


def slots(text: str) -> set[str]:
    return {name.partition(":")[0] for _, name, _, _ in Formatter().parse(text) if name}


def test_every_text_is_there_in_both_languages_with_the_same_facts() -> None:
    for key, (english, korean) in TEXTS.items():
        assert english.strip(), key
        assert HANGUL.search(korean) or key in SAME, key
        assert key.startswith("setting.") or slots(english) == slots(korean), key


@pytest.mark.parametrize("family", FAMILIES)
def test_every_state_has_its_word(family: str) -> None:
    assert {f"{family}.{member}" for member in FAMILIES[family]} <= set(TEXTS)


def test_every_action_on_the_trail_has_its_word() -> None:
    found = set()
    for path in PACKAGE.rglob("*.py"):
        found |= set(re.findall(r'AuditEntry\([^)]*?"([a-z]+\.[a-z_]+)"', path.read_text("utf-8")))
    assert len(found) > 10
    assert {f"action.{name}" for name in found} <= set(TEXTS)


def literals(tree: nodes.Template) -> list[str]:
    """What a template says by itself: between its tags, and in attributes that people hear or see."""
    data = "".join(node.data if isinstance(node, nodes.TemplateData) else "\x00" for node in _in_order(tree))
    data = re.sub(r"(?s)<!--.*?-->|<svg.*?</svg>|<code\b[^>]*>.*?</code>|<kbd>.*?</kbd>", " ", data)
    spoken = re.findall(r'(?:title|aria-label|placeholder|alt)="([^"]*)"', data)
    between = re.sub(r"(?s)<[^>]*>", " ", data)
    return [text for text in (between, *spoken) if re.search(r"[A-Za-z가-힣]", text.replace("\x00", " "))]


def _in_order(tree: nodes.Template) -> list[nodes.Node]:
    return [node for output in tree.find_all(nodes.Output) for node in output.nodes]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_template_says_nothing_but_what_the_catalogue_says(path: Path) -> None:
    assert literals(Environment(autoescape=True).parse(_plain(path.read_text("utf-8")))) == []


def _plain(text: str) -> str:
    """Filters of our own are no matter here."""
    return re.sub(r"\|\s*(number|short|moment\([^)]*\)|plain_json|tojson|forceescape)", "", text)


def test_a_planted_word_is_found() -> None:
    assert literals(Environment(autoescape=True).parse("<p>{{ t('x') }} hello</p>"))
    assert literals(Environment(autoescape=True).parse('<a title="hello">{{ x }}</a>'))
    assert not literals(Environment(autoescape=True).parse('<a class="hello">{{ x }} · 7</a>'))


def test_every_key_that_is_asked_for_is_there() -> None:
    asked = set()
    for path in (*TEMPLATES, *CONSOLE.glob("*.py")):
        text = path.read_text("utf-8")
        asked |= set(re.findall(r"""\bt\(["']([a-z_.0-9A-Z]+)["'][,)]""", text))
        asked |= set(re.findall(r'"((?:col|nav|chart|filter|needs)\.[\w]+)"', text))
        for columns in re.findall(r"(?s)Columns\[.*?\] = \{\n(.*?)\n\}", text):
            asked |= {f"col.{name}" for name in re.findall(r'(?m)^    "(\w+)": ', columns)}
    assert len(asked) > 150
    assert asked <= set(TEXTS), asked - set(TEXTS)


def test_one_is_not_many() -> None:
    assert say("every.DAYS", "en", {"n": 1}) == "every 1 day"
    assert say("every.DAYS", "en", {"n": 1200}) == "every 1,200 days"
    assert say("every.DAYS", "ko", {"n": 3}) == "3일마다"


def test_times_are_said_as_people_say_them() -> None:
    for seconds, english, korean in (
        (0, "now", "지금"),
        (59, "59 s ago", "59초 전"),
        (3600, "1 h ago", "1시간 전"),
        (-90, "in 1 min", "1분 후"),
        (-3 * 86400, "in 3 d", "3일 후"),
    ):
        time = NOW - timedelta(seconds=seconds)
        assert (ago(time, NOW, "en"), ago(time, NOW, "ko")) == (english, korean)
