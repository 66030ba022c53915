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
    "resyncs",
    "quarantine",
    "removals",
    "status",
    "why",
    "attention",
    "changes",
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


async def test_the_page_names_every_parameter_of_the_lists(world: ApiWorld) -> None:
    paths, page = world.admin.app.openapi()["paths"], PAGE.read_text("utf-8")
    rows = {path.strip().partition("?")[0]: path for methods, path in ROW.findall(page) if "GET" in methods}
    missing = []
    for path, methods in paths.items():
        if path.startswith(tuple(f"/api/v1/{noun}" for noun in (*NOUNS, "metrics"))):
            asked = {each["name"] for each in methods.get("get", {}).get("parameters", ()) if each["in"] == "query"}
            named = set(re.findall(r"(\w+)=", rows.get(path.removeprefix("/api/v1"), "")))
            # Said once, for all lists.
            missing += [(path, name) for name in sorted(asked - named - {"size", "cursor", "page"})]
    assert missing == [], missing


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
