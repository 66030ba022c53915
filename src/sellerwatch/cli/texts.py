"""Texts of commands in the language of the setting LANGUAGE."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sellerwatch import texts

#: Units of a distance in time, with the end of their key in the family `console`.
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


class Texts:
    """The texts of one family in one language. Column titles and words that the console has too come from there."""

    def __init__(self, family: str, language: str) -> None:
        self._family = family
        self.language = language

    def __call__(self, key: str, /, **facts: object) -> str:
        """Return the text of a key with its facts put in."""
        own = key in texts.family(self._family)
        return texts.say(self._family if own else "console", key, self.language, **facts)

    def columns(self, *names: str) -> list[str]:
        """Return the titles of columns: `seller` is the key `col.seller`."""
        return [self(f"col.{name}") for name in names]

    def ago(self, time: datetime | None, now: datetime) -> str | None:
        """Return `3 min ago` or `in 2 h`; None where there is no time."""
        if time is None:
            return None
        since = now - time.astimezone(UTC)
        way = "ago" if since >= timedelta(0) else "in"
        seconds = abs(since.total_seconds())
        size, unit = next((each for each in _UNITS if seconds >= each[0]), _UNITS[-1])
        return self(f"{way}.{unit}", n=round(seconds / size))

    def when(self, time: datetime, now: datetime) -> str:
        """Return a time with its distance from now."""
        return f"{time:%Y-%m-%d %H:%M:%S} UTC ({self.ago(time, now)})"
