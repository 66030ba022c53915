"""Writes docs/lifecycles.md from the lifecycle tables of the program.

python scripts/make_lifecycles.py            writes the page
python scripts/make_lifecycles.py --check    exits 1 if the page differs from the tables
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from pathlib import Path
from typing import Any

from sellerwatch.kernel.lifecycle import Lifecycle

PAGE = Path(__file__).parents[1] / "docs" / "lifecycles.md"

#: Only features have nouns with a life; adapters and edges would cost their imports.
FEATURES = ("sellers", "schedules", "crawling", "catalog", "outbox", "agents", "access", "oversight", "kernel")

SENTENCES = {
    "seller": "A seller of the marketplace; only an ACTIVE one is crawled, and its schedule goes with it.",
    "schedule": "When a seller is crawled; FAILED: the scheduler's rule could not be changed; it ends when it was.",
    "execution": "One run of one seller; it completes when every task has ended, failures or not.",
    "task": "One request to be made for a run; FAILED is final once its retries are spent.",
    "product": "A product of a seller; its state is derived from the parts that were seen and from its removal.",
    "quarantine case": "Parts of a seller's products that look wrong and wait for a person.",
    "removal": "Many products of a seller that are gone at once, and wait for a person.",
    "resend": "Delivered events, sent again beside new ones; answers to what was under way count after a cancel.",
    "resync": "The present state of products, sent again step by step.",
    "message": "An event to deliver. FAILED without tries left stays until an operator replays or discards it.",
    "agent": "A user-agent identity; a suspended one recovers by time alone, a blocked one by a person.",
    "circuit": "Stops asking where asking keeps failing; one request through a half-open one decides.",
}

HEAD = """# Lifecycles

Each noun's moves are one table in its own module: `(state, verb) -> state`. This page is made from those tables by
`scripts/make_lifecycles.py`, and a test compares them. A verb that is not in the table is refused in every other state,
naming the state it was in and the states it needs. What a table cannot say (a count that is spent, a time that has not
come) is a guard beside the verb.
"""


def lifecycles() -> list[tuple[str, Lifecycle[Any]]]:
    """Every table with the module it lives in, by feature."""
    found: dict[int, tuple[str, Lifecycle[Any]]] = {}
    for feature in FEATURES:
        package = importlib.import_module(f"sellerwatch.{feature}")
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(info.name)
            for value in vars(module).values():
                if isinstance(value, Lifecycle) and type(value.first).__module__ == module.__name__:
                    found.setdefault(id(value), (module.__name__, value))
    return list(found.values())


def section(module: str, life: Lifecycle[Any]) -> str:
    rows = [
        f"| `{verb}` | {state} | {life.moves[state, verb]} |" for verb in life.verbs() for state in life.sources(verb)
    ]
    lines = [
        f"## {life.noun.capitalize()}",
        "",
        f"{SENTENCES[life.noun]} (`{module}`)",
        "",
        "```mermaid",
        life.diagram(),
        "```",
        "",
        "| verb | from | to |",
        "| --- | --- | --- |",
        *rows,
    ]
    return "\n".join(lines) + "\n"


def page() -> str:
    return "\n".join([HEAD, *(section(module, life) for module, life in lifecycles())])


def main() -> int:
    parser = argparse.ArgumentParser(description="Writes the page of lifecycles from the tables.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the page differs")
    parser.add_argument("--to", type=Path, default=PAGE, help="the page, if it is another")
    options = parser.parse_args()
    wanted = page()
    if not options.check:
        options.to.parent.mkdir(parents=True, exist_ok=True)
        options.to.write_text(wanted, encoding="utf-8")
        return 0
    if options.to.exists() and options.to.read_text(encoding="utf-8") == wanted:
        return 0
    print(f"{options.to} differs from the tables: run `python scripts/make_lifecycles.py`")
    return 1


if __name__ == "__main__":
    sys.exit(main())
