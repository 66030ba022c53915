"""The help and the usage errors of commands, in the language of the setting LANGUAGE.

The help of commands and options is in `texts/cli_help.toml`, what Typer itself says in `texts/cli_usage.toml`. Both are
read only when something is shown: a command that runs pays nothing for them. A docstring of a command holds examples.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from sellerwatch.cli.output import err, language_setting, print_refusal
from sellerwatch.texts import LANGUAGES, family, fill, say, template

F = TypeVar("F", bound=Callable[..., Any])

HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}
#: Constants of typer.rich_utils with words in them, by their keys in cli_usage.toml.
_WORDED = {
    "ARGUMENTS_PANEL_TITLE": "title.arguments",
    "OPTIONS_PANEL_TITLE": "title.options",
    "COMMANDS_PANEL_TITLE": "title.commands",
    "DEFAULT_STRING": "default",
    "REQUIRED_LONG_STRING": "required",
}


def help_text(words: Sequence[str], name: str = "") -> str | None:
    """Return the help of a command, or of one of its options or arguments: its own, that of its group, or that of all
    commands."""
    if not name:
        return template("cli_help", " ".join(words) or "sellerwatch", language_setting())
    keys = (" ".join((*words[:count], name)) for count in range(len(words), -1, -1))
    return next((text for key in keys if (text := template("cli_help", key, language_setting())) is not None), None)


def summary(words: Sequence[str]) -> str:
    """Return the first sentence of a command's help, for a list of commands."""
    sentence = re.match(r"(.*?\.)(\s|$)", help_text(words) or "", re.DOTALL)
    return sentence[1] if sentence else ""


def label(parameter: Any) -> str:
    """Return how an option is typed, `--json`, or how the help names an argument, `SELLER_ID`."""
    if parameter.param_type_name == "option":
        return str(max(parameter.opts, key=len))
    return str(parameter.metavar or parameter.name.upper()).strip("[].")


def in_our_words(message: str, language: str) -> str:
    """Return a message of Typer or Pydantic in a language; one that has no text stays as it is."""
    if language == next(iter(LANGUAGES)):
        return message
    fitting: list[tuple[int, str, dict[str, str]]] = []
    for english, korean in (*family("cli_usage").values(), *family("problems").values()):
        words = re.sub(r"\{\w+[^}]*\}", "", english)
        pattern = re.sub(r"\\\{(\w+)[^}]*\\\}", r"(?P<\1>.+)", re.escape(english))
        found = re.fullmatch(pattern, message, re.DOTALL) if words else None
        if found:
            fitting.append((len(words), korean, found.groupdict()))
    if not fitting:
        return message
    _, text, facts = max(fitting, key=lambda each: each[0])
    if "problem" in facts:
        facts["problem"] = in_our_words(facts["problem"], language)
    return fill(text, facts)


def take_texts(command: Any, ctx: Any) -> None:
    """Give a command, its options and what it lists their texts."""
    words: list[str] = []
    above = ctx
    while above.parent is not None:
        words.insert(0, str(above.info_name))
        above = above.parent
    heading, _, examples = inspect.cleandoc(getattr(command.callback, "__doc__", None) or "").partition("\n\n")
    shown = f"\n\n\b\n{examples}" if heading == "Examples:" else ""
    command.help = f"{help_text(words) or ''}{shown}"
    for parameter in command.get_params(ctx):
        parameter.help = help_text(words, label(parameter))
    for name, listed in getattr(command, "commands", {}).items():
        listed.short_help = summary((*words, name))


class CatalogueTexts:
    """What our commands and groups share: they take their texts from the catalogue when these are shown."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        from typer import rich_utils  # noqa: PLC0415 - only help needs it

        for constant, key in _WORDED.items():
            setattr(rich_utils, constant, say("cli_usage", key, language_setting()))
        take_texts(self, ctx)
        super().format_help(ctx, formatter)  # type: ignore[misc]

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Return completions, each with its help."""
        take_texts(self, ctx)
        return super().shell_complete(ctx, incomplete)  # type: ignore[misc]

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """Write the line that says how the command is typed."""
        language = language_setting()
        pieces = " ".join(in_our_words(piece, language) for piece in ctx.command.collect_usage_pieces(ctx))
        formatter.write_usage(ctx.command_path, pieces, say("cli_usage", "usage", language))


class CatalogueCommand(CatalogueTexts, TyperCommand):
    """A command whose help is in the catalogue."""


class CatalogueGroup(CatalogueTexts, TyperGroup):
    """A group of commands whose help is in the catalogue."""


class CommandApp(typer.Typer):
    """Commands whose help is in the catalogue."""

    def __init__(self, cls: type[TyperGroup] = CatalogueGroup, *, add_completion: bool = False) -> None:
        super().__init__(
            cls=cls,
            no_args_is_help=True,
            rich_markup_mode="rich",
            pretty_exceptions_enable=False,
            add_completion=add_completion,
            context_settings=HELP_OPTIONS,
        )

    def command(self, name: str | None = None, **options: Any) -> Callable[[F], F]:
        """Make a command of a function."""
        return super().command(name, cls=CatalogueCommand, context_settings=HELP_OPTIONS, **options)


def print_usage_error(error: typer.TyperException) -> None:
    """Print how the command is typed and what was wrong, on standard error."""
    language, ctx, message = language_setting(), getattr(error, "ctx", None), error.format_message()
    if not message:
        return  # A group without a command printed its help.
    if ctx is not None:
        path, option = ctx.command_path, ctx.help_option_names[0]
        hint = say("cli_usage", "try_help", language, command=path, option=option)
        err.print(f"{ctx.get_usage()}\n{hint}", markup=False, highlight=False, soft_wrap=True)
    print_refusal(in_our_words(message, language))
