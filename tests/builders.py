"""Values for tests: sensible defaults, and only what a test is about is said in it.

`a_task(2, status=TaskStatus.RETRY)` is the second task, in RETRY: the number makes the id, so that two tests, or two
runs of one, always speak of the same ids. Fields are set as given and not walked to; a test that needs a history walks.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from msgspec import structs

from sellerwatch.agents.agent import Agent
from sellerwatch.agents.answers import Session
from sellerwatch.agents.circuit import Circuit
from sellerwatch.agents.pool import Candidate, Grant
from sellerwatch.agents.token import Token
from sellerwatch.catalog.facts import (
    Brand,
    Category,
    DetailFacts,
    Facts,
    ListFacts,
    NormalizedPart,
    Option,
    OptionFacts,
    Prices,
    Shipping,
    product_json,
)
from sellerwatch.catalog.product import Product
from sellerwatch.catalog.resync import Resync, ResyncChoice
from sellerwatch.crawling.execution import Execution
from sellerwatch.crawling.task import RequestUrl, Task, TaskType
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.clock import Moment
from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.kernel.ids import (
    ExecutionId,
    Ids,
    ItemNo,
    OutboxId,
    ProductId,
    ResendId,
    ResyncId,
    ScheduleId,
    SellerId,
    TaskId,
    UserAgentId,
    WorkerId,
)
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.outbox.message import Message, OutboxKind
from sellerwatch.outbox.resend import Resend, ResendAnswer, ResendChoice, ResentEvent
from sellerwatch.outbox.seller_circuit import SellerCircuit
from sellerwatch.schedules.interval import CrawlingInterval
from sellerwatch.schedules.schedule import Schedule
from sellerwatch.sellers.seller import Seller

NOW = datetime(2026, 11, 15, 6, 4, 5, 123456, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
LATER = NOW + HOUR
#: The machine of the tests was booted a day ago.
BOOTED = NOW - DAY
BOOT = "boot-1"

SELLER = SellerId("seller_12345")
ITEM = ItemNo(900000001)


class StoppedClock:
    """A clock that stands until a test moves it; sleeping moves it too."""

    boot_id = BOOT

    def __init__(self, now: datetime = NOW) -> None:
        self.time = now

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return (self.time - BOOTED).total_seconds()

    async def sleep(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


def boot_us(now: datetime = NOW) -> int:
    """That instant by the boot's clock, where nobody has set the wall's."""
    return (now - BOOTED) // timedelta(microseconds=1)


def at(now: datetime = NOW, boot_id: str = BOOT) -> Moment:
    """That instant on both clocks."""
    return Moment(now, boot_us(now), boot_id)


def a_context(now: datetime = NOW, ids: Iterator[str] | None = None, actor: str = "test") -> OperationContext:
    """The context of one operation. It has no ids unless some are given."""
    return OperationContext(actor, at(now), iter(()) if ids is None else ids)


def rng(seed: int = 0) -> random.Random:
    return random.Random(seed)


def ids(seed: int = 0, clock: StoppedClock | None = None) -> Ids:
    return Ids(clock or StoppedClock(), rng(seed))


def _uuid(kind: int, number: int) -> str:
    return f"0198c0de-0000-7000-8{kind:03x}-{number:012x}"


def task_id(number: int = 1) -> TaskId:
    return TaskId(_uuid(1, number))


def execution_id(number: int = 1) -> ExecutionId:
    return ExecutionId(_uuid(2, number))


def schedule_id(number: int = 1) -> ScheduleId:
    return ScheduleId(_uuid(3, number))


def product_id(number: int = 1) -> ProductId:
    return ProductId(_uuid(4, number))


def outbox_id(number: int = 1) -> OutboxId:
    return OutboxId(_uuid(5, number))


def agent_id(number: int = 1) -> UserAgentId:
    return UserAgentId(_uuid(6, number))


def worker_id(number: int = 1) -> WorkerId:
    return WorkerId(_uuid(7, number))


def seller_id(number: int = 1) -> SellerId:
    return SELLER if number == 1 else SellerId(f"seller_{12344 + number}")


def a_seller(number: int = 1, **changes: Any) -> Seller:
    return replace(Seller.register(seller_id(number), f"Shop {number}", None, NOW), **changes)


def a_schedule(number: int = 1, **changes: Any) -> Schedule:
    made, _ = Schedule.create(schedule_id(number), seller_id(number), CrawlingInterval.of_days(1), NOW)
    return replace(made, **changes)


def a_url(task_type: TaskType = TaskType.MINISHOP, item_no: int = ITEM, page_no: int = 0) -> RequestUrl:
    paths = {
        TaskType.MINISHOP: (
            f"/mustit-api/facade-api/v1/searchmini-shop-search?sellerId={SELLER}&pageNo={page_no}&pageSize=500&order=LATEST"
        ),
        TaskType.PRODUCT_DETAIL: f"/mustit-api/facade-api/v1/item/{item_no}/detail/top",
        TaskType.PRODUCT_OPTION: f"/mustit-api/legacy-api/v1/auction_products/{item_no}/options",
    }
    return RequestUrl.parse(task_type, paths[task_type])


def a_task(number: int = 1, task_type: TaskType = TaskType.MINISHOP, **changes: Any) -> Task:
    of_a_product = task_type is not TaskType.MINISHOP
    made = Task(
        task_id=task_id(number),
        execution_id=execution_id(),
        seller_id=SELLER,
        task_type=task_type,
        request_url=a_url(task_type),
        created_at=NOW,
        available_at=NOW,
        item_no=ITEM if of_a_product else None,
        page_no=None if of_a_product else 0,
    )
    return structs.replace(made, **changes)


def an_execution(number: int = 1, **changes: Any) -> Execution:
    return replace(Execution.create(execution_id(number), schedule_id(), SELLER, NOW), **changes)


def a_message(number: int = 1, **changes: Any) -> Message:
    made = Message(
        outbox_id=outbox_id(number),
        subject_id=product_id(),
        seller_id=SELLER,
        event_type="PRODUCT_CREATED",
        payload=b'{"itemNo":900000001}',
        created_at=NOW,
        next_attempt_at=NOW,
        item_no=ITEM,
        version=1,
        execution_id=execution_id(),
    )
    return structs.replace(made, **changes)


def an_agent(number: int = 1, **changes: Any) -> Agent:
    text = f"Mozilla/5.0 (Linux; Android 14; SM-{number:04d}) AppleWebKit/537.36"
    return structs.replace(Agent.create(agent_id(number), text, NOW), **changes)


def a_circuit(**changes: Any) -> Circuit:
    return replace(Circuit(), **changes)


def a_token(number: int = 1, **changes: Any) -> Token:
    made = Token(
        key_id="k1",
        sealed=base64.b64encode(bytes([number]) * 60).decode(),
        fingerprint=f"fingerprint-{number}",
        nid=f"nid-{number}",
        mustit_uid=f"uid-{number}",
        issued_at=NOW,
        expires_at=NOW + HOUR,
    )
    return replace(made, **changes)


def a_session(*_: object) -> Session:
    """A session in the clear; also where one is opened that nothing is sent with."""
    return Session("a-token", "", "", HOUR)


def a_candidate(number: int = 1, **changes: Any) -> Candidate:
    """The number-th agent of the pool, in full health, with a token, its whole budget and no request behind it."""
    agent = an_agent(number)
    made = Candidate(
        row=number,
        user_agent_id=agent.user_agent_id,
        user_agent=agent.user_agent,
        health_score=100,
        last_used_at=None,
        slots_left=80,
        last_departure_us=0,
        token_row=number,
        token=a_token(number),
        circuit=Circuit(),
    )
    return structs.replace(made, **changes)


def a_grant(number: int = 1, depart_at: datetime = NOW) -> Grant:
    return Grant(a_candidate(number), boot_us(depart_at))


def a_product(number: int = 1, **changes: Any) -> Product:
    return structs.replace(Product.create(product_id(number), ItemNo(900000000 + number), SELLER, NOW), **changes)


def a_complete_product(number: int = 1, **changes: Any) -> Product:
    """All three parts seen and the receiver told once."""
    seen = {"minishop_hash": "a" * 32, "detail_hash": "b" * 32, "option_hash": "c" * 32, "version": 1}
    return a_product(number, **{**seen, **changes})


def a_resync(number: int = 1, choice: ResyncChoice | None = None, total: int = 100, **changes: Any) -> Resync:
    made = Resync.create(ResyncId(_uuid(9, number)), choice or ResyncChoice(), total, total, "test", NOW)
    return replace(made, **changes)


def a_resend(number: int = 1, choice: ResendChoice | None = None, total: int = 100, **changes: Any) -> Resend:
    made = Resend(ResendId(_uuid(11, number)), choice or ResendChoice(), total, total, "test", NOW)
    return replace(made, **changes)


def a_resent_event(number: int = 1, **changes: Any) -> ResentEvent:
    made = ResentEvent(a_resend().resend_id, outbox_id(number), ResendAnswer.ACCEPTED, 0, NOW, 12, 200, "ok")
    return replace(made, **changes)


def a_refused_seller(seller_id: SellerId = SELLER, **changes: Any) -> SellerCircuit:
    """Its next probe is in an hour."""
    made = SellerCircuit(OutboxKind.PRODUCT, seller_id, CircuitState.OPEN, 5, NOW, 1, NOW, LATER, "answered 500: no")
    return replace(made, **changes)


def list_facts(**changes: Any) -> ListFacts:
    made = ListFacts(item_no=ITEM, images=("https://img.example/1.jpg",), tags=("new", "sale"))
    return structs.replace(made, **changes)


def detail_facts(**changes: Any) -> DetailFacts:
    made = DetailFacts(
        item_no=ITEM,
        seller_id=SELLER,
        name="반팔 티셔츠",
        brand=Brand(code=133, name="STONE ISLAND", name_kr="스톤아일랜드"),
        categories=(
            Category(level="header", code="M", name="남성"),
            Category(level="large", code="M01", name="의류"),
            Category(level="medium", code="M0101", name="상의"),
            Category(level="small", code="M010101", name="티셔츠"),
        ),
        prices=Prices(normal=1075000, selling=600000, discount=545600, rate=49),
        stock=3,
        sold_out=False,
        item_status="새상품",
        origin_country="이탈리아",
        shipping=Shipping(type="DOMESTIC", fee=0, fee_type="FREE", average_days=1),
        images=("https://img.example/1.jpg", "https://img.example/2.jpg"),
        description_html="<p>cotton</p>",
    )
    return structs.replace(made, **changes)


def an_option(number: int = 4134224619, **changes: Any) -> Option:
    return structs.replace(Option(option_no=number, color="", size="US 4", stock=1, size_guide=None), **changes)


def option_facts(*options: Option) -> OptionFacts:
    return OptionFacts(options=options or (an_option(), an_option(4134224620, size="US 6", stock=2)))


def whole_of(listed: ListFacts, detail: DetailFacts, options: OptionFacts) -> dict[str, Any]:
    """productData of three parts' facts."""
    data: dict[str, Any] = orjson.loads(
        product_json(NormalizedPart.of(listed), NormalizedPart.of(detail), NormalizedPart.of(options))
    )
    return data


def digest_of(facts: Facts) -> str:
    return NormalizedPart.of(facts).digest


def a_failure(code: FailureCode = FailureCode.SERVER_ERROR, at: datetime = NOW, **facts: str | int) -> Failure:
    """Why a task or a run failed; by default the marketplace answered 503."""
    if code is FailureCode.SERVER_ERROR and not facts:
        return Failure.of(code, at, status=503)
    return Failure.of(code, at, None, **facts)
