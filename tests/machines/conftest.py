"""A Redis for the machines that need one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.servers import Redis, running


@pytest.fixture(scope="package")
def redis() -> Iterator[Redis]:
    with running(Redis) as server:
        assert isinstance(server, Redis)
        yield server
