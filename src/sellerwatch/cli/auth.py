"""`sellerwatch auth`: tokens for the API, and users."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

import typer

from sellerwatch.cli import auth_user
from sellerwatch.cli.help import CommandApp
from sellerwatch.kernel.clock import SystemClock
from sellerwatch.kernel.errors import Invalid
from sellerwatch.settings.load import load

app = CommandApp()
app.add_typer(auth_user.app, name="user")

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
    typer.echo(credentials_of(load(os.environ).settings).issue(name, wanted, lifetime, SystemClock().now()))


def _lifetime(given: str) -> timedelta:
    found = _TTL.fullmatch(given.strip().lower())
    lifetime = timedelta(seconds=int(found.group(1)) * _UNITS[found.group(2)]) if found else timedelta(0)
    if not timedelta(0) < lifetime <= LONGEST:
        raise UnreadableTtl(given=given)
    return lifetime
