"""The API over a real store and a simulated marketplace, as an administrator, a viewer and nobody see it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from tests.builders import NOW, SELLER, StoppedClock, a_message, ids, product_id, task_id
from tests.crawling.crawl_world import ONE, TWO, CrawlWorld
from tests.world import StoreWorld, task_number

from sellerwatch.access.passwords import PasswordHasher
from sellerwatch.adapters.passwords import Argon2Passwords
from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.kernel.ids import SellerId
from sellerwatch.oversight.audit import AuditEntry
from sellerwatch.service.service import Service
from sellerwatch.settings.model import Settings
from sellerwatch.simulator.simulator import Simulator
from sellerwatch.web.api.app import make_app
from sellerwatch.web.api.context import Parts
from sellerwatch.web.api.credentials import Credentials, Role

from .caller import Api

SECRET = "a secret of thirty-two characters or more"
KEYS = ("first-internal-key", "second-internal-key")
NAME = "럭셔리 하우스 [명품] 🧥"
#: Any UUID does: there is nothing of that id.
UNKNOWN_ID = task_id(999_999)
#: Refused wherever a cursor is read: not base64, not ours, another list's, one with too large a number.
BAD_CURSORS = ["x", "!!", "한", "dGFza3M", "bm9ib2R5LjEuMQ", "dGFza3MuOTk5OTk5OTk5OTk5OTk5OTk5LjE", "' OR 1=1 --"]


class ApiWorld(StoreWorld):
    clock: StoppedClock

    def __init__(
        self, store: SqlStore, clock: StoppedClock, service: Service, settings: Settings, simulator: Simulator
    ) -> None:
        super().__init__(store, clock, ids(1000, clock))
        self.service = service
        self.simulator = simulator
        self.credentials = Credentials(SECRET, settings.jwt_issuer, settings.jwt_audience, KEYS)
        # Passwords that are hashed quickly: how slow it is in production is no part of what is tested.
        passwords = PasswordHasher(Argon2Passwords(memory_kib=64, passes=1))
        self.parts = Parts(service, settings, self.credentials, passwords)
        self.nobody = Api(make_app(self.parts))
        self.admin, self.viewer = self._as(Role.ADMIN), self._as(Role.VIEWER)

    def _as(self, role: Role) -> Api:
        return self.with_token(self.credentials.issue(f"{role}@practice", role, timedelta(hours=1), NOW))

    def with_token(self, token: str) -> Api:
        return replace(self.nobody, token=token)

    def internal(self) -> dict[str, str]:
        return {"x-api-key": KEYS[0]}

    async def register_seller(self, seller_id: SellerId = SELLER) -> None:
        await self.register([seller_id], NAME)

    async def failed_messages(self, number: int, first: int = 1) -> None:
        """Events the receiver refused for good, each of a product of its own."""
        numbers = range(first, first + number)
        await self.add_failed_messages(*[a_message(n, subject_id=product_id(n)) for n in numbers])

    async def crawl_world(self, products: int = 3) -> CrawlWorld:
        return await CrawlWorld(self.store, products=products).open(agents=12)

    async def crawled(self, products: int = 3) -> CrawlWorld:
        """A seller's products, read and delivered once."""
        crawl = await self.crawl_world(products)
        await crawl.crawl(ONE)
        await crawl.deliver_all()
        return crawl

    async def api_trail(self) -> list[AuditEntry]:
        """What was done through the API, newest first."""
        return await self.audit_trail("token:admin@practice")


__all__ = ["BAD_CURSORS", "KEYS", "NAME", "ONE", "SECRET", "TWO", "UNKNOWN_ID", "ApiWorld", "task_number"]
