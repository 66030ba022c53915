"""Opening a session: `GET /` as a browser does it, and who is to blame when it gives none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from tests.builders import DAY, HOUR, NOW, a_session

from sellerwatch.agents.answers import Answer, AnswerKind, Session
from sellerwatch.agents.judgement import judge_answer
from sellerwatch.marketplaces.mustit.client import MustitMarketplace
from sellerwatch.marketplaces.mustit.cookies import read_cookies
from sellerwatch.marketplaces.ports import Reply, TransportFailed, TransportProblem

BASE = "https://market.test"
TOKEN = "very-secret-token"


def page(*cookies: str, status: int = 200, location: str | None = None) -> Reply:
    headers = [("set-cookie", cookie) for cookie in cookies]
    return Reply(status, [*headers, ("location", location)] if location is not None else headers, b"<html>")


GIVEN = (f"token={TOKEN}; Max-Age=7200; Path=/", "nid=0b7c; Path=/; Secure", "mustit_uid=1764141487281.758544")


@dataclass
class Browser:
    """Plays these replies in turn, the last one for ever."""

    replies: list[Reply | TransportFailed]
    asked: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)

    async def get(self, url: str, headers: Mapping[str, str]) -> Reply:
        self.asked.append((url, headers))
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, TransportFailed):
            raise reply
        return reply


async def opened(*replies: Reply | TransportFailed, base: str = BASE) -> tuple[Session | Answer, Browser]:
    browser = Browser(list(replies))
    market = MustitMarketplace(browser, base, a_session, user_agent_suffix="(+bot)")
    return await market.open_session("Mozilla/5.0", NOW), browser


async def lifetime(attributes: str) -> timedelta | None:
    session, _ = await opened(page(f"token={TOKEN}{attributes}"))
    return session.lifetime if isinstance(session, Session) else None


async def test_a_session_is_the_three_cookies_and_their_lifetime() -> None:
    session, browser = await opened(page(*GIVEN))
    assert session == Session(TOKEN, "0b7c", "1764141487281.758544", timedelta(hours=2))
    url, headers = browser.asked[0]
    assert (url, headers["User-Agent"]) == ("https://market.test/", "Mozilla/5.0 (+bot)")
    assert headers["Accept"].startswith("text/html")
    assert headers["Accept-Language"].startswith("ko-KR")
    assert not {"Authorization", "Cookie"} & set(headers)


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ("; Max-Age=60; Expires=Thu, 01 Jan 2037 00:00:00 GMT", timedelta(seconds=60)),
        ("; max-age=60", timedelta(seconds=60)),
        ("; Expires=Sun, 15 Nov 2026 08:04:05 GMT", timedelta(hours=2, microseconds=-123456)),
        ("; expires=Sun, 15-Nov-2026 08:04:05 GMT", timedelta(hours=2, microseconds=-123456)),
        ("; Max-Age=soon; Expires=Sun, 15 Nov 2026 07:04:05 GMT", timedelta(hours=1, microseconds=-123456)),
        ("; Path=/; HttpOnly", 2 * HOUR),
        ("; Max-Age=; Expires=never", 2 * HOUR),
        ("; Expires=Sun, 15 Nov 2026 08:04:05 +9999999999999999", 2 * HOUR),
        ("; Max-Age=999999999999", 400 * DAY),
        ("; Expires=Fri, 31 Dec 9999 23:59:59 GMT", 400 * DAY),
        ("; Max-Age=0", None),
        ("; Max-Age=-1", None),
        ("; Expires=Thu, 01 Jan 1970 00:00:00 GMT", None),
    ],
)
async def test_a_token_lives_for_max_age_else_until_expires_else_two_hours(
    attributes: str, expected: timedelta | None
) -> None:
    """None: the cookie was taken away, so there is no session."""
    assert await lifetime(attributes) == expected


@pytest.mark.parametrize("missing", [1, 2])
async def test_only_the_token_is_needed(missing: int) -> None:
    session, _ = await opened(page(*(cookie for at, cookie in enumerate(GIVEN) if at != missing)))
    assert isinstance(session, Session)
    assert (session.nid, session.mustit_uid).count("") == 1


async def test_a_redirect_on_the_same_host_is_followed_with_the_cookies_so_far() -> None:
    session, browser = await opened(page(GIVEN[1], status=302, location="/home?a=b c"), page(GIVEN[0], GIVEN[2]))
    assert session == Session(TOKEN, "0b7c", "1764141487281.758544", timedelta(hours=2))
    assert [url for url, _ in browser.asked] == ["https://market.test/", "https://market.test/home?a=b%20c"]
    assert browser.asked[1][1]["Cookie"] == "nid=0b7c"


async def test_a_redirect_from_http_to_https_is_followed() -> None:
    session, browser = await opened(
        page(status=301, location="https://market.test/"), page(*GIVEN), base="http://market.test"
    )
    assert isinstance(session, Session)
    assert browser.asked[1][0] == "https://market.test/"


@pytest.mark.parametrize(
    "location",
    [
        "https://evil.test/",
        "//evil.test/",
        "http://market.test/",
        "https://market.test:8443/",
        "ftp://market.test/",
        "https://market.test@evil.test/",
        "https://me:pw@market.test/",
        "javascript:alert(1)",
        "http://[",
        "",
    ],
)
async def test_a_redirect_to_anywhere_else_is_not_followed_and_no_refusal(location: str) -> None:
    session, browser = await opened(page(*GIVEN, status=302, location=location), page(*GIVEN))
    assert isinstance(session, Answer)
    assert (judge_answer(session).refuses_agent, len(browser.asked)) == (False, 1)


async def test_a_redirect_without_an_address_is_not_followed() -> None:
    session, browser = await opened(page(*GIVEN, status=302))
    assert isinstance(session, Answer)
    assert (judge_answer(session).refuses_agent, len(browser.asked)) == (False, 1)


async def test_redirects_in_a_circle_end_after_five() -> None:
    session, browser = await opened(page(status=302, location="/"))
    assert session == Answer(AnswerKind.REDIRECTED, 302, detail="redirected more than 5 times")
    assert len(browser.asked) == 6


@pytest.mark.parametrize(
    ("reply", "refused"),
    [
        (page(status=200), True),
        (page("token=; Path=/", GIVEN[1]), True),
        (page("token=abc"), True),
        (page("token=with space"), True),
        (page('token=quo"te\\'), True),
        (page("token"), True),
        (page(*GIVEN, status=400), True),
        (page(*GIVEN, status=403), True),
        (page(*GIVEN, status=404), True),
        (page(*GIVEN, status=429), False),
        (page(*GIVEN, status=304), False),
        (page(*GIVEN, status=500), False),
        (page(*GIVEN, status=503), False),
        (TransportFailed(TransportProblem.TIMEOUT), False),
        (TransportFailed(TransportProblem.UNREACHABLE), False),
        (TransportFailed(TransportProblem.DROPPED), False),
        (TransportFailed(TransportProblem.TOO_LARGE), False),
    ],
)
async def test_only_an_answered_refusal_counts_against_the_agent(reply: Reply | TransportFailed, refused: bool) -> None:
    """An outage must not block the pool."""
    session, browser = await opened(reply)
    assert isinstance(session, Answer)
    assert judge_answer(session).refuses_agent is refused
    assert TOKEN not in repr(session)
    assert len(browser.asked) == 1


def test_of_a_cookie_set_twice_the_last_one_counts() -> None:
    assert read_cookies(["token=first", "token=second"], NOW)["token"].value == "second"


def test_quotes_around_a_value_are_not_part_of_it() -> None:
    assert read_cookies(['nid="a-b"; Path=/'], NOW)["nid"].value == "a-b"


@pytest.mark.parametrize("header", ["", ";", "=", "=x", "a", "a=b\r\nInjected: yes", "a=b\x00", "a=한"])
def test_a_cookie_that_could_break_a_header_is_left_out(header: str) -> None:
    assert read_cookies([header], NOW).get("a") is None


def test_a_cookie_too_long_to_be_kept_is_left_out() -> None:
    assert read_cookies([f"a={'x' * 5000}"], NOW) == {}


def test_neither_a_session_nor_a_cookie_shows_itself() -> None:
    session = Session(TOKEN, "nid", "uid", HOUR)
    assert TOKEN not in f"{session!r} {session} {read_cookies([f'token={TOKEN}'], NOW)}"
