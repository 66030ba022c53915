"""What commands print for people is in the catalogue, in English and Korean: no sentence stands in their code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src/sellerwatch"
SPEAKING = {
    "BadParameter",
    "add_row",
    "confirm",
    "echo",
    "print",
    "print_facts",
    "print_refusal",
    "print_table",
    "progress",
    "prompt",
    "say",
}
WORDS = re.compile(r"[A-Za-z]{2,}[,.:]? [A-Za-z]{2,}")


def spoken(source: str) -> Iterator[tuple[int, str]]:
    """Words that a call to a speaking function holds; a command to be typed is the same in every language."""
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call):
            continue
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name not in SPEAKING:
            continue
        for part in ast.walk(call):
            if not isinstance(part, ast.Constant) or not isinstance(part.value, str):
                continue
            if WORDS.search(part.value) and not part.value.startswith("sellerwatch "):
                yield part.lineno, part.value


def test_no_sentence_stands_in_the_code_of_a_command() -> None:
    found = [
        (path.name, line, text)
        for path in sorted((PACKAGE / "cli").glob("*.py"))
        for line, text in spoken(path.read_text("utf-8"))
    ]
    assert found == []


def test_a_sentence_in_the_code_is_found() -> None:
    planted = (
        'say(f"{n} runs are paused")\nprint_table("Agents", ("long name",), rows, empty="")\nsay(text("x"), "dim")\n'
    )
    assert [text for _, text in spoken(planted)] == [" runs are paused", "long name"]
