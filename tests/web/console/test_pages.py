"""Every page answers: for an administrator, for a viewer, for nobody; full and empty; in both languages."""

from __future__ import annotations

import pytest

from .conftest import Console

LISTS = (
    "/",
    "/sellers",
    "/executions",
    "/tasks",
    "/products",
    "/outbox",
    "/agents",
    "/quarantine",
    "/removals",
    "/schedules",
    "/audit",
    "/settings",
)


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize("who", ["admin", "viewer"])
async def test_a_page_of_an_empty_service_answers_and_says_what_to_do(console: Console, who: str, path: str) -> None:
    seen = await console.person(who).see(path)
    assert seen.status == 200, seen.words
    assert seen.headers["content-type"].startswith("text/html")
    assert 'aria-current="page"' in seen.text


@pytest.mark.parametrize("path", LISTS)
async def test_nobody_is_led_to_the_log_in_and_back(console: Console, path: str) -> None:
    seen = await console.nobody.see(path)
    assert seen.status == 200
    assert 'name="password"' in seen.text
    assert f'name="next" value="{path}"' in seen.text
