"""Everything the program says to people, in every language: one catalogue, a file for each family of texts.

`say("console", "nav.overview", language)` takes the text of that key from `console.toml`, where each key has its
English and its Korean side by side. `{name}` is a fact. `{n:row|rows}` is a number with its noun: `1 row`,
`1,234 rows`; Korean needs no plural and writes `{n}`. Babel would bring compiled files, a tool to extract texts and
gettext's plural rules for languages we do not have; a test that walks every key finds the same mistakes.
"""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

#: As each calls itself, in the order in which texts stand in the files.
LANGUAGES = {"en": "English", "ko": "한국어"}
_COLUMN = {language: column for column, language in enumerate(LANGUAGES)}
_PLURAL = re.compile(r"\{(\w+):([^|{}]*)\|([^{}]*)\}")


@cache
def family(name: str) -> Mapping[str, tuple[str, str]]:
    """Return all texts of a family: English and Korean by key. Read when first needed, so that no command waits for
    texts it does not show."""
    table = tomllib.loads(files(__name__).joinpath(f"{name}.toml").read_text("utf-8"))
    return {key: (both[0], both[1]) for key, both in table.items()}


def families() -> list[str]:
    """Return the names of all families."""
    return sorted(each.name.removesuffix(".toml") for each in files(__name__).iterdir() if each.name.endswith(".toml"))


def template(name: str, key: str, language: str) -> str | None:
    """Return a text as it is written, in English for a language we do not speak; None where there is no such key."""
    both = family(name).get(key)
    return None if both is None else both[_COLUMN.get(language, 0)]


def say(name: str, key: str, language: str, /, **facts: object) -> str:
    """Return a text with its facts put in. A key that is not there is a defect: it fails, and a test finds it."""
    found = template(name, key, language)
    if found is None:
        raise KeyError(f"there is no text {key!r} in {name}.toml")
    return fill(found, facts)


def fill(text: str, facts: Mapping[str, object], *, separators: bool = True, missing: str | None = None) -> str:
    """Put facts into a text: plurals by their number, whole numbers with thousands separators unless they are names.

    `missing` stands for a fact that is not given; without it that is an error.
    """
    if not facts and missing is None:
        return text
    shown = {name: f"{value:,}" if separators and type(value) is int else value for name, value in facts.items()}

    def counted(found: re.Match[str]) -> str:
        return f"{shown.get(found[1], missing)} {found[2] if str(facts.get(found[1])) == '1' else found[3]}"

    counted_text = _PLURAL.sub(counted, text)
    return counted_text.format_map(shown if missing is None else defaultdict(lambda: missing, shown))
