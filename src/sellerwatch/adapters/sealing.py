"""Encrypt tokens for the database and decrypt them for the HTTP header.

AES-256-GCM with a fresh random nonce for each value: a token, and the cookies that came with it. The agent's id is the
associated data, so a row copied to another agent does not decrypt. Each token is stored with the id of its key. The
first key encrypts, all of them decrypt: a key is changed by putting a new one in front and removing the old one when no
token needs it.

No error or repr here contains a key or a token.
"""

from __future__ import annotations

import base64
import hmac
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sellerwatch.agents.answers import Identity, Session
from sellerwatch.agents.token import InvalidToken, Token

KEY_BYTES = 32
NONCE_BYTES = 12
_FINGERPRINTS = b"sellerwatch token fingerprint v1"
#: Follow the agent's id in the associated data, so that no value opens in another's place.
_NID, _UID = " nid", " mustit_uid"


@dataclass(frozen=True, slots=True, repr=False)
class _Key:
    """A key in use. Fingerprints have a derived key of their own: what is shown must not help to decrypt."""

    id: str
    cipher: AESGCM = field(repr=False)
    fingerprint: bytes = field(repr=False)

    def __repr__(self) -> str:
        return f"_Key({self.id})"

    def seal(self, plain: str, bound_to: str) -> str:
        nonce = os.urandom(NONCE_BYTES)
        return base64.b64encode(nonce + self.cipher.encrypt(nonce, plain.encode(), bound_to.encode())).decode()

    def open(self, sealed: str, bound_to: str) -> str:
        raw = base64.b64decode(sealed, validate=True)
        return self.cipher.decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], bound_to.encode()).decode()


def parse_keys(text: str) -> tuple[tuple[str, bytes], ...]:
    """Return `id:base64,id:base64` as pairs, in order. A refusal names the entry and nothing of its value."""
    keys: dict[str, bytes] = {}
    for number, entry in enumerate(text.split(","), 1):
        key_id, _, encoded = entry.strip().partition(":")
        if key_id in keys:
            raise ValueError(f"token key {number} has the id of an earlier one")
        try:
            keys[key_id] = base64.b64decode(encoded, validate=True)
        except ValueError:
            keys[key_id] = b""
        if not key_id or len(keys[key_id]) != KEY_BYTES:
            raise ValueError(f"token key {number} is not an id, a colon and {KEY_BYTES} bytes in base64")
    return tuple(keys.items())


class AesGcmSealer:
    """`agents.ports.Sealer`: encrypts with the first key, decrypts with the key that a token names."""

    def __init__(self, keys: Sequence[tuple[str, bytes]]) -> None:
        if not keys:
            raise ValueError("at least one key is needed")
        self._keys = {key_id: _Key(key_id, AESGCM(key), _derived(key)) for key_id, key in keys}
        self._first = self._keys[keys[0][0]]

    def __repr__(self) -> str:
        return f"AesGcmSealer({', '.join(self._keys)})"

    @property
    def key_ids(self) -> tuple[str, ...]:
        return tuple(self._keys)

    def seal(self, session: Session, *, bound_to: str, issued_at: datetime) -> Token:
        """Encrypt a session for this agent. The fingerprint of a token is the same for the same key."""
        key = self._first
        return Token(
            key_id=key.id,
            sealed=key.seal(session.token, bound_to),
            fingerprint=hmac.digest(key.fingerprint, session.token.encode(), "sha256").hex(),
            nid=key.seal(session.nid, f"{bound_to}{_NID}"),
            mustit_uid=key.seal(session.mustit_uid, f"{bound_to}{_UID}"),
            issued_at=issued_at,
            expires_at=issued_at + session.lifetime,
        )

    def open(self, token: Token, bound_to: str) -> Session:
        """Return the session in the clear, for this agent only."""
        key = self._keys.get(token.key_id)
        if key is None:
            raise InvalidToken(problem=f"its key {token.key_id} is not among the configured ones")
        try:
            return Session(
                key.open(token.sealed, bound_to),
                key.open(token.nid, f"{bound_to}{_NID}"),
                key.open(token.mustit_uid, f"{bound_to}{_UID}"),
                token.expires_at - token.issued_at,
            )
        except (InvalidTag, ValueError):
            raise InvalidToken(problem="it was altered, or sealed for another agent or with another key") from None

    def open_identity(self, identity: Identity) -> Session:
        """Return the session of an identity in the clear, for the marketplace's client."""
        return self.open(identity.token, identity.user_agent_id)


def _derived(key: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=_FINGERPRINTS).derive(key)
