"""A product server in a process of its own that fails for some events: `python -m tests.faults.failing_receiver`.

It prints its address. Events go to the simulator's product server, which checks the sender's rules; POST /behave says
for which sellers and items it fails, and GET /arrived has what it took, in order.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict, dataclass, field

import orjson

from sellerwatch.simulator.http import serve
from sellerwatch.simulator.product_server import ProductServer
from sellerwatch.simulator.wire import ConnectionFault, SimulatedAnswer, SimulatedRequest, json_answer, refusal


@dataclass
class FailingReceiver:
    """`fails` and `hangs` are sellers and items. With `loses_first` the first answer to each event is lost after the
    event was stored: the connection ends, or for an odd item a 500 comes instead."""

    server: ProductServer = field(default_factory=ProductServer)
    fails: frozenset[str] = frozenset()
    hangs: frozenset[str] = frozenset()
    loses_first: bool = False
    seen: set[str] = field(default_factory=set)

    def answer(self, request: SimulatedRequest, now: float) -> SimulatedAnswer:
        if request.path == "/behave":
            rules = orjson.loads(request.body)
            self.fails, self.hangs = frozenset(rules.get("fails", ())), frozenset(rules.get("hangs", ()))
            self.loses_first = rules.get("loses_first", False)
            return json_answer(200, {})
        if request.path == "/arrived":
            arrived = [asdict(event) for event in self.server.events()]
            return json_answer(200, {"events": arrived, "violations": [asdict(v) for v in self.server.violations]})
        event = orjson.loads(request.body)
        about, key = {event["sellerId"], str(event["itemNo"])}, event["eventId"]
        if about & self.fails:
            return refusal(500, "a bug of theirs")
        if about & self.hangs:
            return SimulatedAnswer(0, fault=ConnectionFault.HANG)
        is_first = key not in self.seen
        self.seen.add(key)
        answer = self.server.answer(request, now)
        if not (self.loses_first and is_first):
            return answer
        return refusal(500, "lost") if event["itemNo"] % 2 else SimulatedAnswer(0, fault=ConnectionFault.DROP)


async def main() -> None:
    async with serve(FailingReceiver().answer) as server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
