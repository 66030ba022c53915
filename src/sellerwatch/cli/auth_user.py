"""`sellerwatch auth user`: who can log in. A password is never an argument: other processes can read arguments."""

from __future__ import annotations

import getpass
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from sellerwatch.access import commands, queries
from sellerwatch.access.passwords import PasswordHasher
from sellerwatch.access.queries import UserView
from sellerwatch.access.users import Role, check_password, user_name
from sellerwatch.cli import session
from sellerwatch.cli.help import CommandApp
from sellerwatch.cli.output import print_facts, print_table, print_view
from sellerwatch.cli.session import AsJson, DryRun, command_session, say
from sellerwatch.cli.texts import Texts
from sellerwatch.compose.keys import open_passwords
from sellerwatch.kernel.errors import Invalid
from sellerwatch.operations import users as operations

if TYPE_CHECKING:
    from sellerwatch.cli.database_session import CommandSession

app = CommandApp()

FAMILY = "cli_access"

Name = Annotated[str, typer.Argument(metavar="NAME")]
RoleName = Annotated[str, typer.Option("--role")]
OneTime = Annotated[bool, typer.Option("--one-time")]


@dataclass(eq=False)
class NoPassword(Invalid):
    """No password was typed or piped in."""


@dataclass(eq=False)
class PasswordsDiffer(Invalid):
    """The password was typed twice, and not the same."""


@app.command()
def add(
    name: Name, role: RoleName, one_time: OneTime = False, dry_run: DryRun = False, as_json: AsJson = False
) -> None:
    """Examples:

    sellerwatch auth user add minji --role admin
    pass show sellerwatch | sellerwatch auth user add minji --role viewer
    """
    known, wanted = user_name(session.text(name)), role_of(role)
    password = check_password(_ask_password(), known)
    with command_session(dry_run=dry_run) as at:
        hasher = PasswordHasher(open_passwords())
        user = at.wait(operations.add_user(at.operations, hasher, known, wanted, password, one_time))
        _report(at, user, "add", as_json=as_json)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch auth user list
    """
    found, text = session.ask(queries.list_users), Texts(FAMILY)
    if as_json:
        print_view(found)
        return
    print_table(
        text("users.title"),
        [text(f"users.{name}") for name in ("name", "role", "password", "last_login", "created")],
        [(u.name, u.role, _password(u, text), u.last_login_at, u.created_at) for u in found.content],
        empty=text("users.empty"),
    )


@app.command()
def show(name: Name, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch auth user show minji
    """
    user, text = session.ask(queries.show_user, user_name(session.text(name))), Texts(FAMILY)
    if as_json:
        print_view(user)
        return
    values = {
        "name": user.name,
        "role": user.role,
        "password": _password(user, text),
        "last_login": user.last_login_at,
        "created": user.created_at,
        "updated": user.updated_at,
    }
    print_facts([(text(f"users.{key}"), value) for key, value in values.items()])


@app.command()
def remove(name: Name, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch auth user remove minji
    """
    with command_session(dry_run=dry_run) as at:
        _report(at, at.run(commands.remove_user, user_name(session.text(name))), "remove", as_json=as_json)


@app.command()
def password(name: Name, one_time: OneTime = False, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch auth user password minji
    """
    known = user_name(session.text(name))
    with command_session(dry_run=dry_run) as at:
        at.ask(queries.show_user, known)
        hasher, typed = PasswordHasher(open_passwords()), _ask_password()
        user = at.wait(operations.set_password(at.operations, hasher, known, typed, one_time))
        _report(at, user, "password", as_json=as_json)


@app.command()
def role(name: Name, role: RoleName, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch auth user role minji --role viewer
    """
    with command_session(dry_run=dry_run) as at:
        changed = at.run(commands.set_role, user_name(session.text(name)), role_of(role))
        _report(at, changed, "role", as_json=as_json)


def role_of(given: str) -> Role:
    if given not in [str(known) for known in Role]:
        raise typer.BadParameter(Texts(FAMILY)("role.unknown"), param_hint="--role")
    return Role(given)


def _ask_password() -> str:
    if not sys.stdin.isatty():
        typed = sys.stdin.readline().rstrip("\r\n")
    else:
        text = Texts(FAMILY)
        typed = getpass.getpass(text("password.new"))
        if typed and getpass.getpass(text("password.again")) != typed:
            raise PasswordsDiffer
    if not typed:
        raise NoPassword
    return typed


def _password(user: UserView, text: Texts) -> str:
    return text("users.one_time" if user.must_change else "users.set")


def _report(at: CommandSession, user: UserView, verb: str, *, as_json: bool) -> None:
    if as_json:
        print_view(user)
        return
    sentence = Texts(FAMILY)(f"{verb}.{'dry_run' if at.operations.dry_run else 'done'}", name=user.name, role=user.role)
    say(sentence, "" if at.operations.dry_run else "green")
