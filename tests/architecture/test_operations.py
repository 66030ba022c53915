"""Commands and queries: each surface offers every one, or there is a reason why not; none talks to a transaction."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src/sellerwatch"
SURFACES = {"api": "web/api", "cli": "cli", "console": "web/console"}

#: What a surface does not offer, and why.
REASONS: dict[tuple[str, str], str] = {
    ("list_schedules", "console"): "the page lists schedules by next start, beside the coming day: schedule_outlook",
    ("show_schedule", "console"): "a seller's page shows its schedule: show_seller",
}


def operations() -> dict[str, str]:
    """Every public command and query: its name and its module."""
    paths = [*PACKAGE.glob("*/commands.py"), *PACKAGE.glob("*/queries.py"), *PACKAGE.glob("operations/*.py")]
    found = {}
    for path in sorted(paths):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_operation(node):
                found[node.name] = path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", ".")
    return found


def is_operation(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Takes a transaction and a context, or a session of operations."""
    kinds = [ast.unparse(argument.annotation) for argument in node.args.args[:2] if argument.annotation is not None]
    is_public = not node.name.startswith("_")
    return is_public and ("OperationContext" in kinds or "OperationSession" in kinds[:1])


def names_in(folder: str) -> set[str]:
    """Every name that the modules of a surface use."""
    names: set[str] = set()
    for path in (PACKAGE / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Name):
                names.add(node.id)
            if isinstance(node, ast.Attribute):
                names.add(node.attr)
    return names


OPERATIONS = operations()
USED = {surface: names_in(folder) for surface, folder in SURFACES.items()}


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_offered_by_each_surface_or_there_is_a_reason_why_not(name: str, surface: str) -> None:
    is_offered, reason = name in USED[surface], REASONS.get((name, surface))
    assert is_offered or reason, f"{surface} does not offer {OPERATIONS[name]}.{name}"
    assert not (is_offered and reason), f"{surface} offers {name} now; take its reason out"


def test_no_reason_is_kept_for_what_is_gone() -> None:
    assert [key for key in REASONS if key[0] not in OPERATIONS] == []


@pytest.mark.parametrize("folder", SURFACES.values())
def test_no_surface_talks_to_a_transaction(folder: str) -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in sorted((PACKAGE / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.arg) and node.arg == "tx"
    ]
    assert found == []
