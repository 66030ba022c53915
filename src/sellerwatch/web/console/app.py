"""The console's pages, to be served beside the API."""

from __future__ import annotations

from fastapi import FastAPI

from sellerwatch.web.console import (
    agents,
    audit,
    changes,
    days,
    dead_letters,
    executions,
    login,
    logins,
    marketplace,
    outbox,
    overview,
    products,
    quarantine,
    removals,
    resends,
    resyncs,
    schedules,
    sellers,
    settings,
    static,
    tasks,
    trace,
    users,
)

ROUTERS = (
    static.router,
    login.router,
    overview.router,
    sellers.router,
    executions.router,
    tasks.router,
    dead_letters.router,
    resyncs.router,
    # Before the outbox, whose pages are named by an id.
    resends.router,
    outbox.router,
    products.router,
    changes.router,
    days.router,
    trace.router,
    marketplace.router,
    agents.router,
    quarantine.router,
    removals.router,
    schedules.router,
    audit.router,
    users.router,
    logins.router,
    settings.router,
)


def add_console(app: FastAPI) -> None:
    for router in ROUTERS:
        app.include_router(router)
