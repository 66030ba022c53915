"""Hashes of passwords by argon2id, with the parameters of RFC 9106 for machines with little memory (64 MB, 3 passes).

Checking takes a tenth of a second of CPU and 64 MB on purpose: callers do it in a thread, few at a time.
"""

from __future__ import annotations

import argon2
from argon2.exceptions import InvalidHashError, VerificationError

_NO_USERS = "the password of no user"


class Argon2Passwords:
    def __init__(self, *, memory_kib: int = 65_536, passes: int = 3) -> None:
        self._hasher = argon2.PasswordHasher(time_cost=passes, memory_cost=memory_kib, parallelism=4)
        self._nobody: str | None = None

    def hash(self, password: str) -> str:
        return self._hasher.hash(password)

    def check(self, stored: str | None, password: str) -> bool:
        """Check a password. Without a stored hash it takes as long, and fails."""
        if self._nobody is None:
            self._nobody = self._hasher.hash(_NO_USERS)
        try:
            self._hasher.verify(self._nobody if stored is None else stored, password)
        except (VerificationError, InvalidHashError):
            return False
        return stored is not None
