"""Writes docs/errors.md from the errors, the failures and their wordings; `--check` exits 1 if the page differs."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from sellerwatch.kernel.errors import SellerwatchError, error_classes
from sellerwatch.kernel.failure import BLAME, FailureCode
from sellerwatch.texts import family
from sellerwatch.web.api.errors import status_of

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "errors.md"
HEAD = """# Errors

Every refusal of the API has one shape: `{"errorCode", "message", "timestamp", "path"}`, and `details` where there is
more to say. `errorCode` never changes with the language; `message` is English or Korean (`Accept-Language`, else the
setting `LANGUAGE`). The command line says the same sentences: exit code 2 for those with status 400, else 1.

Words in braces are facts of the case. Made by `scripts/make_errors.py`; do not edit.

| errorCode | status | English | 한국어 |
| --- | --- | --- | --- |
"""
FAILURES = """
## Failures of tasks and runs

Why a task or a run failed, or why a run waits to start: `failure.code` of the API and of `--json`. `errorMessage` is
its sentence. `blame` says whose fault it is; a single failure may be charged to somebody else than its code usually is.
`RECORDED` stands for what was written before failures had codes.

| code | blame | English | 한국어 |
| --- | --- | --- | --- |
"""
NOTES = """
## Notes of completed tasks

What a completed task left out, and why: `noteCode`, with the sentence as `note`.

| code | English | 한국어 |
| --- | --- | --- |
"""


def every_error() -> list[type[SellerwatchError]]:
    """Those that have a sentence, wherever in the package they are."""
    source = ROOT / "src"
    for path in sorted((source / "sellerwatch").rglob("*.py")):
        name = ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        if "migrations" not in name and not name.endswith("__main__"):
            importlib.import_module(name)
    return sorted((each for each in error_classes() if each.code in family("errors")), key=lambda each: each.code)


def page() -> str:
    rows = [f"| `{each.code}` | {status_of(each)} | {_cells('errors', each.code)} |" for each in every_error()]
    failures = [f"| `{code}` | {BLAME[code]} | {_cells('failures', code)} |" for code in FailureCode]
    notes = [f"| `{code}` | {_cells('notes', code)} |" for code in family("notes")]
    return "".join([HEAD, *_lines(rows), FAILURES, *_lines(failures), NOTES, *_lines(notes)])


def _lines(rows: list[str]) -> list[str]:
    return [f"{row}\n" for row in rows]


def _cells(name: str, key: str) -> str:
    return " | ".join(map(_cell, family(name)[key]))


def _cell(sentence: str) -> str:
    return sentence.replace("\n", " ").replace("|", "\\|")


if __name__ == "__main__":
    if "--check" in sys.argv:
        same = TARGET.exists() and TARGET.read_text("utf-8") == page()
        print("errors.md is up to date" if same else "errors.md differs: run make docs")
        sys.exit(0 if same else 1)
    TARGET.write_text(page(), "utf-8")
