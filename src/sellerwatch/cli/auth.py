"""`sellerwatch auth`: who may speak to the API."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

import typer

from sellerwatch.cli import auth_user
from sellerwatch.kernel.errors import Invalid

app = typer.Typer(no_args_is_help=True, help="Tokens for the API, and people who log in.")
app.add_typer(auth_user.app, name="user")

_TTL = re.compile(r"([0-9]{1,6})([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
LONGEST = timedelta(days=365)


@dataclass(eq=False)
class UnreadableTtl(Invalid):
    """Not a time for which a token may be valid."""

    given: str


@app.command()
def token(
    role: Annotated[str, typer.Option("--role", help="admin changes things, viewer reads.")],
    ttl: Annotated[
        str, typer.Option("--ttl", metavar="TIME", help="How long it is valid, such as 30m, 1h, 7d.")
    ] = "1h",
    name: Annotated[str, typer.Option("--name", help="Whose it is; the audit trail names it.")] = "operator",
) -> None:
    """Print a bearer token for the API, and nothing else.

    \\b
    curl -H "Authorization: Bearer $(sellerwatch auth token --role viewer)" localhost:8080/api/v1/sellers
    """
    from sellerwatch.kernel.clock import SystemClock  # noqa: PLC0415
    from sellerwatch.settings.load import load  # noqa: PLC0415
    from sellerwatch.web.api.credentials import Role  # noqa: PLC0415
    from sellerwatch.web.serve import credentials_of  # noqa: PLC0415

    if role not in [str(known) for known in Role]:
        raise typer.BadParameter("it is admin or viewer", param_hint="--role")
    lifetime = _lifetime(ttl)
    issued = credentials_of(load(os.environ).settings).issue(name, Role(role), lifetime, SystemClock().now())
    typer.echo(issued)


def _lifetime(given: str) -> timedelta:
    found = _TTL.fullmatch(given.strip().lower())
    lifetime = timedelta(seconds=int(found.group(1)) * _UNITS[found.group(2)]) if found else timedelta(0)
    if not timedelta(0) < lifetime <= LONGEST:
        raise UnreadableTtl(given=given)
    return lifetime
