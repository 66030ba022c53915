"""`sellerwatch auth`: tokens for the API, log-ins, and users."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

import typer

from sellerwatch.access import commands
from sellerwatch.cli import auth_logins, auth_user
from sellerwatch.cli.help import CommandApp
from sellerwatch.cli.session import command_session, text
from sellerwatch.kernel.errors import Invalid

app = CommandApp()
app.add_typer(auth_user.app, name="user")
app.add_typer(auth_logins.tokens, name="tokens")
app.add_typer(auth_logins.sessions, name="sessions")

_TTL = re.compile(r"([0-9]{1,6})([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
LONGEST = timedelta(days=365)


@dataclass(eq=False)
class UnreadableTtl(Invalid):
    """Not a duration that a token may be valid for."""

    given: str


@app.command()
def token(
    role: Annotated[str, typer.Option("--role")],
    ttl: Annotated[str, typer.Option("--ttl", metavar="TIME")] = "1h",
    name: str = "operator",
) -> None:
    """Print a bearer token for the API, and nothing else.

    \\b
    curl -H "Authorization: Bearer $(sellerwatch auth token --role viewer)" localhost:8080/api/v1/sellers
    """
    # Imported here: the web server is most of what starting any other command of this group would cost.
    from sellerwatch.web.serve import credentials_of  # noqa: PLC0415 - FastAPI, for one command

    wanted, lifetime = auth_user.role_of(role), _lifetime(ttl)
    with command_session(make=True) as at:
        made = at.run(commands.create_token, text(name), wanted, lifetime)
        credentials = credentials_of(at.settings)
    typer.echo(credentials.issue(made.name, wanted, lifetime, made.created_at, token_id=made.token_id))


def _lifetime(given: str) -> timedelta:
    found = _TTL.fullmatch(given.strip().lower())
    lifetime = timedelta(seconds=int(found.group(1)) * _UNITS[found.group(2)]) if found else timedelta(0)
    if not timedelta(0) < lifetime <= LONGEST:
        raise UnreadableTtl(given=given)
    return lifetime
