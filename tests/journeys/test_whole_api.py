"""The whole API as its own description has it: made-up requests of every kind by an administrator, a viewer, nobody.

Whatever is sent, the answer is one that is described: no 500, no status, no content type and no body that is not. One
seed makes one set of requests, so that what fails once fails again.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS
from schemathesis.core.result import Ok
from tests.web.served import KEY, Served, post, served

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.cli.running import at_work
from sellerwatch.web.api.credentials import Role

#: How many requests for each operation: more for those who get further than the door.
TRIES = {"admin": 6, "viewer": 3, "nobody": 2}
CHECKED = ("status_code_conformance", "content_type_conformance", "response_schema_conformance")
SELLERS = ("seller_0001", "seller_0002")


@contextmanager
def running(store: SqlStore) -> Iterator[Served]:
    """The API on a thread and a loop of its own: who asks is not who answers."""
    began, ended, found = threading.Event(), asyncio.Event(), list[Served]()
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        async with served(store) as api:
            for name in SELLERS:
                await post(api, "/api/v1/sellers", {"sellerId": name, "name": "가게"})
            await post(api, f"/api/v1/sellers/{SELLERS[0]}/crawl")
            found.append(api)
            async with at_work(api.service):
                began.set()
                await ended.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert began.wait(600)
    try:
        yield found[0]
    finally:
        loops[0].call_soon_threadsafe(ended.set)
        thread.join(60)


def headers_of(api: Served, who: str) -> dict[str, str]:
    return {} if who == "nobody" else api.headers(Role(who), **({"x-api-key": KEY} if who == "admin" else {}))


def request_of(case: Any) -> Any:
    """As it was made up, but for what would never end or lock everybody out: the stream is asked to end at once."""
    if case.path == "/api/v1/events":
        case.query = {**(case.query or {}), "seconds": "0"}
    return case


@pytest.mark.parametrize("who", TRIES)
def test_every_answer_is_one_that_is_described(store: SqlStore, who: str) -> None:
    with running(store) as api:
        schema = schemathesis.openapi.from_url(f"{api.address}/openapi.json")
        checks = CHECKS.get_by_names(list(CHECKED))
        tried = 0
        for result in schema.get_all_operations():
            headers = headers_of(api, who)

            def ask(case: Any) -> None:
                answer = request_of(case).call(headers=headers, timeout=600)  # noqa: B023 - run below
                # 502 and 503 are refusals with a reason; 500 is a bug of ours.
                assert answer.status_code != 500, answer.text
                case.validate_response(answer, checks=checks)

            assert isinstance(result, Ok)
            for mode in GenerationMode:
                with suppress(Unsatisfiable):
                    # Of some requests nothing can be made wrong.
                    made_up(result.ok(), mode, TRIES[who])(ask)()
            tried += 1
        assert tried >= 15


def made_up(operation: Any, mode: GenerationMode, tries: int) -> Callable[[Callable[[Any], None]], Callable[[], None]]:
    """Runs a function on so many requests to one operation, right ones or wrong ones."""

    def over(ask: Callable[[Any], None]) -> Callable[[], None]:
        chosen = settings(
            max_examples=tries,
            deadline=None,
            database=None,
            phases=(Phase.explicit, Phase.generate),
            suppress_health_check=list(HealthCheck),
        )
        return seed(8)(chosen(given(case=operation.as_strategy(generation_mode=mode))(ask)))

    return over
