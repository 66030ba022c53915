"""The client: one request for one answer, in the words of the port, and never a word of the token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from tests.builders import DAY, HOUR, NOW, SECOND, a_token, agent_id

from sellerwatch.agents.answers import AnswerKind, Identity, Session
from sellerwatch.agents.token import InvalidToken
from sellerwatch.compose.marketplace import headers_of, urls_of
from sellerwatch.crawling.task import RequestUrl, TaskType
from sellerwatch.kernel.ids import ItemNo, SellerId
from sellerwatch.marketplaces.mustit.client import MustitMarketplace
from sellerwatch.marketplaces.mustit.urls import Urls
from sellerwatch.marketplaces.ports import Marketplace, Reply, TransportFailed, TransportProblem
from sellerwatch.settings.model import Settings

BASE = "https://market.test"
SECRET = "very-secret-token"
SELLER = SellerId("seller_0001")
SESSION = Session(SECRET, "nid-1", "uid-1", HOUR)


@dataclass
class Wire:
    """A transport that answers as told and remembers what it was asked."""

    reply: Reply | TransportFailed = field(default_factory=lambda: Reply(200, (), b"{}"))
    asked: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)

    async def get(self, url: str, headers: Mapping[str, str]) -> Reply:
        self.asked.append((url, headers))
        if isinstance(self.reply, TransportFailed):
            raise self.reply
        return self.reply


def an_identity(number: int = 1) -> Identity:
    return Identity(agent_id(number), f"Mozilla/5.0 ({number})", a_token(number))


def a_client(wire: Wire, session: Session = SESSION, **options: object) -> MustitMarketplace:
    return MustitMarketplace(wire, BASE, lambda identity: session, **options)  # type: ignore[arg-type]


async def kind_of(status: int, **headers: str) -> AnswerKind:
    wire = Wire(Reply(status, tuple(headers.items()), b"body"))
    return (await a_client(wire).fetch("/x", an_identity(), NOW)).kind


def test_the_client_is_a_marketplace() -> None:
    market: Marketplace = a_client(Wire(), urls=Urls(first_page=1))
    assert market.list_url(SELLER, 0, 7).endswith("?sellerId=seller_0001&pageNo=1&pageSize=7&order=LATEST")
    assert market.detail_url(ItemNo(7)).endswith("/item/7/detail/top")
    assert market.option_url(ItemNo(7)).endswith("/auction_products/7/options")


@given(st.integers(1, ItemNo.LARGEST).map(ItemNo))
def test_the_address_of_any_product_is_one_its_task_may_ask(item: ItemNo) -> None:
    market = a_client(Wire())
    assert RequestUrl.parse(TaskType.PRODUCT_DETAIL, market.detail_url(item)) == market.detail_url(item)
    assert RequestUrl.parse(TaskType.PRODUCT_OPTION, market.option_url(item)) == market.option_url(item)


async def test_a_request_carries_the_identity_and_nothing_else() -> None:
    wire = Wire()
    await a_client(wire).fetch("/path?q=1", an_identity(), NOW)
    assert wire.asked == [
        (
            "https://market.test/path?q=1",
            {
                "User-Agent": "Mozilla/5.0 (1)",
                "Accept": "application/json",
                "Accept-Language": "ko-KR,ko;q=0.9",
                "Authorization": f"Bearer {SECRET}",
                "Cookie": "nid=nid-1; mustit_uid=uid-1",
            },
        )
    ]


async def test_a_contact_can_be_put_behind_the_user_agent() -> None:
    wire = Wire()
    await a_client(wire, user_agent_suffix=" (+https://example.test/bot)").fetch("/", an_identity(), NOW)
    assert wire.asked[0][1]["User-Agent"] == "Mozilla/5.0 (1) (+https://example.test/bot)"


async def test_cookies_the_marketplace_did_not_give_are_not_sent() -> None:
    wire = Wire()
    await a_client(wire, Session(SECRET, "", "", HOUR)).fetch("/", an_identity(), NOW)
    assert "Cookie" not in wire.asked[0][1]


async def test_headers_are_made_once_for_each_agent_and_again_when_its_token_changes() -> None:
    opened: list[str] = []
    wire = Wire()

    def open_token(identity: Identity) -> Session:
        opened.append(identity.token.fingerprint)
        return Session(f"token-of-{identity.token.fingerprint}", "", "", HOUR)

    client = MustitMarketplace(wire, BASE, open_token)
    first = an_identity(1)
    renewed = structs.replace(first, token=a_token(3, fingerprint="renewed"))
    for identity in (first, first, an_identity(2), first, renewed, renewed):
        await client.fetch("/", identity, NOW)
    assert opened == ["fingerprint-1", "fingerprint-2", "renewed"]
    assert wire.asked[-1][1]["Authorization"] == "Bearer token-of-renewed"


async def test_headers_of_very_many_agents_are_not_kept_for_ever() -> None:
    client = a_client(Wire())
    for number in range(1, 1_200):
        await client.fetch("/", structs.replace(an_identity(), user_agent_id=agent_id(number)), NOW)
    assert len(client._headers) == 1_000


@pytest.mark.parametrize("url", ["", "x", "//evil.test/", "https://evil.test/", "@evil.test/", ".evil.test/"])
async def test_no_other_host_is_ever_sent_a_token(url: str) -> None:
    wire = Wire()
    with pytest.raises(ValueError, match="only paths"):
        await a_client(wire).fetch(url, an_identity(), NOW)
    assert wire.asked == []


async def test_a_good_answer_brings_its_body_and_no_problem() -> None:
    answer = await a_client(Wire(Reply(200, (), b"[]"))).fetch("/", an_identity(), NOW)
    assert (answer.kind, answer.status, answer.body, answer.detail) == (AnswerKind.OK, 200, b"[]", "")


@pytest.mark.parametrize(
    ("statuses", "kind"),
    [
        ((200, 204), AnswerKind.OK),
        ((404,), AnswerKind.GONE),
        ((429,), AnswerKind.TOO_MANY),
        ((401, 403), AnswerKind.UNAUTHORISED),
        ((400,), AnswerKind.BAD_REQUEST),
        ((402, 405, 408, 410, 418, 499), AnswerKind.REFUSED),
        ((301, 302, 304, 308), AnswerKind.REDIRECTED),
        ((500, 502, 503, 504, 599, 999), AnswerKind.SERVER_ERROR),
    ],
)
async def test_a_status_is_put_into_the_words_of_the_port(statuses: tuple[int, ...], kind: AnswerKind) -> None:
    for status in statuses:
        assert await kind_of(status) is kind


@pytest.mark.parametrize("status", [404, 429, 503, 302])
async def test_of_an_answer_other_than_good_nothing_is_kept_but_its_status(status: int) -> None:
    wire = Wire(Reply(status, (("location", f"/?token={SECRET}"),), SECRET.encode()))
    answer = await a_client(wire).fetch("/", an_identity(), NOW)
    assert (answer.status, answer.detail, answer.body) == (status, "", b"")
    assert len(wire.asked) == 1


@pytest.mark.parametrize(
    ("header", "wait"),
    [
        ("120", timedelta(seconds=120)),
        (format_datetime(NOW.replace(microsecond=0) + timedelta(minutes=5), usegmt=True), timedelta(minutes=5)),
        (None, None),
        ("-5", None),
        ("soon", None),
        ("99999999999", DAY),
    ],
)
async def test_a_429_says_how_long_it_asked_us_to_wait(header: str | None, wait: timedelta | None) -> None:
    wire = Wire(Reply(429, (("retry-after", header),) if header else (), b""))
    answer = await a_client(wire).fetch("/", an_identity(), NOW.replace(microsecond=0))
    assert (answer.kind, answer.wait) == (AnswerKind.TOO_MANY, wait)


async def test_moved_endpoints_and_changed_headers_need_no_release() -> None:
    settings = Settings.model_validate(
        {
            "marketplace_detail_path": "/v9/goods/{item_no}",
            "marketplace_options_path": "/v9/goods/{item_no}/choices",
            "marketplace_token_path": "/hello",
            "marketplace_first_page": 1,
            "marketplace_headers": "Accept: application/json | X-Client: shop",
            "marketplace_page_headers": "Accept: text/html",
            "marketplace_token_header": "X-Token: {token}",
        }
    )
    wire = Wire()
    market = a_client(wire, urls=urls_of(settings), headers=headers_of(settings))
    assert market.detail_url(ItemNo(7)) == "/v9/goods/7"
    assert market.option_url(ItemNo(7)) == "/v9/goods/7/choices"
    assert "&pageNo=1&" in market.list_url(SELLER, 0, 7)
    assert RequestUrl.of_settings(TaskType.PRODUCT_DETAIL, market.detail_url(ItemNo(7))) == "/v9/goods/7"
    await market.fetch("/v9/goods/7", an_identity(), NOW)
    await market.open_session("Mozilla/5.0", NOW)
    (_, asked), (page, opened) = wire.asked
    assert {name: asked[name] for name in ("Accept", "X-Client", "X-Token")} == {
        "Accept": "application/json",
        "X-Client": "shop",
        "X-Token": SECRET,
    }
    assert "Authorization" not in asked
    assert (page, opened) == (f"{BASE}/hello", {"User-Agent": "Mozilla/5.0", "Accept": "text/html"})


async def test_a_503_with_a_retry_after_is_a_rate_limit_and_one_without_is_none() -> None:
    asked = await a_client(Wire(Reply(503, (("retry-after", "120"),), b""))).fetch("/", an_identity(), NOW)
    assert (asked.kind, asked.wait, asked.is_rate_limited) == (AnswerKind.SERVER_ERROR, 120 * SECOND, True)
    silent = await a_client(Wire(Reply(503, (), b""))).fetch("/", an_identity(), NOW)
    assert (silent.wait, silent.is_rate_limited) == (None, False)


async def test_a_retry_after_of_any_other_answer_is_not_taken_for_a_wait() -> None:
    wire = Wire(Reply(500, (("retry-after", "120"),), b""))
    assert (await a_client(wire).fetch("/", an_identity(), NOW)).wait is None


@pytest.mark.parametrize(
    ("problem", "detail", "kind", "shown"),
    [
        (TransportProblem.UNREACHABLE, "Connection refused", AnswerKind.UNREACHABLE, "Connection refused"),
        (TransportProblem.TIMEOUT, "", AnswerKind.TIMED_OUT, "timed out"),
        (TransportProblem.DROPPED, "before an answer", AnswerKind.DROPPED, "before an answer"),
        (TransportProblem.TOO_LARGE, "more than 5", AnswerKind.TOO_LARGE, "more than 5"),
    ],
)
async def test_without_a_reply_the_answer_says_what_happened(
    problem: TransportProblem, detail: str, kind: AnswerKind, shown: str
) -> None:
    answer = await a_client(Wire(TransportFailed(problem, detail))).fetch("/", an_identity(), NOW)
    assert (answer.kind, answer.status, answer.detail) == (kind, None, shown)


async def test_a_token_that_cannot_be_opened_is_as_good_as_refused_and_nothing_is_sent() -> None:
    """A key was dropped: the cure is a new token, as after a 401."""
    wire = Wire()

    def open_token(identity: Identity) -> Session:
        raise InvalidToken(problem="its key k1 is not among the configured ones")

    answer = await MustitMarketplace(wire, BASE, open_token).fetch("/", an_identity(), NOW)
    assert (answer.kind, answer.status) == (AnswerKind.UNAUTHORISED, None)
    assert "its key k1" in answer.detail
    assert wire.asked == []
