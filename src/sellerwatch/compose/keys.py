"""Keys and passwords: configured, or created once beside the embedded database."""

from __future__ import annotations

import base64
import os

from sellerwatch.adapters.keyfile import internal_key_beside, jwt_secret_beside, token_keys_beside
from sellerwatch.adapters.passwords import Argon2Passwords
from sellerwatch.adapters.sealing import AesGcmSealer, parse_keys
from sellerwatch.adapters.sql.engine import (
    database_path,
    make_engine,
)
from sellerwatch.settings.model import Settings


def open_sealer(settings: Settings) -> AesGcmSealer:
    """Open the encryption of tokens, with the configured keys or those beside the database."""
    return AesGcmSealer(parse_keys(_token_keys(settings)))


def _token_keys(settings: Settings) -> str:
    if settings.token_keys is not None:
        return settings.token_keys.get_secret_value()
    path = database_path(make_engine(settings.database_url))
    if path is None:
        return f"memory:{base64.b64encode(os.urandom(32)).decode()}"
    return token_keys_beside(path)


def jwt_secret(settings: Settings) -> str:
    """Return the secret that signs API tokens: configured, or created once beside the embedded database."""
    if settings.jwt_secret is not None:
        return settings.jwt_secret.get_secret_value()
    path = database_path(make_engine(settings.database_url))
    return base64.b64encode(os.urandom(32)).decode() if path is None else jwt_secret_beside(path)


def internal_api_keys(settings: Settings) -> tuple[str, ...]:
    """Return the keys of `/api/internal`: configured, or created once beside the embedded database."""
    if settings.internal_api_keys is not None:
        keys = settings.internal_api_keys.get_secret_value().split(",")
        return tuple(key.strip() for key in keys if key.strip())
    path = database_path(make_engine(settings.database_url))
    return () if path is None else (internal_key_beside(path),)


def open_passwords() -> Argon2Passwords:
    """Return the hashing of passwords; nothing is computed yet."""
    return Argon2Passwords()
