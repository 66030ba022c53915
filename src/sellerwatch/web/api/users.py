"""/api/v1/users: who can log in. Only for administrators."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from pydantic import Field, StrictBool, StrictStr

from sellerwatch.access import commands, queries
from sellerwatch.access.queries import UsersView, UserView
from sellerwatch.access.users import LONGEST_PASSWORD, Role, user_name
from sellerwatch.operations import users as operations
from sellerwatch.web.api.authorization import AdminSession, DryRunSession
from sellerwatch.web.api.context import parts_of
from sellerwatch.web.api.errors import refusals
from sellerwatch.web.api.models import RequestModel
from sellerwatch.web.api.view_route import ViewRoute

router = APIRouter(prefix="/users", tags=["users"], route_class=ViewRoute)

Name = Annotated[str, Path(max_length=100, examples=["minji"])]


class ResetPasswordBody(RequestModel):
    """With `mustChange` the password is a one-time password: it can only be used to choose another."""

    password: StrictStr = Field(max_length=LONGEST_PASSWORD, examples=["correct horse battery staple"], repr=False)
    must_change: StrictBool = True


class AddUserBody(ResetPasswordBody):
    name: StrictStr = Field(max_length=100, examples=["minji"])
    role: Role = Field(strict=False, examples=["viewer"])


class RoleBody(RequestModel):
    role: Role = Field(strict=False, examples=["viewer"])


@router.get("")
async def list_users(session: AdminSession) -> UsersView:
    """List who can log in."""
    return await session.ask(queries.list_users)


@router.post("", status_code=201, responses=refusals(409))
async def add_user(session: DryRunSession, body: AddUserBody, request: Request) -> UserView:
    """Add a user. The password is a one-time password unless `mustChange` is false."""
    passwords = parts_of(request).passwords
    return await operations.add_user(session, passwords, body.name, body.role, body.password, body.must_change)


@router.get("/{name}", responses=refusals(404))
async def show_user(session: AdminSession, name: Name) -> UserView:
    """Show one user."""
    return await session.ask(queries.show_user, user_name(name))


@router.delete("/{name}", responses=refusals(404))
async def remove_user(session: DryRunSession, name: Name) -> UserView:
    """Remove a user; tokens and log-ins of that user are invalid at once."""
    return await session.run(commands.remove_user, user_name(name))


@router.put("/{name}/role", responses=refusals(404))
async def set_role(session: DryRunSession, name: Name, body: RoleBody) -> UserView:
    """Set a user's role; tokens and log-ins from before are invalid at once."""
    return await session.run(commands.set_role, user_name(name), body.role)


@router.put("/{name}/password", responses=refusals(404))
async def set_password(session: DryRunSession, name: Name, body: ResetPasswordBody, request: Request) -> UserView:
    """Set a user's password; tokens and log-ins from before are invalid at once."""
    passwords = parts_of(request).passwords
    return await operations.set_password(session, passwords, name, body.password, body.must_change)
