"""`sellerwatch auth tokens` and `auth sessions`: which tokens and log-ins are valid, and how to end them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sellerwatch.access import commands, queries
from sellerwatch.access.users import user_name
from sellerwatch.cli.help import CommandApp
from sellerwatch.cli.output import print_table, print_view
from sellerwatch.cli.session import AsJson, DryRun, command_session, say, text
from sellerwatch.cli.texts import Texts
from sellerwatch.compose.rules import session_limits
from sellerwatch.kernel.ids import ApiTokenId, LoginSessionId

if TYPE_CHECKING:
    from sellerwatch.access.queries import ApiTokenView

tokens = CommandApp()
sessions = CommandApp()

FAMILY = "cli_access"

TokenArgument = Annotated[str, typer.Argument(metavar="TOKEN_ID")]
SessionArgument = Annotated[str, typer.Argument(metavar="SESSION_ID")]


@tokens.command("list")
def list_tokens(as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch auth tokens list
    """
    with command_session() as at:
        found, words = at.ask(queries.list_tokens), at.texts(FAMILY)
    if as_json:
        print_view(found)
        return
    print_table(
        words("tokens.title"),
        [words(f"tokens.{name}") for name in ("token", "name", "role", "created_by", "last_used", "expires")],
        [
            (t.token_id, t.name, t.role, t.created_by, words.ago(t.last_used_at), _end_of(t, words))
            for t in found.content
        ],
        empty=words("tokens.empty"),
    )


@tokens.command()
def revoke(token: TokenArgument, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch auth tokens revoke 0198c0de-0000-7000-800c-000000000001
    """
    token_id = ApiTokenId.parse(text(token))
    with command_session(dry_run=dry_run) as at:
        revoked, words = at.run(commands.revoke_token, token_id), at.texts(FAMILY)
    if as_json:
        print_view(revoked)
        return
    say(words("tokens.dry_run" if dry_run else "tokens.revoked", name=revoked.name), "" if dry_run else "green")


@sessions.command("list")
def list_sessions(user: str | None = None, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch auth sessions list --user minji
    """
    owner = None if user is None else user_name(text(user))
    with command_session() as at:
        found, words = at.ask(queries.list_sessions, owner, session_limits(at.settings)), at.texts(FAMILY)
    if as_json:
        print_view(found)
        return
    print_table(
        words("sessions.title"),
        [words(f"sessions.{name}") for name in ("session", "user", "kind", "address", "last_used", "expires")],
        [
            (s.session_id, s.user, s.kind, s.address, words.ago(s.last_used_at), words.when(s.expires_at))
            for s in found.content
        ],
        empty=words("sessions.empty"),
    )


@sessions.command()
def end(session: SessionArgument, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Examples:

    sellerwatch auth sessions end 0198c0de-0000-7000-800b-000000000001
    """
    session_id = LoginSessionId.parse(text(session))
    with command_session(dry_run=dry_run) as at:
        ended, words = at.run(commands.end_session, session_id), at.texts(FAMILY)
    if as_json:
        print_view(ended)
        return
    say(words("sessions.dry_run" if dry_run else "sessions.ended", user=ended.user), "" if dry_run else "green")


def _end_of(token: ApiTokenView, words: Texts) -> str | None:
    if token.revoked_at is not None:
        return words("tokens.revoked_at", when=words.when(token.revoked_at))
    return words.when(token.expires_at)
