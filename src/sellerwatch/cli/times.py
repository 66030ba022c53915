"""Times as people type them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sellerwatch.cli import session
from sellerwatch.kernel.errors import Invalid

_AGO = re.compile(r"([0-9]{1,6}) ?(s|m|min|h|d)", re.IGNORECASE)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(eq=False)
class UnreadableTime(Invalid):
    """Neither a time nor a duration."""

    given: str


def parse_time(given: str | None, now: datetime) -> datetime | None:
    """Read a time in ISO 8601, in UTC where it names no zone; `2h` means two hours before now."""
    if given is None:
        return None
    ago = _AGO.fullmatch(given.strip())
    if ago:
        return now - timedelta(seconds=int(ago[1]) * _UNITS[ago[2][0].lower()])
    try:
        read = datetime.fromisoformat(given.strip())
    except ValueError:
        raise UnreadableTime(given=session.text(given)[:100]) from None
    return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
