"""`docs/commands.md` and the program say the same: every command is on the page, and every example is one."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.core import TyperCommand, TyperGroup

from sellerwatch.cli.main import app

PAGE = (Path(__file__).parents[2] / "docs/commands.md").read_text("utf-8")
EXAMPLES = [shlex.split(line) for line in re.findall(r"\| `(sellerwatch [^`]+)` \|", PAGE)]


def commands(group: TyperGroup, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], TyperCommand]:
    """Every command that does something, by its words."""
    found: dict[tuple[str, ...], TyperCommand] = {}
    context = typer.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, TyperGroup):
            found |= commands(command, (*path, name))
        elif isinstance(command, TyperCommand):
            found[(*path, name)] = command
    return found


def all_commands() -> dict[tuple[str, ...], TyperCommand]:
    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)
    return commands(root)


COMMANDS = all_commands()


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_is_on_the_page_with_an_example(words: tuple[str, ...]) -> None:
    assert f"| `{' '.join(words)}` |" in PAGE
    assert [example for example in EXAMPLES if tuple(example[1 : len(words) + 1]) == words] != []


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_help_of_a_command_holds_an_example_of_it(words: tuple[str, ...]) -> None:
    assert f"sellerwatch {' '.join(words)}" in (COMMANDS[words].callback.__doc__ or "")


@pytest.mark.parametrize("example", EXAMPLES, ids=" ".join)
def test_an_example_on_the_page_is_understood_by_the_program(example: list[str]) -> None:
    words = next(words for words in COMMANDS if tuple(example[1 : len(words) + 1]) == words)
    with COMMANDS[words].make_context("sellerwatch", example[len(words) + 1 :]) as context:
        assert context.command is COMMANDS[words]


OPERATORS = (
    *("sellers", "schedules", "executions", "tasks", "outbox", "audit", "agents", "limits", "marketplace"),
    *("products", "quarantine", "removals"),
)


@pytest.mark.parametrize("words", [words for words in COMMANDS if words[0] in OPERATORS], ids=" ".join)
def test_every_command_of_an_operator_answers_in_json_too(words: tuple[str, ...]) -> None:
    assert "--json" in [option for parameter in COMMANDS[words].params for option in parameter.opts]
