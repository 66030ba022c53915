"""Who may import whom: the contracts of `.importlinter` are kept, and each is seen to catch what it is for."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RINGS = "Rings: each imports only what lies below it"
ADAPTERS = "Adapters do not know one another"
COMPOSITION = "Only the composition root names an adapter"
PURE = "Features and kernel import no framework, driver or HTTP library"

# What is written into which file, and the contracts that must say no. A feature that imports an adapter breaks three at
# once: it reaches upward, it names an adapter, and the adapter brings its driver with it.
PLANTS: Mapping[str, tuple[Mapping[str, str], set[str]]] = {
    "the kernel imports a feature": ({"kernel/clock.py": "import sellerwatch.sellers.seller"}, {RINGS}),
    "a feature imports one above it": ({"sellers/seller.py": "import sellerwatch.crawling.task"}, {RINGS}),
    "two features import one another": (
        {
            "agents/agent.py": "import sellerwatch.outbox.message",
            "outbox/message.py": "import sellerwatch.agents.agent",
        },
        {RINGS},
    ),
    "an import is hidden in a function": (
        {"sellers/seller.py": "def hidden() -> None:\n    import sellerwatch.crawling.task"},
        {RINGS},
    ),
    "an import is only for types": (
        {"sellers/seller.py": "if TYPE_CHECKING:\n    import sellerwatch.crawling.task"},
        {RINGS},
    ),
    "the simulator imports the program": ({"simulator/world.py": "import sellerwatch.compose"}, {RINGS}),
    "a stray module belongs to no ring": ({"utils.py": ""}, {RINGS}),
    "a feature imports a driver": ({"catalog/product.py": "import sqlalchemy"}, {PURE}),
    "the kernel imports the standard library's driver": ({"kernel/ids.py": "import sqlite3"}, {PURE}),
    "a feature imports an adapter": (
        {"crawling/task.py": "import sellerwatch.adapters.sql.store"},
        {RINGS, COMPOSITION, PURE, ADAPTERS},
    ),
    "an adapter imports another": ({"adapters/http/__init__.py": "import sellerwatch.adapters.sql.engine"}, {ADAPTERS}),
    "a command names an adapter": ({"cli/db.py": "import sellerwatch.adapters.sql.engine"}, {COMPOSITION}),
}


def broken(folder: Path) -> set[str]:
    """Names of the contracts that are not kept by the package below `folder/src`."""
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache", "--config", folder / ".importlinter"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(folder / "src"), "NO_COLOR": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    verdicts = dict(re.findall(r"^(.+?) (KEPT|BROKEN)\b", done.stdout, re.MULTILINE))
    assert set(verdicts) == {RINGS, ADAPTERS, COMPOSITION, PURE}, done.stdout + done.stderr
    found = {name for name, verdict in verdicts.items() if verdict == "BROKEN"}
    assert done.returncode == (1 if found else 0)
    return found


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src/sellerwatch", tmp_path / "src/sellerwatch", ignore=ignored)
    shutil.copy(ROOT / ".importlinter", tmp_path)
    return tmp_path


def test_every_contract_is_kept() -> None:
    assert broken(ROOT) == set()


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_violation_is_caught(copy: Path, plant: str) -> None:
    files, expected = PLANTS[plant]
    for name, line in files.items():
        with (copy / "src/sellerwatch" / name).open("a") as file:
            file.write(f"\n{line}\n")
    assert broken(copy) == expected


def test_every_adapter_is_named_in_the_contract_of_their_independence() -> None:
    config = (ROOT / ".importlinter").read_text()
    adapters = [p.name for p in (ROOT / "src/sellerwatch/adapters").iterdir() if (p / "__init__.py").exists()]
    assert [name for name in adapters if f"sellerwatch.adapters.{name}\n" not in config] == []
