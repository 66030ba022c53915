"""Every family of texts: whole in both languages, with the same facts in each."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter

import pytest

from sellerwatch.settings.model import Settings
from sellerwatch.texts import families, family, fill, say

SOURCE = Path(__file__).parents[2] / "src/sellerwatch"
HANGUL = re.compile(r"[가-힣]")
#: Texts that are the same in both languages.
SAME = {
    "console": {"brand", "csv", "col.http"},
    "failures": {"RECORDED"},
    "problems": {"refused"},
}
#: Texts whose English is Typer's own.
TYPERS = {"extra_arguments"}
CALL = re.compile(r"""say\(\s*"(\w+)",\s*"([\w.]+)\"""")


def facts_of(text: str) -> set[str]:
    return {name.partition(":")[0] for _, name, _, _ in Formatter().parse(text) if name}


@pytest.mark.parametrize("name", families())
def test_every_text_is_there_in_both_languages_with_the_same_facts(name: str) -> None:
    for key, (english, korean) in family(name).items():
        assert english.strip(), key
        assert HANGUL.search(korean) or key in SAME.get(name, ()), key
        # `error` is Pydantic's own explanation, which it has in English only.
        assert facts_of(english) - {"error"} == facts_of(korean) - {"error"}, key


@pytest.mark.parametrize("name", families())
def test_no_english_text_writes_a_plural_in_brackets(name: str) -> None:
    found = {key for key, (english, _) in family(name).items() if "(s)" in english}
    assert found - TYPERS == set()


def test_every_text_that_the_code_asks_for_is_there() -> None:
    asked = {found for path in SOURCE.rglob("*.py") for found in CALL.findall(path.read_text("utf-8"))}
    assert [(name, key) for name, key in sorted(asked) if name in families() and key not in family(name)] == []


def test_settings_are_described_in_the_words_of_the_model() -> None:
    described = {name: field.description for name, field in Settings.model_fields.items() if field.description}
    texts = {name: english for name, (english, _) in family("settings").items()}
    assert texts == {name: described[name] for name in texts}


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 runs are paused"), (1, "1 run is paused"), (1234, "1,234 runs are paused")]
)
def test_a_number_brings_the_right_form_of_its_noun(number: int, text: str) -> None:
    assert fill("{n:run is|runs are} paused", {"n": number}) == text


def test_a_key_that_is_not_there_fails() -> None:
    with pytest.raises(KeyError, match=r"console\.toml"):
        say("console", "no.such.key", "en")
