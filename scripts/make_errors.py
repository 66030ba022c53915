"""Writes docs/errors.md from the errors themselves and their wordings; `--check` exits 1 if the page differs."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from sellerwatch.kernel.errors import SellerwatchError, error_classes
from sellerwatch.kernel.wording import ENGLISH, KOREAN
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


def every_error() -> list[type[SellerwatchError]]:
    """Those that have a sentence, wherever in the package they are."""
    source = ROOT / "src"
    for path in sorted((source / "sellerwatch").rglob("*.py")):
        name = ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        if "migrations" not in name and not name.endswith("__main__"):
            importlib.import_module(name)
    return sorted((each for each in error_classes() if each.code in ENGLISH), key=lambda each: each.code)


def page() -> str:
    rows = [
        f"| `{each.code}` | {status_of(each)} | {_cell(ENGLISH[each.code])} | {_cell(KOREAN[each.code])} |"
        for each in every_error()
    ]
    return HEAD + "\n".join(rows) + "\n"


def _cell(sentence: str) -> str:
    return sentence.replace("\n", " ").replace("|", "\\|")


if __name__ == "__main__":
    if "--check" in sys.argv:
        same = TARGET.exists() and TARGET.read_text("utf-8") == page()
        print("errors.md is up to date" if same else "errors.md differs: run make docs")
        sys.exit(0 if same else 1)
    TARGET.write_text(page(), "utf-8")
