"""The settings in force and where each came from. Of a secret it is only said whether there is one."""

from __future__ import annotations

import re

from fastapi import APIRouter
from pydantic import SecretStr
from starlette.responses import Response

from sellerwatch.settings.faults import InvalidSettings
from sellerwatch.settings.load import tuned
from sellerwatch.settings.model import SECRETS, TUNABLE
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Viewer
from sellerwatch.web.console.rendering import PageRoute, show
from sellerwatch.web.console.tables import Table

router = APIRouter(route_class=PageRoute, include_in_schema=False)

_CREDENTIALS = re.compile(r"//[^/@]*@")


@router.get("/settings")
async def settings(visit: Viewer) -> Response:
    overrides = await visit.read(lambda tx: tx.overrides.all())
    changed = {name: value for name, value in overrides.items() if name in TUNABLE}
    try:
        held = tuned(visit.parts.settings, changed)
    except InvalidSettings:
        held, changed = visit.parts.settings, {}
    origins = visit.parts.origins
    table = Table(
        "settings",
        ("col.setting", "col.value", "col.origin", "col.meaning"),
        [
            (
                tables.code(name.upper()),
                _value(name, getattr(held, name)),
                tables.pill("override" if name in changed else origins.get(name, "default"), "origin"),
                tables.said(f"setting.{name}"),
            )
            for name in type(held).model_fields
        ],
        "settings.lead",
        caption="nav.settings",
    )
    return show(visit, "list.html", title="nav.settings", lead="settings.lead", table=table, live="limit", fields=[])


def _value(name: str, value: object) -> tables.Cell:
    if name in SECRETS or isinstance(value, SecretStr):
        return tables.said("settings.hidden" if value is not None else "settings.unset")
    if value is None or value == "":
        return tables.said("settings.unset")
    return tables.code(_CREDENTIALS.sub("//hidden@", str(value)))
