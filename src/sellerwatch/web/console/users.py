"""Users: list, add, set role, reset password, remove. Only for administrators."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from sellerwatch.access import commands, queries
from sellerwatch.access.queries import UserView
from sellerwatch.access.users import Role, user_name
from sellerwatch.operations import users as operations
from sellerwatch.web.console import tables
from sellerwatch.web.console.page_request import Admin, one_of
from sellerwatch.web.console.rendering import PageRoute, ask_first, go, show, show_list
from sellerwatch.web.console.tables import Columns, Filter

router = APIRouter(route_class=PageRoute, include_in_schema=False)

USERS: Columns[UserView] = {
    "name": lambda user: tables.code(user.name, f"/users/{user.name}"),
    "role": lambda user: tables.said(f"role.{user.role}"),
    "password": lambda user: tables.said("users.one_time" if user.must_change else "users.own"),
    "last_login": lambda user: tables.when(user.last_login_at),
    "since": lambda user: tables.when(user.created_at),
}
ROLES = [(str(role), f"role.{role}") for role in Role]
PASSWORD = Filter("password", "users.one_time_password", "", kind="password")


@router.get("/users")
async def users_page(visit: Admin) -> Response:
    users = await visit.operations.ask(queries.list_users)
    return show_list(visit, "users", users.content, USERS, live="user", buttons=[("/add-user", "users.add")])


@router.get("/add-user")
async def confirm_add(visit: Admin) -> Response:
    fields = [Filter("name", "col.name", "", kind="text"), Filter("role", "col.role", Role.VIEWER, ROLES), PASSWORD]
    return ask_first(
        visit, "users.add", "users.add", [("users.one_time_what", {})], "/users", fields=fields, danger=False
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
    sentences = [(f"users.{verb}_what", {"name": user.name})]
    page = f"/users/{user.name}"
    return ask_first(visit, f"users.{verb}", f"users.{verb}_button", sentences, page, fields=fields, danger=danger)


def _role(given: str) -> Role:
    """Return the role of a form; what is not one reads only."""
    return one_of(Role, given) or Role.VIEWER
