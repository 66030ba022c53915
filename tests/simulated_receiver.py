"""The simulator's product server as a receiver in the same process, so that delivery can run on virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sellerwatch.kernel.clock import Clock
from sellerwatch.kernel.retry_after import retry_after
from sellerwatch.outbox.ports import EventBody
from sellerwatch.outbox.receipt import Receipt
from sellerwatch.simulator.events import signature
from sellerwatch.simulator.simulator import EVENTS_PATH, Simulator
from sellerwatch.simulator.wire import ConnectionFault, SimulatedRequest


class SimulatedReceiver:
    """Implements `outbox.ports.EventReceiver` as the HTTP one does: the same headers, time-outs and verdicts."""

    def __init__(
        self,
        simulator: Simulator,
        clock: Clock,
        secrets: Sequence[str] = (),
        *,
        read: float = 5.0,
        longest_wait: timedelta = timedelta(days=1),
    ) -> None:
        self._simulator = simulator
        self._clock = clock
        self._secrets = tuple(secrets)
        self._read = read
        self._longest_wait = longest_wait

    async def deliver(self, message: EventBody, now: datetime) -> Receipt:
        body, timestamp = message.payload, str(int(now.timestamp()))
        headers = {
            "content-type": "application/json; charset=utf-8",
            "idempotency-key": message.outbox_id,
            "webhook-id": message.outbox_id,
            "webhook-timestamp": timestamp,
        }
        if self._secrets:
            signatures = [signature(secret, message.outbox_id, timestamp, body) for secret in self._secrets]
            headers["webhook-signature"] = " ".join(signatures)
        request = SimulatedRequest("POST", EVENTS_PATH, headers=headers, body=body)
        answer = self._simulator.answer(request, now.timestamp())
        if answer.fault is ConnectionFault.HANG or answer.delay >= self._read:
            await self._clock.sleep(self._read)
            return Receipt.of_silence(f"no answer within {self._read:g} s")
        await self._clock.sleep(answer.delay)
        if answer.fault is ConnectionFault.DROP:
            return Receipt.of_silence("the connection was lost: Server disconnected", is_cut=True)
        asked = next((value for name, value in answer.headers if name == "retry-after"), None)
        return Receipt.of_answer(answer.status, answer.body, retry_after(asked, now, self._longest_wait))
