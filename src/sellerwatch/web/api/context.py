"""What the routes work with: made once, handed to the app, found again from any request."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, cast

from fastapi import Request

from sellerwatch.access.passwords import PasswordHasher
from sellerwatch.compose.check_context import check_context_of
from sellerwatch.compose.keys import open_passwords
from sellerwatch.compose.rules import session_limits
from sellerwatch.compose.service import open_session
from sellerwatch.kernel.errors import Unavailable
from sellerwatch.operations.session import OperationSession
from sellerwatch.reports.service_state import CheckContext
from sellerwatch.service.service import ProcessRole

if TYPE_CHECKING:
    from sellerwatch.access.login_sessions import SessionLimits
    from sellerwatch.kernel.clock import Clock
    from sellerwatch.kernel.ids import Ids
    from sellerwatch.service.service import Service
    from sellerwatch.settings.model import Settings
    from sellerwatch.web.api.credentials import Credentials

#: Seconds in which the queue has to say how many dead letters it has.
QUEUE_TIMEOUT = 2.0


@dataclass(frozen=True)
class Parts:
    """The service behind the API, the settings in force, and the credentials it accepts."""

    service: Service
    settings: Settings
    credentials: Credentials
    passwords: PasswordHasher = field(default_factory=lambda: PasswordHasher(open_passwords()))
    #: Where each setting came from, as far as the process that started this knows.
    origins: Mapping[str, str] = field(default_factory=dict)

    @property
    def clock(self) -> Clock:
        return self.service.crawl.clock

    @property
    def ids(self) -> Ids:
        return self.service.crawl.ids

    @cached_property
    def session_limits(self) -> SessionLimits:
        return session_limits(self.settings)

    def session(self, actor: str, language: str) -> OperationSession:
        return open_session(self.service, self.settings, actor, language, self.origins)

    def quiet_session(self, actor: str = "api:nobody", language: str = "en") -> OperationSession:
        """Return a session whose commands do not wake the service: for requests that anybody may send."""
        return replace(self.session(actor, language), changed=_wake_nothing)

    async def check_context(self, *, asks_queue: bool = True) -> CheckContext:
        """Return what checks go by that is not in the database. A queue that is not asked has no letters
        to show, nor has one that cannot be asked."""
        service, letters = self.service, self.service.crawl.dead_letters
        in_memory = service.store.commits is not None
        count = None
        if letters is not None and asks_queue:
            with suppress(Unavailable, TimeoutError):
                async with asyncio.timeout(QUEUE_TIMEOUT):
                    count = await letters.count()
        return check_context_of(
            self.settings,
            has_receiver=service.deliveries[0].has_receiver,
            is_worker=in_memory and ProcessRole.WORKER in service.roles,
            is_scheduler=in_memory and ProcessRole.SCHEDULER in service.roles,
            dead_letters=count,
        )


def _wake_nothing() -> None:
    """Do nothing after a command of a quiet session."""


def parts_of(request: Request) -> Parts:
    return cast("Parts", request.app.state.parts)
