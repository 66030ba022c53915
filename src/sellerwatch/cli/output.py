"""How commands speak: tables and colours for people, one JSON document on standard output for scripts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from sellerwatch.kernel.errors import SellerwatchError
from sellerwatch.kernel.untrusted_text import escape_controls, without_controls
from sellerwatch.kernel.views import View, view_json
from sellerwatch.kernel.wording import error_text
from sellerwatch.texts import fill, say, template


class PlainConsole(Console):
    """A console on which names from outside move no cursor and set no title; colours are its own."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else without_controls(text), style, control)


class DataOutput:
    """Standard output for whole lines of data. A file or a pipe gets them byte for byte, a terminal with control
    characters escaped."""

    def write(self, data: bytes) -> None:
        shown = escape_controls(data.decode("utf-8", "backslashreplace")).encode() if sys.stdout.isatty() else data
        sys.stdout.buffer.write(shown)
        sys.stdout.buffer.flush()


#: Standard output: what was asked for. Standard error: everything said beside it.
#: Into a pipe or a file nothing is folded at 80 columns: a line there is a record.
out = PlainConsole(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 200)
err = PlainConsole(stderr=True)
data_out = DataOutput()

_UNITS = ((86400, "d"), (3600, "h"), (60, "min"))
_COLOURS = {
    "ACTIVE": "green",
    "COMPLETED": "green",
    "AVAILABLE": "green",
    "COMPLETE": "green",
    "RELEASED": "green",
    "RESOLVED": "green",
    "CONFIRMED": "green",
    "current": "green",
    "RUNNING": "cyan",
    "IN_PROGRESS": "cyan",
    "SENDING": "cyan",
    "WAITING": "yellow",
    "RETRY": "yellow",
    "PENDING": "yellow",
    "SUSPENDED": "yellow",
    "INCOMPLETE": "yellow",
    "OPEN": "yellow",
    "HELD": "yellow",
    "behind": "yellow",
    "FAILED": "red",
    "BLOCKED": "red",
    "DELETED": "red",
    "unknown": "red",
}


def print_error(error: SellerwatchError) -> None:
    """Print the sentence of an error, and what to do next, in the language of the setting LANGUAGE."""
    language = language_setting()
    advice = template("cli_advice", error.code, language)
    sentence = error_text(error.code, error.facts, language)
    print_refusal(sentence if advice is None else f"{sentence} {fill(advice, error.facts)}")


def print_refusal(sentence: str) -> None:
    """Print the sentence of an error on standard error."""
    err.print(
        f"{say('cli', 'error', language_setting())}: {sentence}",
        style="red",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def language_setting() -> str:
    """Return the setting LANGUAGE. Its variable comes before the file, which is read only where there is one: help and
    usage errors do without Pydantic."""
    given, file = os.environ.get("SELLERWATCH_LANGUAGE"), os.environ.get("SELLERWATCH_CONFIG")
    return given or (_language_in_file(file, Path.cwd()) if file else "en")


@cache
def _language_in_file(_file: str, _folder: Path) -> str:
    """Return LANGUAGE of the settings file, read once: a table asks for the language in each row."""
    from sellerwatch.settings.faults import InvalidSettings  # noqa: PLC0415 - see above
    from sellerwatch.settings.load import load  # noqa: PLC0415 - see above

    try:
        return load(os.environ).settings.language
    except InvalidSettings:
        return "en"


def print_view(view: View, **more: Any) -> None:
    """Print a view as JSON, the same as the API answers, and what only the command line adds to it."""
    print_json(view_json(view) | more)


def print_json(value: Any) -> None:
    """UTF-8 as it is: Korean text stays readable."""
    data_out.write(orjson.dumps(value, default=str, option=orjson.OPT_INDENT_2) + b"\n")


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, empty: str) -> None:
    """A table, or, where there is nothing, the sentence that says what to do next."""
    listed = [[_cell(value) for value in row] for row in rows]
    if not listed:
        out.print(Text(empty, style="dim"))
        return
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in listed:
        table.add_row(*row)
    out.print(table)


def print_facts(facts: Iterable[tuple[str, Any]]) -> None:
    """One thing, a line per fact."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(name, _cell(value))
    out.print(table)


def progress_bars() -> Progress:
    """Return bars on standard error, hidden where that is no terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    return Progress(*columns, TimeElapsedColumn(), console=err, disable=not err.is_terminal)


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on a terminal while the block runs; call what it yields with how much is done, and of how much."""
    with progress_bars() as bars:
        bar = bars.add_task(what, total=None)
        yield lambda done, total: bars.update(bar, completed=done, total=total)


def lasting(time: timedelta) -> str:
    """Return `3 min` or `2 h`, in the language of the setting LANGUAGE."""
    seconds = time.total_seconds()
    size, unit = next((each for each in _UNITS if seconds >= each[0]), (1, "s"))
    return say("cli", unit, language_setting(), n=f"{seconds / size:.0f}")


def _cell(value: Any) -> Text:
    """Never markup: a product's name may hold brackets."""
    if isinstance(value, Text):
        return value
    if value is None:
        return Text("-", style="dim")
    text = f"{value:%Y-%m-%d %H:%M:%S}" if isinstance(value, datetime) else str(value)
    return Text(text, style=_COLOURS.get(text, ""))
