"""`sellerwatch auth user`: people who log in. A password is never an argument: others can read those."""

from __future__ import annotations

import getpass
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sellerwatch.cli import session
from sellerwatch.cli.output import print_json, print_table
from sellerwatch.cli.session import AsJson, say, stamp
from sellerwatch.kernel.errors import Invalid

if TYPE_CHECKING:
    from sellerwatch.access.users import Role, User

app = typer.Typer(no_args_is_help=True, help="People who log in.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Small letters, digits and . _ @ -")]
RoleName = Annotated[str, typer.Option("--role", help="admin changes things, viewer reads.")]


@dataclass(eq=False)
class NoPassword(Invalid):
    """Nothing was typed or piped in."""


@dataclass(eq=False)
class PasswordsDiffer(Invalid):
    """Typed twice, and not the same."""


@app.command()
def add(name: Name, role: RoleName, as_json: AsJson = False) -> None:
    """Add a person. The password is asked for, or read as one line from standard input.

    \b
    sellerwatch auth user add minji --role admin
    pass show sellerwatch | sellerwatch auth user add minji --role viewer
    """
    from sellerwatch.access import users  # noqa: PLC0415

    known, wanted = users.user_name(session.text(name)), _role(role)
    hashed = _new_password(known)
    made = session.change(lambda tx, at: users.add_user(tx, known, wanted, hashed, actor=at.actor, now=at.now))
    _report(made, f"{known} may log in as {wanted}.", as_json)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List who may log in.

    \b
    sellerwatch auth user list
    """
    found = session.look(lambda tx, _: tx.users.everyone())
    if as_json:
        print_json({"content": [user_json(user) for user in found]})
        return
    print_table(
        "Users",
        ("name", "role", "password", "last log-in (UTC)", "since (UTC)"),
        [(u.name, u.role, "one-time" if u.must_change else "set", u.last_login_at, u.created_at) for u in found],
        empty="Nobody may log in yet: the first `sellerwatch serve` makes admin, or: sellerwatch auth user add",
    )


@app.command()
def remove(name: Name, as_json: AsJson = False) -> None:
    """Remove a person; their tokens are void at once.

    \b
    sellerwatch auth user remove minji
    """
    from sellerwatch.access import users  # noqa: PLC0415

    known = users.user_name(session.text(name))
    gone = session.change(lambda tx, at: users.remove_user(tx, known, actor=at.actor, now=at.now))
    _report(gone, f"{known} may not log in any more.", as_json)


@app.command()
def password(name: Name, as_json: AsJson = False) -> None:
    """Set a person's password, asked for or read as one line from standard input; their tokens are void at once.

    \b
    sellerwatch auth user password minji
    """
    from sellerwatch.access import users  # noqa: PLC0415

    known = users.user_name(session.text(name))
    session.look(lambda tx, _: users.find_user(tx, known))
    hashed = _new_password(known)
    changed = session.change(lambda tx, at: users.set_password(tx, known, hashed, actor=at.actor, now=at.now))
    _report(changed, f"{known} has a new password.", as_json)


@app.command()
def role(name: Name, role: RoleName, as_json: AsJson = False) -> None:
    """Give a person another role; their tokens are void at once.

    \b
    sellerwatch auth user role minji --role viewer
    """
    from sellerwatch.access import users  # noqa: PLC0415

    known, wanted = users.user_name(session.text(name)), _role(role)
    changed = session.change(lambda tx, at: users.set_role(tx, known, wanted, actor=at.actor, now=at.now))
    _report(changed, f"{known} is {wanted} now.", as_json)


def user_json(user: User) -> dict[str, Any]:
    return {
        "name": user.name,
        "role": user.role,
        "mustChange": user.must_change,
        "lastLoginAt": stamp(user.last_login_at),
        "createdAt": stamp(user.created_at),
        "updatedAt": stamp(user.updated_at),
    }


def _new_password(name: str) -> str:
    """Its hash: the password itself goes no further than here."""
    from sellerwatch.access.users import check_password  # noqa: PLC0415
    from sellerwatch.compose.keys import open_passwords  # noqa: PLC0415

    return open_passwords().hash(check_password(_asked(), name))


def _asked() -> str:
    if not sys.stdin.isatty():
        typed = sys.stdin.readline().rstrip("\r\n")
    else:
        typed = getpass.getpass("New password: ")
        if typed and getpass.getpass("Once more: ") != typed:
            raise PasswordsDiffer
    if not typed:
        raise NoPassword
    return typed


def _role(given: str) -> Role:
    from sellerwatch.access.users import Role  # noqa: PLC0415

    if given not in [str(known) for known in Role]:
        raise typer.BadParameter("it is admin or viewer", param_hint="--role")
    return Role(given)


def _report(user: User, sentence: str, as_json: bool) -> None:
    if as_json:
        print_json(user_json(user))
    else:
        say(sentence, "green")
