"""Ask the receiver whether it answers."""

from __future__ import annotations

from sellerwatch.kernel.ids import ReplayableIds
from sellerwatch.operations.session import OperationSession
from sellerwatch.outbox.ping import NoReceiver, Ping, PingView, record_ping


async def ping_receiver(session: OperationSession) -> PingView:
    """Send a signed PING to the receiver and return its answer. No product and no other event is touched."""
    if session.receiver is None:
        raise NoReceiver
    clock = session.clock
    now, began = clock.now(), clock.monotonic()
    ping = Ping.create(ReplayableIds(session.ids).replay(), now)
    receipt = await session.receiver.deliver(ping, now)
    took = round((clock.monotonic() - began) * 1000)
    view = PingView.of(ping, receipt, took, now)
    return await session.run(record_ping, view)
