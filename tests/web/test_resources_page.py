"""docs/api.md names every path under /api/v1 that is served, and none that is not."""

from __future__ import annotations

import re
from pathlib import Path

from .api_world import ApiWorld

PAGE = Path(__file__).parents[2] / "docs/api.md"
ROW = re.compile(r"^\| ((?:GET|POST|PUT|PATCH|DELETE)[A-Z*, ]*) \| ([^|]+) \|", re.MULTILINE)
CRAWLS = ("sellers", "schedules", "executions", "tasks", "agents", "user-agents", "limits", "audit")
NOUNS = (
    *CRAWLS,
    "plan",
    "retention",
    "marketplace",
    "users",
    "tokens",
    "products",
    "outbox",
    "resends",
    "retention",
    "resyncs",
    "quarantine",
    "removals",
    "status",
    "why",
    "attention",
    "changes",
    "resyncs",
)


def documented(text: str) -> set[tuple[str, str]]:
    """Later paths of a row are beside the first: `/agents/remove, /suspend`."""
    found = set()
    for methods, paths in ROW.findall(text):
        first = ""
        for path in (each.strip().partition("?")[0].strip() for each in paths.split(",")):
            whole = first.rpartition("/")[0] + path if first else path
            first = first or whole
            found |= {(method.strip("* "), f"/api/v1{whole}") for method in methods.split(",")}
    return found


async def test_the_page_and_the_routes_are_the_same(world: ApiWorld) -> None:
    paths = world.admin.app.openapi()["paths"]
    served = {
        (method.upper(), path)
        for path, methods in paths.items()
        for method in methods
        if path.startswith(tuple(f"/api/v1/{noun}" for noun in NOUNS))
    }
    section = PAGE.read_text("utf-8").partition("## Resources")[2].partition("\n## ")[0]
    named = {entry for entry in documented(section) if not entry[1].startswith("/api/v1/metrics/")}
    assert named == served
