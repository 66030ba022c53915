"""Users: list, add, set role, reset password, remove. Only for administrators."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.access import commands, queries
from sellerwatch.access.queries import UserView
from sellerwatch.access.users import Role, user_name
from sellerwatch.operations import users as operations
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Admin
from sellerwatch.web.console.rendering import PageRoute, go, show
from sellerwatch.web.console.tables import Confirm, Filter, Table

router = APIRouter(route_class=PageRoute, include_in_schema=False)

COLUMNS = ("name", "role", "password", "last_login", "since")
ROLES = [(str(role), f"role.{role}") for role in Role]
PASSWORD = Filter("password", "users.one_time_password", "", kind="password")


@router.get("/users")
async def users_page(visit: Admin) -> Response:
    users = await visit.operations.ask(queries.list_users)
    table = Table(
        "users",
        [f"col.{name}" for name in COLUMNS],
        [_row(user) for user in users.content],
        "users.empty",
        caption="nav.users",
    )
    buttons = [("/add-user", "users.add")]
    return show(
        visit, "list.html", title="nav.users", lead="users.lead", table=table, live="user", fields=[], buttons=buttons
    )


def _row(user: UserView) -> tuple[tables.Cell, ...]:
    return (
        tables.code(user.name, f"/users/{user.name}"),
        tables.said(f"role.{user.role}"),
        tables.said("users.one_time" if user.must_change else "users.own"),
        tables.when(user.last_login_at),
        tables.when(user.created_at),
    )


@router.get("/add-user")
async def confirm_add(visit: Admin) -> Response:
    return show(
        visit,
        "confirm.html",
        confirm=Confirm(
            "users.add",
            "/add-user",
            "users.add",
            [("users.one_time_what", {})],
            "/users",
            fields=[
                Filter("name", "col.name", "", kind="text"),
                Filter("role", "col.role", Role.VIEWER, ROLES),
                PASSWORD,
            ],
            danger=False,
        ),
    )


@router.post("/add-user")
async def add(visit: Admin) -> Response:
    form = visit.form
    user = await operations.add_user(
        visit.operations,
        visit.parts.passwords,
        form.get("name", ""),
        _role(form.get("role", "")),
        form.get("password", ""),
        must_change=True,
    )
    return go(visit, f"/users/{user.name}", "users.added")


@router.get("/users/{name}")
async def user_page(name: str, visit: Admin) -> Response:
    user = await visit.operations.ask(queries.show_user, user_name(name))
    return show(visit, "user.html", user=user)


@router.get("/users/{name}/role")
async def confirm_role(name: str, visit: Admin) -> Response:
    user = await visit.operations.ask(queries.show_user, user_name(name))
    fields = [Filter("role", "col.role", user.role, ROLES)]
    return _confirm(visit, user, "role", fields, danger=False)


@router.post("/users/{name}/role")
async def set_role(name: str, visit: Admin) -> Response:
    user = await visit.operations.run(commands.set_role, user_name(name), _role(visit.form.get("role", "")))
    return go(visit, f"/users/{user.name}", "users.role_done")


@router.get("/users/{name}/password")
async def confirm_password(name: str, visit: Admin) -> Response:
    user = await visit.operations.ask(queries.show_user, user_name(name))
    return _confirm(visit, user, "password", [PASSWORD], danger=False)


@router.post("/users/{name}/password")
async def reset_password(name: str, visit: Admin) -> Response:
    password = visit.form.get("password", "")
    user = await operations.set_password(visit.operations, visit.parts.passwords, name, password, must_change=True)
    return go(visit, f"/users/{user.name}", "users.password_done")


@router.get("/users/{name}/remove")
async def confirm_remove(name: str, visit: Admin) -> Response:
    user = await visit.operations.ask(queries.show_user, user_name(name))
    return _confirm(visit, user, "remove", [], danger=True)


@router.post("/users/{name}/remove")
async def remove(name: str, visit: Admin) -> Response:
    await visit.operations.run(commands.remove_user, user_name(name))
    return go(visit, "/users", "users.removed")


def _confirm(visit: Admin, user: UserView, verb: str, fields: list[Filter], *, danger: bool) -> Response:
    page = f"/users/{user.name}"
    confirm = Confirm(
        f"users.{verb}",
        f"{page}/{verb}",
        f"users.{verb}_button",
        [(f"users.{verb}_what", {"name": user.name})],
        page,
        fields=fields,
        danger=danger,
    )
    return show(visit, "confirm.html", confirm=confirm)


def _role(given: str) -> Role:
    """Return the role of a form; what is not one reads only."""
    return Role(given) if given in list(Role) else Role.VIEWER
