"""What the console says: the family `console`, and the settings with their descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sellerwatch.settings.model import Settings
from sellerwatch.texts import LANGUAGES, family, fill

_COLUMN = {language: column for column, language in enumerate(LANGUAGES)}
_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def _loaded() -> dict[str, tuple[str, str]]:
    found = dict(family("console"))
    korean = family("settings")
    for name, about in Settings.model_fields.items():
        english = about.description or name
        found[f"setting.{name}"] = korean.get(name, (english, english))
    return found


TEXTS: Mapping[str, tuple[str, str]] = _loaded()


def say(key: str, language: str, facts: Mapping[str, object]) -> str:
    """Return a text with its facts put in. A key that is not there is a defect: it fails, and a test walks them all."""
    return fill(TEXTS[key][_COLUMN.get(language, 0)], facts)


def ago(time: datetime, now: datetime, language: str) -> str:
    """How long ago, or in how long; the page's script goes on from here by the same texts."""
    seconds = (now - time).total_seconds()
    size = abs(seconds)
    if size < 1:
        return say("now", language, {})
    unit, length = next((unit, length) for unit, length in _UNITS if size >= length)
    return say(f"{'in' if seconds < 0 else 'ago'}.{unit}", language, {"n": int(size // length)})
