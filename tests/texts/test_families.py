"""Every family of texts: whole in both languages, with the same facts in each."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest
from tests.builders import NOW

from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.kernel.wording import failure_text
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
COMMAND = re.compile(r"`sellerwatch |\b[Rr]un:? sellerwatch")
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


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("code", list(FailureCode))
def test_a_failure_ends_with_one_full_stop_whatever_its_facts_end_with(code: FailureCode, language: str) -> None:
    cause = Failure.of(FailureCode.UNREACHABLE, NOW, detail="Connection refused.")
    text, _ = family("failures")[code]
    facts = dict.fromkeys(facts_of(text) - {"cause", "where", "problem"}, "Connection refused.")
    for failure in (Failure.of(code, NOW, None, **facts), Failure.because(cause, code, NOW, None, **facts)):
        said = failure_text(failure, language)
        assert not re.search(r"[.]\)?[.]|\.[:,;]", said), said


def test_what_a_caller_of_the_api_reads_names_no_command() -> None:
    found = {
        (name, key)
        for name in ("attention", "failures", "notes", "problems", "unreadable")
        for key, texts in family(name).items()
        if any(COMMAND.search(text) for text in texts)
    }
    assert found == {("problems", "all_names")}, "only `config check` and starting processes say that one"


def test_a_key_that_is_not_there_fails() -> None:
    with pytest.raises(KeyError, match=r"console\.toml"):
        say("console", "no.such.key", "en")


def notices_of(source: str) -> Iterator[tuple[str, bool]]:
    """Return the kind of each `Notice(...)` as a pattern, and whether it is made with a variant."""
    for call in ast.walk(ast.parse(source)):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Notice" and call.args:
            kind = call.args[0]
            values = kind.values if isinstance(kind, ast.JoinedStr) else [kind]
            pattern = "".join(
                re.escape(str(each.value)) if isinstance(each, ast.Constant) else r"\w+" for each in values
            )
            yield pattern, len(call.args) > 3 or any(keyword.arg == "variant" for keyword in call.keywords)


def test_every_alert_has_a_sentence_and_no_sentence_is_left_over() -> None:
    patterns = {found for path in SOURCE.rglob("*.py") for found in notices_of(path.read_text("utf-8"))}
    keys = set(family("alerts"))
    matched = {
        pattern: {key for key in keys if re.fullmatch(pattern + (r"(\.\w+)?" if varied else ""), key)}
        for pattern, varied in patterns
        if pattern != r"\w+"
    }
    assert [pattern for pattern, found in matched.items() if not found] == []
    assert keys - set().union(*matched.values()) == set()
