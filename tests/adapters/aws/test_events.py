"""EventBridge as the scheduler: a rule for each seller, told, compared and mended."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.aws import emulator
from tests.builders import NOW, a_schedule, outbox_id
from tests.servers import Aws as Emulator
from tests.servers import free_port

from sellerwatch.adapters.aws.client import Aws
from sellerwatch.adapters.aws.events import EventBridge, Rule, RuleDifference, Target, differences, rule_name
from sellerwatch.kernel.ids import SellerId
from sellerwatch.outbox.message import Message
from sellerwatch.outbox.receipt import DeliveryVerdict
from sellerwatch.schedules.interval import CrawlingInterval
from sellerwatch.schedules.schedule import Schedule, ScheduleEvent, ScheduleEventType
from sellerwatch.schedules.scheduler_messages import message_of

TARGET = Target("arn:aws:events:us-east-1:000000000000:api-destination/trigger", "arn:aws:iam::000000000000:role/x")


@pytest.fixture(scope="module")
def aws() -> Iterator[Emulator]:
    with emulator() as server:
        yield server


@pytest.fixture
async def bridge(aws: Emulator) -> AsyncIterator[EventBridge]:
    client = Aws(aws.url)
    made = EventBridge(client, TARGET)
    for rule in await made.rules():
        await made.remove(rule.name)
    yield made
    await client.close()


def schedule(seller: str = "seller_1", days: int = 1) -> Schedule:
    return a_schedule(seller_id=SellerId(seller), interval=CrawlingInterval.of_days(days), next_run_at=NOW)


def told(type_: ScheduleEventType, about: Schedule) -> Message:
    return message_of(ScheduleEvent(type_, about), outbox_id(), NOW)


async def test_a_registered_seller_has_a_rule_with_its_target_and_told_twice_it_is_one(bridge: EventBridge) -> None:
    for _ in range(2):
        receipt = await bridge.deliver(told(ScheduleEventType.REGISTERED, schedule()), NOW)
        assert receipt.verdict is DeliveryVerdict.DELIVERED
    (rule,) = await bridge.rules()
    assert (rule.name, rule.expression, rule.enabled) == ("mustit-crawler-seller_1", "rate(1 day)", True)
    assert rule.target == {
        "Id": "trigger",
        "Arn": TARGET.arn,
        "RoleArn": TARGET.role_arn,
        "Input": '{"sellerId":"seller_1"}',
        "RetryPolicy": {"MaximumRetryAttempts": 3, "MaximumEventAgeInSeconds": 900},
    }


async def test_it_follows_what_becomes_of_its_seller(bridge: EventBridge) -> None:
    await bridge.deliver(told(ScheduleEventType.REGISTERED, schedule()), NOW)
    await bridge.deliver(told(ScheduleEventType.UPDATED, schedule(days=3)), NOW)
    assert [rule.expression for rule in await bridge.rules()] == ["rate(3 days)"]
    await bridge.deliver(told(ScheduleEventType.DEACTIVATED, schedule(days=3)), NOW)
    assert [rule.enabled for rule in await bridge.rules()] == [False]
    await bridge.deliver(told(ScheduleEventType.ACTIVATED, schedule(days=3)), NOW)
    (rule,) = await bridge.rules()
    assert (rule.enabled, rule.target is not None) == (True, True)


async def test_what_differs_from_the_database_is_found_and_mended(bridge: EventBridge) -> None:
    schedules = [schedule(name) for name in ("fine", "missing", "other", "off", "target")]
    wanted = bridge.wanted(schedules)
    for rule in wanted:
        await bridge.put(rule)
    await bridge.remove("mustit-crawler-missing")
    await bridge.put(replace(wanted[2], expression="rate(7 days)"))
    await bridge.put(replace(wanted[3], enabled=False))
    await bridge.put(replace(wanted[4], target={"Id": "trigger", "Arn": "arn:aws:sqs:us-east-1:1:elsewhere"}))
    await bridge.put(Rule("mustit-crawler-nobody", "rate(1 day)", True))
    drifted = differences(wanted, await bridge.rules())
    assert {one.name.removeprefix("mustit-crawler-"): one.differences for one in drifted} == {
        "missing": (RuleDifference.MISSING,),
        "other": (RuleDifference.EXPRESSION,),
        "off": (RuleDifference.STATE,),
        "target": (RuleDifference.TARGET,),
        "nobody": (RuleDifference.EXTRA,),
    }
    for one in drifted:
        await bridge.mend(one)
    assert differences(wanted, await bridge.rules()) == []


async def test_a_seller_that_is_switched_off_has_a_rule_that_is_too(bridge: EventBridge) -> None:
    off, _ = schedule("off").deactivate(NOW)
    assert [rule.enabled for rule in bridge.wanted([off, schedule("on"), schedule("failed").fail(NOW)])] == [
        False,
        True,
        True,
    ]


async def test_more_rules_than_a_page_are_all_found(bridge: EventBridge) -> None:
    wanted = bridge.wanted([schedule(f"s{number}") for number in range(105)])
    for rule in wanted:
        await bridge.put(replace(rule, target=None))
    assert len(await bridge.rules()) == 105


async def test_away_it_is_told_again_later(aws: Emulator) -> None:
    client = Aws(f"http://127.0.0.1:{free_port()}")
    receipt = await EventBridge(client, TARGET).deliver(told(ScheduleEventType.REGISTERED, schedule()), NOW)
    assert receipt.verdict is DeliveryVerdict.RETRY
    assert "EventBridge cannot be used: no server answers there" in receipt.problem
    await client.close()


ALLOWED = re.compile(r"[.\-_A-Za-z0-9]{1,64}")


@given(st.lists(st.text(min_size=1, max_size=120), min_size=2, max_size=5, unique=True))
def test_every_name_is_one_that_eventbridge_takes_and_no_two_are_the_same(sellers: list[str]) -> None:
    names = [rule_name(f"mustit-crawler-{seller}") for seller in sellers]
    assert all(ALLOWED.fullmatch(name) for name in names)
    # What was made for one is a seller's own name for another.
    names += [rule_name(name) for name in names if name not in (f"mustit-crawler-{seller}" for seller in sellers)]
    assert len(set(names)) == len(names)


def test_a_name_that_is_allowed_stays_as_it_is() -> None:
    assert rule_name("mustit-crawler-seller_12345") == "mustit-crawler-seller_12345"
    assert rule_name("mustit-crawler-셀러 하나").startswith("mustit-crawler--")
