"""The transport is tested on asyncio's own loop and on uvloop, which the service uses: they differ."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    own = {"asyncio": asyncio.new_event_loop}
    return own | {"uvloop": uvloop.new_event_loop} if item.path.name == "test_transport.py" else own
