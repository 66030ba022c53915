"""Keys of an embedded installation: made once, stored beside the database, readable only by its owner.

At scale keys come from settings: other machines could not read a file beside one machine's database.
"""

from __future__ import annotations

import base64
import os
import secrets
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sellerwatch.kernel.errors import Failed

KEY_BYTES = 32


@dataclass(eq=False)
class KeyFileUnusable(Failed):
    """The key file cannot be read or created; without it stored tokens cannot be decrypted."""

    path: str
    problem: str


@dataclass(eq=False)
class KeyFileExposed(Failed):
    """Other users of the machine can read or write the key file."""

    path: str
    mode: str


def token_keys_beside(database: Path) -> str:
    """Return `id:base64`, the key that encrypts tokens."""
    return secret_beside(database, "keys", lambda: f"k1:{base64.b64encode(os.urandom(KEY_BYTES)).decode()}")


def jwt_secret_beside(database: Path) -> str:
    """Return the secret that signs API tokens."""
    return secret_beside(database, "jwt", lambda: secrets.token_urlsafe(KEY_BYTES))


def internal_key_beside(database: Path) -> str:
    """Return the key of `/api/internal`."""
    return secret_beside(database, "api_key", lambda: secrets.token_urlsafe(KEY_BYTES))


def secret_beside(database: Path, suffix: str, make: Callable[[], str]) -> str:
    """Return the secret in the file beside the database; create it with mode 0600 if it is missing.

    Of two processes that start at once, one creates it: the file is linked into place whole, and the other reads it.
    """
    path = database.with_name(f"{database.name}.{suffix}")
    try:
        if not path.exists():
            _make(path, make())
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & stat.S_IRWXO:
            raise KeyFileExposed(path=str(path), mode=f"{mode:04o}")
        return path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        problem = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise KeyFileUnusable(path=str(path), problem=problem) from None


def _make(path: Path, secret: str) -> None:
    made = path.with_name(f"{path.name}.{os.getpid()}.new")
    descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as opened:
        opened.write(f"{secret}\n")
        opened.flush()
        os.fsync(opened.fileno())
    try:
        os.link(made, path)
    except FileExistsError:
        pass
    finally:
        made.unlink()
