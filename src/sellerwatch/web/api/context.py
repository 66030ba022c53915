"""What the routes work with: made once, handed to the app, found again from any request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from fastapi import Request

from sellerwatch.access.passwords import PasswordHasher
from sellerwatch.compose.keys import open_passwords
from sellerwatch.compose.rules import pool_rules
from sellerwatch.kernel.ids import ReplayableIds
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.operations.session import OperationSession

if TYPE_CHECKING:
    from sellerwatch.kernel.clock import Clock
    from sellerwatch.kernel.ids import Ids
    from sellerwatch.kernel.notices import Notice
    from sellerwatch.service.service import Service
    from sellerwatch.settings.model import Settings
    from sellerwatch.web.api.credentials import Credentials

T = TypeVar("T")


@dataclass(frozen=True)
class Desk:
    """The means of one change: run twice, it gets the same time and the same ids."""

    actor: str
    now: datetime
    ids: Iterator[str]


@dataclass(frozen=True)
class Parts:
    """The service behind the API, the settings in force, and the credentials it accepts."""

    service: Service
    settings: Settings
    credentials: Credentials
    passwords: PasswordHasher = field(default_factory=lambda: PasswordHasher(open_passwords()))
    #: Where each setting came from, as far as whoever started this knows.
    origins: Mapping[str, str] = field(default_factory=dict)

    @property
    def clock(self) -> Clock:
        return self.service.crawl.clock

    @property
    def ids(self) -> Ids:
        return self.service.crawl.ids

    def session(self, actor: str, language: str) -> OperationSession:
        crawl = self.service.crawl
        return OperationSession(
            store=self.service.store,
            clock=crawl.clock,
            ids=crawl.ids,
            rules=crawl.rules,
            pool=pool_rules(self.settings),
            deadline=crawl.deadline,
            actor=actor,
            language=language,
            changed=self.service.nudge,
            pauses_changed=self.service.apply_pauses,
            alert=self._alert,
        )

    def quiet_session(self, actor: str = "api:nobody", language: str = "en") -> OperationSession:
        """Return a session whose commands do not wake the service: for requests that anybody may send."""
        return replace(self.session(actor, language), changed=_wake_nothing)

    async def _alert(self, notices: Sequence[Notice]) -> None:
        self.service.crawl.tell(notices)

    async def read(self, work: Callable[[ServiceTx], T]) -> T:
        """One consistent view; nothing is changed."""
        return await self.service.store.read(partial(_run, work))

    async def change(self, actor: str, work: Callable[[ServiceTx, Desk], T]) -> T:
        """One transaction by this caller. Whoever waits for what it wrote is nudged after the commit."""
        now, draw = self.clock.now(), ReplayableIds(self.ids)
        done = await self.service.store.transact(lambda tx: work(tx, Desk(actor, now, draw.replay())))
        self.service.nudge()
        return done


def _wake_nothing() -> None:
    """Do nothing after a command of a quiet session."""


def _run(work: Callable[[ServiceTx], T], tx: ServiceTx) -> T:
    return work(tx)


def parts_of(request: Request) -> Parts:
    return cast("Parts", request.app.state.parts)
