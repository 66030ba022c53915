"""Writes docs/settings.md from the settings' own descriptions; `--check` exits 1 if the page differs."""

from __future__ import annotations

import sys
from pathlib import Path

from sellerwatch.settings.model import PREFIX, SECRETS, Settings

TARGET = Path(__file__).resolve().parent.parent / "docs" / "settings.md"
HEAD = """# Settings

Environment variables, or a TOML file named by `SELLERWATCH_CONFIG` with the names in lower case and without the prefix.
Precedence: run-time override, environment, file, default. A secret can be given as a file: `NAME_FILE`. An empty
variable is not set. Unknown names are errors. `sellerwatch config check` says everything that is wrong at once.

Made by `scripts/make_settings.py`; do not edit.

| name | default | meaning |
| --- | --- | --- |
"""


def page() -> str:
    rows = []
    for name, field in Settings.model_fields.items():
        default = "none" if field.default is None else f"`{field.default}`"
        secret = " (secret)" if name in SECRETS else ""
        rows.append(f"| {PREFIX}{name.upper()} | {default} | {field.description}{secret} |")
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        same = TARGET.exists() and TARGET.read_text("utf-8") == page()
        print("settings.md is up to date" if same else "settings.md differs: run make docs")
        sys.exit(0 if same else 1)
    TARGET.write_text(page(), "utf-8")
