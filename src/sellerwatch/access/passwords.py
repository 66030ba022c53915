"""Hashing and checking passwords in threads: slow on purpose, so few at a time and never a long queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from sellerwatch.access.ports import Passwords
from sellerwatch.kernel.errors import Unavailable

T = TypeVar("T")

AT_ONCE = 2
MOST_WAITING = 20


@dataclass(eq=False)
class LoginsBusy(Unavailable):
    """More passwords wait to be checked than the queue takes; callers are asked to come back."""

    seconds: float = 2.0

    @property
    def retry_after(self) -> float:  # type: ignore[override]
        return self.seconds


class PasswordHasher:
    """Hashes and checks passwords beside the event loop."""

    def __init__(self, passwords: Passwords) -> None:
        self._passwords = passwords
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0

    async def hash(self, password: str) -> str:
        return await self._run(lambda: self._passwords.hash(password))

    async def check(self, stored: str | None, password: str) -> bool:
        return await self._run(lambda: self._passwords.check(stored, password))

    async def _run(self, function: Callable[[], T]) -> T:
        if self._waiting >= MOST_WAITING:
            raise LoginsBusy
        self._waiting += 1
        try:
            async with self._slots:
                return await asyncio.to_thread(function)
        finally:
            self._waiting -= 1
