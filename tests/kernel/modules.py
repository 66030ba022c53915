"""Every module of the package, imported, so that no error or lifecycle hides in one that no test happened to use."""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path
from types import ModuleType

import sellerwatch.kernel.errors

ROOT = Path(sellerwatch.kernel.errors.__file__).parents[1]


def _is_run_not_imported(path: Path) -> bool:
    """Migrations are loaded by Alembic, `__main__` runs the program."""
    return "migrations" in path.parts or path.name == "__main__.py"


@cache
def every_module(folder: str = "") -> tuple[ModuleType, ...]:
    """Those in `folder`, or all; by file, so that a folder whose `__init__.py` was forgotten is not passed over."""
    found = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        inside = path.relative_to(ROOT.parent).with_suffix("")
        if _is_run_not_imported(inside.with_suffix(".py")):
            continue
        name = ".".join(inside.parts).removesuffix(".__init__")
        try:
            found.append(importlib.import_module(name))
        except ModuleNotFoundError as missing:
            if missing.name is None or missing.name.partition(".")[0] == "sellerwatch":
                raise
    return tuple(found)
