"""The Standard Webhooks signature: it proves to the receiver that an event is ours, unchanged and fresh.

Several secrets are for rotation: each message is signed with all of them, so the receiver may know the old or the new.
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
    """A secret that cannot be used. The problem never contains any of it."""

    problem: str


def signing_keys(secrets: str | None) -> tuple[bytes, ...]:
    """Return the keys of a setting: one or several secrets, separated by spaces or commas; none is allowed."""
    return tuple(_key(secret) for secret in _BETWEEN.split(secrets or "") if secret)


def signature_header(keys: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """Return one `v1,<base64>` for each key, separated by spaces."""
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
