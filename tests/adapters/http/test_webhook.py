"""Alerts to a webhook: posted as Slack takes them, never in the way of the work."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from datetime import UTC, datetime

import pytest

from sellerwatch.adapters.http.webhook import WebhookAlerts
from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.kernel.notices import Notice
from sellerwatch.kernel.wording import failure_text
from sellerwatch.oversight.alerts import MOST_WAITING, Alert, AlertQueue
from sellerwatch.simulator.http import serve
from sellerwatch.simulator.wire import SimulatedAnswer, SimulatedRequest

HANGUL = re.compile(r"[가-힣]")
AT = datetime(2026, 11, 15, 6, 4, 5, tzinfo=UTC)


def an_alert(text: str = "에이전트 하나가 차단됨 🚫") -> Alert:
    return Alert("agent.blocked", "a-1", text, AT)


def resumed_by(actor: str) -> Notice:
    return Notice("marketplace.resumed", "marketplace", {"seller": "", "actor": actor})


async def test_an_alert_is_posted_with_its_sentence_and_what_machines_need() -> None:
    got: list[SimulatedRequest] = []

    def hook(request: SimulatedRequest, now: float) -> SimulatedAnswer:
        got.append(request)
        return SimulatedAnswer(200, b"ok")

    async with serve(hook) as server:
        await WebhookAlerts(f"{server.url}/hook").send(an_alert())
    (request,) = got
    assert (request.method, request.path) == ("POST", "/hook")
    assert json.loads(request.body) == {
        "text": "에이전트 하나가 차단됨 🚫",
        "kind": "agent.blocked",
        "subject": "a-1",
        "at": "2026-11-15T06:04:05+00:00",
    }


async def test_an_alert_does_not_follow_a_redirect() -> None:
    got: list[str] = []

    def hook(request: SimulatedRequest, now: float) -> SimulatedAnswer:
        got.append(request.path)
        return SimulatedAnswer(307, headers=(("location", "/elsewhere"),))

    async with serve(hook) as server:
        await WebhookAlerts(f"{server.url}/hook").send(an_alert())
    assert got == ["/hook"]


async def test_a_webhook_that_refuses_or_is_gone_raises_nothing_and_the_alert_is_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serve(lambda request, now: SimulatedAnswer(500)) as server:
        url = server.url
        with caplog.at_level(logging.WARNING):
            await WebhookAlerts(url).send(an_alert("refused"))
    with caplog.at_level(logging.WARNING):
        await WebhookAlerts(url).send(an_alert("gone"))
    said = [record.getMessage() for record in caplog.records]
    assert said == ["refused", "the alert webhook refused", "gone", "the alert webhook cannot be reached"]


class Slow:
    """A receiver that takes its time."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.got: list[str] = []

    async def send(self, alert: Alert) -> None:
        await self.open.wait()
        self.got.append(alert.text)


async def test_posting_waits_for_nobody_and_a_stop_sends_what_is_left_in_order() -> None:
    slow, stop = Slow(), asyncio.Event()
    queue = AlertQueue(slow)
    running = asyncio.create_task(queue.run(stop))
    for number in range(5):
        queue.post(resumed_by(str(number)), AT)
    await asyncio.sleep(0)
    assert slow.got == []
    stop.set()
    slow.open.set()
    await running
    assert slow.got == [resumed_by(str(number)).text() for number in range(5)]


async def test_a_receiver_that_hangs_does_not_fill_the_memory() -> None:
    slow = Slow()
    queue = AlertQueue(slow)
    for number in range(MOST_WAITING + 10):
        queue.post(resumed_by(str(number)), AT)
    slow.open.set()
    await queue.flush()
    assert slow.got == [resumed_by(str(number)).text() for number in range(10, MOST_WAITING + 10)]


async def test_alerts_are_in_the_language_of_the_queue() -> None:
    receiver = Slow()
    receiver.open.set()
    queue = AlertQueue(receiver, "ko")
    queue.post(Notice("run.resumed", "e-1", {"seller": "seller_1"}), AT)
    failure = Failure.of(FailureCode.SERVER_ERROR, AT, None, status=503)
    queue.post(Notice("marketplace.open", "list", {"endpoint": "list", "cause": failure}), AT)
    await queue.flush()
    assert all(HANGUL.search(text) for text in receiver.got)
    assert failure_text(failure, "ko") in receiver.got[1]
