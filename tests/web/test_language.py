"""A refusal is said in the reader's language; its code never changes."""

from __future__ import annotations

import pytest

from .api_world import ApiWorld

ENGLISH, KOREAN = "There is nothing at this path", "이 경로에는 아무것도 없습니다"


@pytest.mark.parametrize(
    ("asked", "language", "said"),
    [
        ("", "en", ENGLISH),
        ("ko", "ko", KOREAN),
        ("ko-KR,ko;q=0.9,en;q=0.8", "ko", KOREAN),
        ("en;q=0.5, ko;q=0.9", "ko", KOREAN),
        ("fr, ko;q=0.1", "ko", KOREAN),
        ("ko;q=0, en;q=0.1", "en", ENGLISH),
        ("fr", "en", ENGLISH),
        ("*", "en", ENGLISH),
        ("ko;q=rubbish", "en", ENGLISH),
        (",;,;q=,", "en", ENGLISH),
    ],
)
async def test_the_reader_is_answered_in_the_language_it_likes_best(
    world: ApiWorld, asked: str, language: str, said: str
) -> None:
    refused = await world.nobody.ask("GET", "/nowhere", headers={"accept-language": asked})
    assert refused.json["message"].startswith(said)
    assert (refused.json["errorCode"], refused.headers["content-language"]) == ("NO_SUCH_PATH", language)
    assert refused.headers["vary"] == "Accept-Language"


async def test_what_is_wrong_with_a_field_is_said_in_the_readers_language(world: ApiWorld) -> None:
    korean = {"accept-language": "ko"}
    refused = (await world.admin.ask("POST", "/api/v1/sellers", {"name": "가게"}, headers=korean)).json
    assert refused["message"] == "요청이 올바르지 않습니다. sellerId: 필수 항목입니다."
    assert refused["details"] == [{"field": "sellerId", "problem": "필수 항목입니다"}]
    unknown = (await world.admin.ask("GET", "/api/v1/limits", query={"sort": "name"}, headers=korean)).json
    assert unknown["details"] == [{"field": "sort", "problem": "이 경로에 없는 매개변수입니다"}]
    limit = (await world.admin.ask("PUT", "/api/v1/limits/WINDOW_LIMIT", {"value": 0}, headers=korean)).json
    assert limit["message"] == "WINDOW_LIMIT 설정에 '0' 값을 사용할 수 없습니다. 다음 값보다 커야 합니다: 0."
