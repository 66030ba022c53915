"""The headers of a request to Mustit. They have changed before, so they are settings of the package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

KOREAN = "ko-KR,ko;q=0.9"
HTML = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


def _api() -> Mapping[str, str]:
    return {"Accept": "application/json", "Accept-Language": KOREAN}


def _page() -> Mapping[str, str]:
    return {"Accept": HTML, "Accept-Language": KOREAN}


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    """`api` are sent with every request of the API, `page` with those of the token page. The token is sent as
    `token_name`, put into `token_form` for `{token}`."""

    api: Mapping[str, str] = field(default_factory=_api)
    page: Mapping[str, str] = field(default_factory=_page)
    token_name: str = "Authorization"  # noqa: S105 - the name of a header
    token_form: str = "Bearer {token}"  # noqa: S105 - its form
