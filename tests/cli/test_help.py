"""The help and the errors of usage are in the language of LANGUAGE, whole: of every command, option and mistake."""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import StringIO

import pytest
import typer
from rich.console import Console
from typer import rich_utils
from typer.core import TyperGroup

from sellerwatch.cli.help import help_text, in_our_words, label, summary
from sellerwatch.cli.main import app, program
from sellerwatch.texts import family

HANGUL = re.compile(r"[가-힣]")
#: A run of English words. What is typed is the same in both languages: options, commands and names of settings.
ENGLISH = re.compile(r"\b[A-Za-z]+(?: [a-z]+){2,}")


def commands(command: object = None, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], typer.Context]]:
    """Every command and group with its context, the program itself first."""
    command = typer.main.get_command(app) if command is None else command
    context = typer.Context(command, info_name="sellerwatch")  # type: ignore[arg-type]
    for at in range(len(words)):
        context = typer.Context(command, info_name=words[at], parent=context)  # type: ignore[arg-type]
    yield words, context
    if isinstance(command, TyperGroup):
        for name in command.list_commands(context):
            yield from commands(command.get_command(context, name), (*words, name))


COMMANDS = dict(commands())


def shown(words: tuple[str, ...], language: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The help as it is printed."""
    written = StringIO()
    monkeypatch.setenv("SELLERWATCH_LANGUAGE", language)
    monkeypatch.setattr(rich_utils, "_get_rich_console", lambda stderr=False: Console(file=written, width=400))
    context = COMMANDS[words]
    context.command.format_help(context, context.make_formatter())
    return written.getvalue()


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_line_of_the_help_is_english_in_korean(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    printed = shown(words, "ko", monkeypatch)
    lines = [line for line in printed.splitlines() if not re.search(r"sellerwatch (?!\S+ \[)|Authorization", line)]
    assert [line for line in lines if ENGLISH.search(line)] == []
    for parameter in COMMANDS[words].command.get_params(COMMANDS[words]):
        text = help_text(words, label(parameter))
        assert text, label(parameter)
        assert text in printed
        assert HANGUL.search(text), text
    assert re.search("명령 ─|옵션 ─", printed)
    assert "사용법: sellerwatch" in printed
    monkeypatch.setenv("SELLERWATCH_LANGUAGE", "en")
    assert "Options" in shown(words, "en", monkeypatch)


def test_no_help_text_is_left_that_no_command_has() -> None:
    asked = {"sellerwatch"}
    for words, context in COMMANDS.items():
        asked.add(" ".join(words))
        for parameter in context.command.get_params(context):
            names = (" ".join((*words[:count], label(parameter))) for count in range(len(words), -1, -1))
            asked.add(next(name for name in names if name in family("cli_help")))
    assert sorted(family("cli_help").keys() - asked) == []


def test_the_list_of_commands_has_the_first_sentence_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELLERWATCH_LANGUAGE", "en")
    assert summary(("crawl",)) == "Run one crawl of each seller in the foreground."
    assert summary(("outbox", "list")) == "List messages, newest first."


MISTAKES = {
    "sellers add --nix": "없는 옵션입니다: --nix",
    "sellers add --nam x": "없는 옵션입니다: --nam. 비슷한 옵션: --name",
    "nonsense": "없는 명령입니다: 'nonsense'.",
    "sellers lisst": "없는 명령입니다: 'lisst'. 비슷한 명령: 'list'.",
    "sellers list one two": "필요 없는 인수가 있습니다: one two",
    "sellers add": "필수 인수가 없습니다: 'SELLER_ID'.",
    "sellers add x": "필수 옵션이 없습니다: '--name'.",
    "products export": "필수 옵션이 없습니다: '--format'. 다음 중에서 고르십시오.\n\tcsv,\n\tjsonl,\n\tparquet",
    "sellers list --page x": "잘못된 값입니다('--page'): 정수여야 합니다",
    "sellers list --page -1": "잘못된 값입니다('--page'): 다음 값 이상이어야 합니다: 0",
    "simulator --latency-ms x": "잘못된 값입니다('--latency-ms'): 숫자여야 합니다",
    "sellers list --status NIX": "잘못된 값입니다('--status'): 없는 값입니다: 'NIX'. "
    "쓸 수 있는 값: 'active', 'inactive', 'archived'.",
    "sellers list --status": "값이 필요한 옵션입니다: '--status'.",
    "sellers list --json=x": "값을 받지 않는 옵션입니다: '--json'.",
    "tasks retry": "잘못된 값입니다: 작업 ID 또는 조건(--all-failed, --execution, --seller, --type)을 지정하십시오",
}


@pytest.mark.parametrize("typed", MISTAKES)
def test_a_mistake_is_said_in_korean(typed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELLERWATCH_LANGUAGE", "ko")
    with pytest.raises(typer.TyperException) as raised:
        program().main(typed.split(), "sellerwatch", standalone_mode=False)
    assert raised.value.exit_code == 2
    assert in_our_words(raised.value.format_message(), "ko") == MISTAKES[typed]
    assert in_our_words(raised.value.format_message(), "en") == raised.value.format_message()
