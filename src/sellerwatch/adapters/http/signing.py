"""The Standard Webhooks signature: proof for the receiver that an event is ours, unchanged and fresh.

Several secrets at once are for rotation: everything is signed with each, so a receiver may know the old or the new one.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass

from sellerwatch.kernel.errors import Invalid

_PREFIX = "whsec_"
_BETWEEN = re.compile(r"[\s,]+")


@dataclass(eq=False)
class InvalidSigningSecret(Invalid):
    """A secret that cannot be used; the problem never shows any of it."""

    problem: str


def signing_keys(secrets: str | None) -> tuple[bytes, ...]:
    """The keys in a setting: one or several secrets, separated by spaces or commas; none at all is allowed."""
    return tuple(_key(secret) for secret in _BETWEEN.split(secrets or "") if secret)


def signature_header(keys: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """One `v1,<base64>` for each key, separated by a space."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return " ".join("v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode() for key in keys)


def _key(secret: str) -> bytes:
    if not secret.startswith(_PREFIX):
        return secret.encode()
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not key:
        raise InvalidSigningSecret(problem="what follows whsec_ must be base64")
    return key
