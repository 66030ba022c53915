"""The texts of commands, in the language of the setting LANGUAGE."""

from __future__ import annotations

from datetime import UTC, datetime

from sellerwatch.cli.output import language_setting
from sellerwatch.kernel.clock import SystemClock
from sellerwatch.texts import family, say

#: Units of a distance in time in seconds, each with the end of its key in the family `console`.
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


class Texts:
    """The texts of one family in one language: `texts("sellers.activated", seller=seller_id)`.

    A key that the family does not have is taken from the console: most column titles and states. Distances in time
    are from `now`, the time of the command.
    """

    def __init__(self, name: str, language: str | None = None, now: datetime | None = None) -> None:
        self._family = name
        self.now = SystemClock().now() if now is None else now
        self.language = language or language_setting()

    def __call__(self, key: str, /, **facts: object) -> str:
        """Return the text of a key with its facts put in."""
        is_own = key in family(self._family)
        return say(self._family if is_own else "console", key, self.language, **facts)

    def columns(self, *names: str) -> list[str]:
        """Return the titles of columns: that of `seller` is the text `col.seller`."""
        return [self(f"col.{name}") for name in names]

    def ago(self, time: datetime | None, now: datetime | None = None) -> str | None:
        """Return how long ago or in how long: `3 min ago`, `in 2 h`, `now`; None where there is no time."""
        if time is None:
            return None
        seconds = ((now or self.now) - time.astimezone(UTC)).total_seconds()
        if abs(seconds) < 1:
            return self("now")
        size, unit = next((size, unit) for size, unit in _UNITS if abs(seconds) >= size)
        return self(f"{'ago' if seconds > 0 else 'in'}.{unit}", n=round(abs(seconds) / size))

    def when(self, time: datetime | None, now: datetime | None = None) -> str | None:
        """Return a time with its distance from now; None where there is no time."""
        return None if time is None else f"{time:%Y-%m-%d %H:%M:%S} UTC ({self.ago(time, now)})"
