"""Text that somebody else wrote, where a program would obey it: spreadsheets run formulas, terminals run escapes."""

from __future__ import annotations

import re

#: A spreadsheet runs a text with one of these beginnings as a formula; some take full-width signs for the plain ones.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")

# C0 and C1 but tab and line ends, and what turns the direction of a line around. A carriage return alone would write
# over the line.
_OBEYED = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|\r(?!\n)")


def without_formula(text: str) -> str:
    """Return a text for a cell of CSV: an apostrophe in front of what would be a formula."""
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


def without_controls(text: str) -> str:
    """Return a text that a terminal shows and does not obey."""
    return _OBEYED.sub("", text)


def escape_controls(text: str) -> str:
    """Return a text in which control characters are written as `\\u001b`, which JSON reads back."""
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
