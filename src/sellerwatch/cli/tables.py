"""Tables of views: each column is declared by its name and by what it shows of one view."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from sellerwatch.cli.output import print_table, print_view
from sellerwatch.cli.session import say
from sellerwatch.cli.texts import Texts
from sellerwatch.kernel.views import CursorPageView

T = TypeVar("T")
#: Values by the names of their columns: the title of `seller` is the text `col.seller`.
Columns = Mapping[str, Callable[[T, Texts], Any]]


def print_views(title: str, views: Iterable[T], columns: Columns[T], text: Texts, *, empty: str) -> None:
    """Print a table with a row for each view."""
    rows = ([value(view, text) for value in columns.values()] for view in views)
    print_table(title, text.columns(*columns), rows, empty=empty)


def print_page(
    page: CursorPageView[T], columns: Columns[T], text: Texts, name: str, empty: str, *, limit: int, as_json: bool
) -> None:
    """Print a page of `sellerwatch {name} list`: as JSON, or as a table with the cursor of the page that follows."""
    if as_json:
        print_view(page, limit=limit)
        return
    print_views(text(f"{name}.title"), page.content, columns, text, empty=empty)
    if page.next is not None:
        say(text("more", cursor=page.next, command=continued(page.next)), "dim")


def continued(cursor: str) -> str:
    """Return the command that was typed, from this cursor on: so a list goes on as it was narrowed."""
    typed, words = iter(sys.argv[1:]), ["sellerwatch"]
    for word in typed:
        if word == "--cursor":
            next(typed, None)
        elif not word.startswith("--cursor="):
            words.append(word)
    return shlex.join([*words, "--cursor", cursor])
