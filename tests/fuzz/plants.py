"""A bug for each target, planted on purpose: one that is not found says that the target looks at nothing.

The code of one function is exchanged, so that every module that imported it runs the changed one.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from sellerwatch.adapters.http import http1
from sellerwatch.kernel import retry_after
from sellerwatch.marketplaces.mustit import parse
from sellerwatch.settings import load
from sellerwatch.simulator import events
from sellerwatch.web.api import bodies


@dataclass(frozen=True)
class Plant:
    """One change of one function: `before` is in its source once."""

    function: FunctionType
    before: str
    after: str

    def code(self) -> CodeType:
        source = textwrap.dedent(inspect.getsource(self.function))
        assert source.count(self.before) == 1, f"{self.before!r} is not in {self.function.__name__} once"
        made: dict[str, Any] = {}
        changed = "from __future__ import annotations\n" + source.replace(self.before, self.after)
        exec(compile(changed, inspect.getfile(self.function), "exec"), self.function.__globals__, made)  # noqa: S102
        code: CodeType = made[self.function.__name__].__code__
        return code


def _plant(function: Callable[..., Any], before: str, after: str) -> Plant:
    assert isinstance(function, FunctionType)
    return Plant(function, before, after)


#: By target.
PLANTS = {
    "http_answers": _plant(http1._field, "not _TOKEN(name)", "not name"),
    "settings": _plant(load._validated, "None if name in SECRETS else ", ""),
    "json_bodies": _plant(bodies._without_nul, '"\\0" in value', '"\\0" in value[1:]'),
    "api_requests": _plant(bodies.check_body, "(ValueError, RecursionError)", "RecursionError"),
    "webhook_signatures": _plant(
        events.is_signed, "hmac.compare_digest(one.encode(), other.encode())", "one[:20] == other[:20]"
    ),
    "marketplace_bodies": _plant(parse._entry, 'tag.title or ""', "tag.title"),
    "marketplace_headers": _plant(retry_after.retry_after, "(ValueError, OverflowError)", "OverflowError"),
}


@contextmanager
def planted(plant: Plant) -> Iterator[None]:
    """The bug is in the code meanwhile."""
    original, plant.function.__code__ = plant.function.__code__, plant.code()
    try:
        yield
    finally:
        plant.function.__code__ = original
        # It may have kept what the bug made.
        http1._known_field.cache_clear()
