"""Keys of an embedded installation: made once, kept beside the database where only its owner can read them.

At scale keys come from settings; a file beside one machine's database would be no use to the other machines.
"""

from __future__ import annotations

import base64
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sellerwatch.kernel.errors import Failed

KEY_BYTES = 32


@dataclass(eq=False)
class KeyFileUnusable(Failed):
    """The key file cannot be read or made: without it stored tokens cannot be opened."""

    path: str
    problem: str


def token_keys_beside(database: Path) -> str:
    """`id:base64`: what seals the tokens."""
    return secret_beside(database, "keys", lambda: f"k1:{base64.b64encode(os.urandom(KEY_BYTES)).decode()}")


def jwt_secret_beside(database: Path) -> str:
    """What signs the API's tokens."""
    return secret_beside(database, "jwt", lambda: secrets.token_urlsafe(KEY_BYTES))


def secret_beside(database: Path, suffix: str, make: Callable[[], str]) -> str:
    """A secret from the file beside the database; made with mode 0600 if there is none.

    Two processes that start at once make it once: the file is linked into place whole, and whoever comes second reads
    the first one's.
    """
    path = database.with_name(f"{database.name}.{suffix}")
    try:
        if not path.exists():
            _make(path, make())
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
