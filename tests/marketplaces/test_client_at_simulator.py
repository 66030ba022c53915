"""The client at the simulator: real sessions, real sealing, and each of its ailments in the words of the port."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest
from msgspec import structs
from tests.builders import StoppedClock, agent_id
from tests.simulated_transport import SimulatedTransport

from sellerwatch.adapters.sealing import AesGcmSealer
from sellerwatch.agents.answers import AnswerKind, Identity, Session
from sellerwatch.catalog.ports import Unparsable
from sellerwatch.kernel.ids import ItemNo, SellerId
from sellerwatch.marketplaces.mustit.client import MustitMarketplace
from sellerwatch.simulator.chaos import ChaosProfile, Storms
from sellerwatch.simulator.simulator import Simulator

BASE = "https://market.test"
SELLER = SellerId("seller_0001")


@dataclass
class Market:
    """The client at the simulator, in one process, with the real sealer."""

    simulator: Simulator
    client: MustitMarketplace
    sealer: AesGcmSealer
    clock: StoppedClock

    async def identity(self, number: int = 1) -> Identity:
        user_agent = f"Mozilla/5.0 ({number})"
        session = await self.client.open_session(user_agent, self.now)
        assert isinstance(session, Session)
        token = self.sealer.seal(session, bound_to=agent_id(number), issued_at=self.now)
        return Identity(agent_id(number), user_agent, token)

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def suffer(self, **profile: object) -> None:
        self.simulator.marketplace.chaos.become(ChaosProfile(**profile))  # type: ignore[arg-type]


@pytest.fixture
def market() -> Market:
    simulator, clock = Simulator(seed=3, products=30, requests_per_second=None, detail_kb=5), StoppedClock()
    sealer = AesGcmSealer([("k1", b"k" * 32)])
    client = MustitMarketplace(SimulatedTransport(simulator, clock), BASE, sealer.open_identity)
    return Market(simulator, client, sealer, clock)


async def test_a_product_is_fetched_and_read_from_the_simulator(market: Market) -> None:
    identity, client = await market.identity(), market.client
    listed = await client.fetch(client.list_url(SELLER, 0, 10), identity, market.now)
    page = client.read_list(listed.body, client.list_url(SELLER, 0, 10))
    assert (page.total, len(page.entries)) == (30, 10)
    item_no = page.entries[0].facts.item_no
    detail = await client.fetch(client.detail_url(item_no), identity, market.now)
    options = await client.fetch(client.option_url(item_no), identity, market.now)
    assert client.read_detail(detail.body, item_no).item_no == item_no
    assert client.read_options(options.body, item_no).options
    assert client.read_entry(page.entries[0].raw) == page.entries[0].facts


async def test_a_product_that_is_gone_is_gone(market: Market) -> None:
    answer = await market.client.fetch(market.client.detail_url(ItemNo(1)), await market.identity(), market.now)
    assert answer.kind is AnswerKind.GONE


async def test_a_token_of_another_agent_is_unauthorised(market: Market) -> None:
    stolen = structs.replace(await market.identity(1), user_agent="Mozilla/5.0 (2)")
    answer = await market.client.fetch(market.client.list_url(SELLER, 0, 1), stolen, market.now)
    assert (answer.kind, answer.status) == (AnswerKind.UNAUTHORISED, 401)


async def test_a_token_past_its_time_is_unauthorised(market: Market) -> None:
    identity = await market.identity()
    await market.clock.sleep(7_201)
    answer = await market.client.fetch(market.client.list_url(SELLER, 0, 1), identity, market.now)
    assert answer.kind is AnswerKind.UNAUTHORISED


async def test_an_agent_over_its_budget_is_told_to_wait(market: Market) -> None:
    identity = await market.identity()
    answers = [await market.client.fetch(market.client.list_url(SELLER, 0, 1), identity, market.now) for _ in range(81)]
    assert {answer.kind for answer in answers[:80]} == {AnswerKind.OK}
    assert (answers[80].kind, answers[80].wait) == (AnswerKind.TOO_MANY, timedelta(hours=1))


async def test_a_storm_asks_for_a_wait_in_seconds_as_a_date_or_not_at_all(market: Market) -> None:
    identity = await market.identity()
    market.suffer(storms=Storms(every=10, length=10, share=1.0, retry_after=(30, 40)))
    waits = set()
    for _ in range(40):
        answer = await market.client.fetch(market.client.list_url(SELLER, 0, 1), identity, market.now)
        assert answer.kind is AnswerKind.TOO_MANY
        waits.add(None if answer.wait is None else timedelta(seconds=29) < answer.wait < timedelta(seconds=42))
    assert waits == {None, True}


@pytest.mark.parametrize(
    ("ailment", "kind"),
    [
        ("error", AnswerKind.SERVER_ERROR),
        ("drop", AnswerKind.DROPPED),
        ("cut", AnswerKind.DROPPED),
        ("revoked", AnswerKind.UNAUTHORISED),
        ("html", AnswerKind.OK),
        ("truncated", AnswerKind.OK),
    ],
)
async def test_each_ailment_of_the_simulator_has_its_kind(market: Market, ailment: str, kind: AnswerKind) -> None:
    identity = await market.identity()
    market.suffer(**{ailment: 1.0})
    answer = await market.client.fetch(market.client.list_url(SELLER, 0, 10), identity, market.now)
    assert answer.kind is kind
    if kind is AnswerKind.OK:
        with pytest.raises(Unparsable, match="not JSON"):
            market.client.read_list(answer.body, market.client.list_url(SELLER, 0, 10))
