"""What commands print, in the language of the setting LANGUAGE. Column titles and ages are those of the console."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sellerwatch import texts

_UNITS = (("d", 86400), ("h", 3600), ("m", 60))


@dataclass(frozen=True)
class Texts:
    """The texts of one family in one language."""

    family: str
    language: str

    def __call__(self, key: str, /, **facts: object) -> str:
        return texts.say(self.family, key, self.language, **facts)

    def columns(self, *names: str) -> tuple[str, ...]:
        """Return column titles: those of this family, else those of the console."""
        own = texts.family(self.family)
        return tuple(
            self(f"col.{name}") if f"col.{name}" in own else texts.say("console", f"col.{name}", self.language)
            for name in names
        )

    def ago(self, time: datetime, now: datetime) -> str:
        """Return `3 min ago` or `in 2 h`, rounded."""
        size = abs((now - time).total_seconds())
        unit, length = next(((unit, length) for unit, length in _UNITS if size >= length), ("s", 1))
        direction = "ago" if now - time >= timedelta(0) else "in"
        return texts.say("console", f"{direction}.{unit}", self.language, n=round(size / length))
