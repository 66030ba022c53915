"""Text from outside: nothing of it is obeyed by a terminal, and JSON reads back what was escaped."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from sellerwatch.kernel.untrusted_text import escape_controls, without_controls

#: Control characters but tab and line ends, and those that turn the direction of a line around.
OBEYED = {chr(code) for code in (*range(32), *range(127, 160))} - {"\t", "\n", "\r"}
OBEYED |= set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from(sorted(OBEYED)))


@given(TEXTS)
def test_a_terminal_obeys_nothing_and_everything_else_is_shown(text: str) -> None:
    shown = without_controls(text)
    assert not set(shown) & OBEYED
    gone = OBEYED | {"\r", "\u2028", "\u2029"}
    assert [c for c in shown if c != "\r"] == [c for c in text if c not in gone]


@given(TEXTS)
def test_escaped_json_says_the_same(text: str) -> None:
    shown = escape_controls(json.dumps(text, ensure_ascii=False))
    assert not set(shown) & OBEYED
    assert json.loads(shown) == text


def test_line_ends_stay_and_a_lone_carriage_return_does_not() -> None:
    assert without_controls("a\r\nb\rc\td\n") == "a\r\nbc\td\n"
