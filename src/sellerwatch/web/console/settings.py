"""The settings in force and where each came from. Of a secret it is only said whether there is one."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from fastapi import APIRouter
from pydantic import SecretStr
from starlette.responses import Response

from sellerwatch.agents import commands, queries
from sellerwatch.agents.queries import LimitView
from sellerwatch.compose.rules import retention_rules
from sellerwatch.operations.retention import RetainedView, list_retention
from sellerwatch.oversight.backups import LastBackupView
from sellerwatch.reports.queries import show_last_backup
from sellerwatch.settings.model import SECRETS, shown_value
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Admin, Viewer, Visit
from sellerwatch.web.console.rendering import PageRoute, ask_first, go, show
from sellerwatch.web.console.tables import Columns, Filter, Table

router = APIRouter(route_class=PageRoute, include_in_schema=False)

#: Longer values are broken into lines.
LONGEST_CODE = 40

RETAINED: Columns[RetainedView] = {
    "table": lambda each: tables.code(each.table),
    "kept_days": lambda each: tables.number(each.kept_days),
    "older_than": lambda each: tables.when(each.before),
    "rows": lambda each: tables.number(each.rows),
    "bytes": lambda each: tables.number(each.bytes),
}


@router.get("/settings")
async def settings(visit: Viewer) -> Response:
    limits = await visit.operations.ask(queries.list_limits, visit.operations.limits)
    by_name = {limit.name.lower(): limit for limit in limits.content}
    configured, origins = visit.parts.settings, visit.parts.origins
    table = Table(
        "settings",
        ("col.setting", "col.value", "col.origin", "col.meaning"),
        [
            (
                tables.code(name.upper(), f"/settings/limits/{name}" if name in by_name and visit.is_admin else None),
                _value(name, by_name[name].value if name in by_name else getattr(configured, name)),
                _origin(visit, by_name[name]) if name in by_name else _pill(origins.get(name, "default")),
                tables.said(f"setting.{name}"),
            )
            for name in type(configured).model_fields
        ],
        "settings.lead",
        caption="nav.settings",
    )
    return show(
        visit,
        "list.html",
        title="nav.settings",
        lead="settings.lead",
        table=table,
        live="limit",
        fields=[],
        buttons=[("/settings/retention", "retention.button")],
        note=_backup(visit, await visit.operations.ask(show_last_backup)),
    )


@router.get("/settings/retention")
async def retention(visit: Viewer) -> Response:
    """What is too old to be kept, and how much room it takes."""
    configured = visit.parts.settings
    found = await visit.operations.ask(list_retention, retention_rules(configured), ZoneInfo(configured.timezone))
    return show(
        visit,
        "list.html",
        title="retention.title",
        lead="retention.lead",
        table=Table.of("retention", found.content, RETAINED, "retention.none", caption="retention.title"),
        live="limit",
        fields=[],
    )


@router.get("/settings/limits/{name}")
async def confirm_limit(name: str, visit: Admin) -> Response:
    limit = await _limit(visit, name)
    shown = "" if limit.value is None else f"{limit.value:g}"
    return ask_first(
        visit,
        "limit.title",
        "limit.button",
        [("limit.what", {"seconds": f"{visit.operations.limits.taken_over_within:g}"})],
        "/settings",
        fields=[Filter("value", f"setting.{limit.name.lower()}", shown, kind="text")],
        danger=False,
        name=limit.name,
    )


@router.post("/settings/limits/{name}")
async def set_limit(name: str, visit: Admin) -> Response:
    value = visit.form.get("value", "").strip()
    changed = await visit.operations.run(commands.set_limit, visit.operations.limits, name, value)
    return go(visit, "/settings", "limit.done", name=changed.name)


@router.get("/settings/limits/{name}/unset")
async def confirm_unset(name: str, visit: Admin) -> Response:
    limit = await _limit(visit, name)
    configured = visit.t("settings.unset") if limit.configured is None else f"{limit.configured:g}"
    sentences = [("limit.unset_what", {"value": configured})]
    return ask_first(
        visit, "limit.unset_title", "limit.unset_button", sentences, "/settings", danger=False, name=limit.name
    )


@router.post("/settings/limits/{name}/unset")
async def unset_limit(name: str, visit: Admin) -> Response:
    changed = await visit.operations.run(commands.unset_limit, visit.operations.limits, name)
    return go(visit, "/settings", "limit.unset_done", name=changed.name)


def _backup(visit: Visit, last: LastBackupView | None) -> str:
    """When the last good backup was made, and how large it is; a page has no button for it."""
    if last is None or last.made_at is None:
        return visit.t("backup.none")
    zone = ZoneInfo(visit.parts.settings.timezone)
    size = f"{(last.bytes or 0) / 1_000_000:,.1f}"
    return visit.t("backup.made", at=f"{last.made_at.astimezone(zone):%Y-%m-%d %H:%M}", size=size, file=last.file)


async def _limit(visit: Visit, given: str) -> LimitView:
    name = visit.operations.limits.find(given).upper()
    found = await visit.operations.ask(queries.list_limits, visit.operations.limits)
    return next(limit for limit in found.content if limit.name == name)


def _origin(visit: Visit, limit: LimitView) -> tables.Cell:
    """A change made at run time leads to taking it back."""
    is_link = limit.is_overridden and visit.is_admin
    return _pill(limit.origin, f"/settings/limits/{limit.name.lower()}/unset" if is_link else None)


def _pill(origin: str, href: str | None = None) -> tables.Cell:
    return tables.pill(origin, "origin", href)


def _value(name: str, value: object) -> tables.Cell:
    if name in SECRETS or isinstance(value, SecretStr):
        return tables.said("settings.hidden" if value is not None else "settings.unset")
    if value is None or value == "":
        return tables.said("settings.unset")
    shown = str(shown_value(name, value))
    return tables.code(shown) if len(shown) <= LONGEST_CODE else tables.raw(shown)
