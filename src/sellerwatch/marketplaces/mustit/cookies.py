"""Read the session from the `set-cookie` headers of `GET /`.

Written by hand because `http.cookies` silently drops a whole header that it rejects. The values go into headers of
ours, so a value with characters that could end a header is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

DEFAULT_LIFETIME = timedelta(hours=2)
LONGEST_LIFETIME = timedelta(days=400)
"""What browsers allow; it also keeps a rubbish Max-Age from running off the calendar."""

_HARMLESS = re.compile(r"[!#-+\--:<-\[\]-~]{1,4096}")
"""A cookie's value by RFC 6265: printable ASCII without space, quote, comma, semicolon and backslash."""


@dataclass(frozen=True, repr=False)
class Cookie:
    """One cookie that was set. A `lifetime` of zero removes it."""

    value: str
    lifetime: timedelta

    def __repr__(self) -> str:
        return "Cookie(hidden)"


def read_cookies(headers: Iterable[str], now: datetime) -> dict[str, Cookie]:
    """Return the usable cookies of one answer by name; of a name set twice, the last counts."""
    found: dict[str, Cookie] = {}
    for header in headers:
        pair, *attributes = header.split(";")
        name, equals, value = (part.strip() for part in pair.partition("="))
        value = value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
        if equals and _HARMLESS.fullmatch(value):
            found[name] = Cookie(value, _lifetime(attributes, now))
    return found


def _lifetime(attributes: Iterable[str], now: datetime) -> timedelta:
    """Return Max-Age, else Expires, else two hours; an unreadable attribute counts as missing."""
    given = {name.strip().lower(): value.strip() for name, _, value in (a.partition("=") for a in attributes)}
    if re.fullmatch(r"-?[0-9]{1,18}", given.get("max-age", "")):
        seconds = min(int(given["max-age"]), LONGEST_LIFETIME.total_seconds())
        return timedelta(seconds=max(seconds, 0))
    try:
        expires = parsedate_to_datetime(given["expires"])
    except (KeyError, ValueError, TypeError, IndexError, OverflowError):
        return DEFAULT_LIFETIME
    left = (expires if expires.tzinfo else expires.replace(tzinfo=UTC)) - now
    return min(max(left, timedelta(0)), LONGEST_LIFETIME)
