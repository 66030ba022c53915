"""Check the addresses of a crawl against robots.txt."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import unquote, urlsplit
from urllib.robotparser import RobotFileParser

from sellerwatch.kernel.errors import Conflict
from sellerwatch.marketplaces.ports import Transport, TransportFailed

#: Whom the rules are read for: crawlers in general. Our identities are browsers' names, which no robots.txt mentions.
US = "sellerwatch"
FOUND = 200

log = logging.getLogger(__name__)


@dataclass(eq=False)
class RobotsForbid(Conflict):
    """ROBOTS_CHECK is `obey`, and robots.txt disallows an address that a crawl needs."""

    path: str


class Robots:
    """Reads robots.txt at the first start of a run, and again once a day. `warn` logs what is disallowed, `obey`
    refuses.

    Without a robots.txt, or when it cannot be read, everything is allowed: so its standard (RFC 9309) has it, and a
    crawl that cannot reach the marketplace fails anyway.
    """

    def __init__(self, transport: Transport, base_url: str, paths: Sequence[str], mode: str) -> None:
        self._transport = transport
        self._base_url = base_url
        self._paths = tuple(paths)
        self._mode = mode
        self._looked_at: datetime | None = None
        self._forbidden: tuple[str, ...] = ()

    async def allow(self, now: datetime) -> None:
        """Raise `RobotsForbid` if a needed address is disallowed and the mode is `obey`."""
        if self._mode == "off":
            return
        if self._looked_at is None or now - self._looked_at >= timedelta(days=1):
            self._forbidden = await self._look()
            self._looked_at = now
            for path in self._forbidden:
                log.warning("robots.txt disallows an address that a crawl needs", extra={"path": path})
        if self._forbidden and self._mode == "obey":
            raise RobotsForbid(path=self._forbidden[0])

    async def _look(self) -> tuple[str, ...]:
        try:
            reply = await self._transport.get(
                f"{self._base_url}/robots.txt", {"User-Agent": US, "Accept": "text/plain"}
            )
        except TransportFailed:
            return ()
        if reply.status != FOUND:
            return ()
        rules = RobotFileParser()
        rules.parse(list(filter(_is_read, reply.body.decode("utf-8", "replace").splitlines())))
        return tuple(path for path in self._paths if not rules.can_fetch(US, self._base_url + path))


def _is_read(line: str) -> bool:
    """Return whether a line matters here and can be read: the parser raises for an address such as `//[`, and for
    delays in other digits."""
    name, _, value = line.partition(":")
    if name.strip().lower() in ("crawl-delay", "request-rate"):
        return False
    try:
        urlsplit(unquote(value.strip()))
    except ValueError:
        return False
    return True
