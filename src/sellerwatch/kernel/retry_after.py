"""What `Retry-After` asks for, however it was put."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime


def retry_after(header: str | None, now: datetime, longest: timedelta) -> timedelta | None:
    """Seconds or a date, as a wait from now; None when it is absent, negative, past or rubbish.

    Never longer than `longest`: a receiver's slip of the keyboard must not stop us for a year.
    """
    if header is None:
        return None
    text = header.strip()
    try:
        wait = timedelta(seconds=min(float(text), longest.total_seconds()))
    except (ValueError, OverflowError):
        try:
            date = parsedate_to_datetime(text)
        except (ValueError, TypeError, IndexError, OverflowError):
            return None
        wait = (date if date.tzinfo else date.replace(tzinfo=UTC)) - now
    return min(wait, longest) if wait > timedelta(0) else None
