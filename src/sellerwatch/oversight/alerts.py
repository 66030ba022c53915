"""Alerts to operators. Sent after the transaction, without the work waiting for them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from sellerwatch.kernel.activity import Activity
from sellerwatch.kernel.notices import Notice
from sellerwatch.kernel.store import Store
from sellerwatch.oversight.ports import AuditTx

log = logging.getLogger("sellerwatch.alerts")

#: A receiver that hangs must not fill the memory: beyond this the oldest alert goes. All of them are in the log anyway.
MOST_WAITING = 1000


@dataclass(frozen=True, slots=True)
class Alert:
    """`kind` is for machines (`agent.blocked`), `text` is one sentence for people."""

    kind: str
    subject: str
    text: str
    at: datetime


class Alerts(Protocol):
    """Where alerts go. Sending never raises: an alert that cannot be sent is only logged."""

    async def send(self, alert: Alert) -> None: ...


class LogAlerts:
    """Writes alerts to the log as warnings."""

    async def send(self, alert: Alert) -> None:
        log.warning(alert.text, extra={"kind": alert.kind, "subject": alert.subject})


class RecordedAlerts:
    """Records each alert as activity and passes it on, also when it cannot be recorded."""

    def __init__(self, store: Store[AuditTx], alerts: Alerts) -> None:
        self._store, self._alerts = store, alerts

    async def send(self, alert: Alert) -> None:
        kind = alert.kind.partition(".")[0]
        activity = Activity(alert.at, alert.kind, kind, alert.subject, {"text": alert.text})
        try:
            await self._store.transact(lambda tx: tx.activity.add(activity))
        except Exception:
            log.exception("an alert cannot be recorded as activity", extra={"kind": alert.kind})
        await self._alerts.send(alert)


class AlertQueue:
    """A queue between the work, which must not wait, and a receiver, which may be slow. Alerts are in `language`."""

    def __init__(self, alerts: Alerts, language: str = "en") -> None:
        self._alerts, self._language = alerts, language
        self._waiting: deque[Alert] = deque(maxlen=MOST_WAITING)
        self._wake = asyncio.Event()

    def post(self, notice: Notice, at: datetime) -> None:
        self._waiting.append(Alert(notice.kind, notice.subject, notice.text(self._language), at))
        self._wake.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Send posted alerts in order until `stop`; then send the rest."""
        watch = asyncio.create_task(self._wake_on(stop))
        try:
            while not stop.is_set():
                await self._wake.wait()
                self._wake.clear()
                await self.flush()
        finally:
            watch.cancel()
        await self.flush()

    async def flush(self) -> None:
        while self._waiting:
            await self._alerts.send(self._waiting.popleft())

    async def _wake_on(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._wake.set()
