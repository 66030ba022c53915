"""Wait for a condition where the time that passes is no part of what is tested."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

#: Seconds after which something counts as never happening, however busy the machine is.
PATIENCE = 600.0


async def until(condition: Callable[[], bool], what: str = "the condition") -> None:
    """Let other tasks and the network go on until the condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"never happened: {what}"
        await asyncio.sleep(0.001)


def wait_until(condition: Callable[[], bool], what: str, pause: float = 0.03) -> None:
    """The same without a loop: other processes go on meanwhile."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(pause)
