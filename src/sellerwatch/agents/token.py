"""A token: what the marketplace gave one agent to speak with. Held sealed; only the HTTP adapter opens it."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from datetime import datetime

from sellerwatch.kernel.errors import Invalid

#: 12 bytes of nonce, at least 5 of text, 16 of tag: 33 bytes, 44 characters.
SHORTEST_SEALED = 44


@dataclass(eq=False)
class InvalidToken(Invalid):
    """Not a sealed token; says what is wrong and nothing of the value."""

    problem: str


@dataclass(frozen=True, eq=False, repr=False)
class Token:
    """The sealed value and the sealed cookies beside it, each base64 of nonce, ciphertext and tag; equal by keyed
    fingerprint; prints nothing of itself."""

    key_id: str
    sealed: str = field(repr=False)
    fingerprint: str
    nid: str
    mustit_uid: str
    issued_at: datetime
    expires_at: datetime
    #: Issued because another one was rejected, and not accepted by the marketplace yet.
    is_replacement: bool = False

    def __post_init__(self) -> None:
        if not self.sealed.strip():
            raise InvalidToken(problem="it is blank")
        if len(self.sealed) < SHORTEST_SEALED:
            raise InvalidToken(problem=f"it is shorter than {SHORTEST_SEALED} characters")
        try:
            base64.b64decode(self.sealed, validate=True)
        except (binascii.Error, ValueError):
            raise InvalidToken(problem="it is not base64") from None

    def is_valid(self, now: datetime) -> bool:
        return now < self.expires_at

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Token) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return "Token(sealed)"
