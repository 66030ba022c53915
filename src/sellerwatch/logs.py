"""Structured logs: one event a line, as JSON for machines or aligned and coloured for people.

The program logs through the standard library (`logging.getLogger(__name__)`, facts in `extra`); only this module
decides what a line looks like. Values under the name of a secret are hidden.
"""

from __future__ import annotations

import io
import logging
import re
import sys
from collections.abc import Mapping
from typing import Any, Literal, TextIO

import structlog
from structlog.typing import EventDict, ExcInfo, Processor

from sellerwatch.kernel.untrusted_text import escape_controls, without_controls

_SECRET = re.compile(r"token|secret|password|authorization|cookie|api_?key", re.IGNORECASE)
_QUIET = ("aiohttp", "alembic", "asyncio")


def configure(level: str = "info", form: Literal["console", "json"] | None = None) -> None:
    """Set up logging on standard error; standard output is for what a command prints. May be called again."""
    if form is None:
        form = "console" if sys.stderr.isatty() else "json"
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        _hide_secrets,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    shared.append(structlog.processors.format_exc_info if form == "json" else _without_controls)
    renderers: list[Processor] = (
        [structlog.processors.JSONRenderer(ensure_ascii=False, default=str), _escaped]
        if form == "json"
        else [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=_traceback)]
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
            foreign_pre_chain=shared,
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def _hide_secrets(_: object, __: str, event: EventDict) -> EventDict:
    for name in event:
        event[name] = _safe(name, event[name])
    return event


def _without_controls(_: object, __: str, event: EventDict) -> EventDict:
    """Before colours are added: names and answers from outside must not move the cursor."""
    return {name: without_controls(value) if isinstance(value, str) else value for name, value in event.items()}


def _traceback(out: TextIO, error: ExcInfo) -> None:
    """Print a traceback without local variables, which the default one shows: passwords among them."""
    text = io.StringIO()
    structlog.dev.plain_traceback(text, error)
    out.write(without_controls(text.getvalue()))


def _escaped(_: object, __: str, line: Any) -> str:
    """JSON escapes the control characters of ASCII alone."""
    return escape_controls(line)


def _safe(name: str, value: Any) -> Any:
    """Return a value without secrets. Mappings are searched too: a request's headers are logged as one fact."""
    if _SECRET.search(name) and value is not None:
        return "hidden"
    if isinstance(value, Mapping):
        return {key: _safe(str(key), inner) for key, inner in value.items()}
    return value
