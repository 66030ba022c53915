"""What the console says, in every language: one catalogue (`texts.toml`), both languages of a text beside each other.

Refusals have their own (`kernel/wording.py`), which the API and the commands share.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from datetime import datetime
from importlib.resources import files
from typing import Any

from sellerwatch.settings.model import Settings

#: As each calls itself; the order is that of the catalogue's columns.
LANGUAGES = {"en": "English", "ko": "한국어"}
_COLUMN = {language: column for column, language in enumerate(LANGUAGES)}
_MANY = re.compile(r"\{(\w+):([^|{}]*)\|([^{}]*)\}")
_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def _loaded() -> dict[str, tuple[str, str]]:
    table: dict[str, Any] = tomllib.loads(files(__package__ or "").joinpath("texts.toml").read_text("utf-8"))
    korean = table.pop("settings")
    found: dict[str, tuple[str, str]] = {key: (both[0], both[1]) for key, both in table.items()}
    for name, about in Settings.model_fields.items():
        found[f"setting.{name}"] = about.description or name, korean.get(name, about.description or name)
    return found


TEXTS: Mapping[str, tuple[str, str]] = _loaded()


def say(key: str, language: str, facts: Mapping[str, object]) -> str:
    """A text with its facts put in. A key nobody knows is a defect: it fails loudly, and a test walks them all."""
    template = TEXTS[key][_COLUMN.get(language, 0)]
    if not facts:
        return template
    shown = {name: f"{value:,}" if type(value) is int else value for name, value in facts.items()}

    def counted(found: re.Match[str]) -> str:
        number = facts.get(found[1])
        return f"{shown.get(found[1])} {found[2] if number == 1 else found[3]}"

    return _MANY.sub(counted, template).format_map(shown)


def ago(time: datetime, now: datetime, language: str) -> str:
    """How long ago, or in how long; the page's script goes on from here by the same texts."""
    seconds = (now - time).total_seconds()
    size = abs(seconds)
    if size < 1:
        return say("now", language, {})
    unit, length = next((unit, length) for unit, length in _UNITS if size >= length)
    return say(f"{'in' if seconds < 0 else 'ago'}.{unit}", language, {"n": int(size // length)})
