"""An API over a real store and a simulated marketplace, on virtual doors."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from tests.builders import NOW, StoppedClock
from tests.simulation.stage import settings_of, simulator_of

from sellerwatch.access.passwords import PasswordHasher
from sellerwatch.adapters.passwords import Argon2Passwords
from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.compose.service import open_service
from sellerwatch.service.service import Service
from sellerwatch.simulator.receiver import SimulatedReceiver
from sellerwatch.simulator.simulator import Simulator
from sellerwatch.simulator.transport import SimulatedTransport
from sellerwatch.web.api.app import make_app
from sellerwatch.web.api.context import Parts
from sellerwatch.web.api.credentials import Credentials, Role

from .caller import Api

SECRET = "a secret of thirty-two characters or more"
KEYS = ("first-internal-key", "second-internal-key")


@dataclass(frozen=True)
class Office:
    """The API as an administrator, a viewer and nobody see it, and what is behind it."""

    admin: Api
    viewer: Api
    nobody: Api
    service: Service
    simulator: Simulator
    credentials: Credentials
    parts: Parts
    clock: StoppedClock

    def with_token(self, token: str) -> Api:
        return replace(self.nobody, token=token)

    def internal(self) -> dict[str, str]:
        return {"x-api-key": KEYS[0]}


@pytest.fixture
async def office(inline_store: SqlStore) -> AsyncIterator[Office]:
    settings = settings_of()
    simulator = simulator_of(settings, seed=1, sellers=2, products=12)
    clock = StoppedClock(NOW)
    transport, receiver = SimulatedTransport(simulator, clock), SimulatedReceiver(simulator, clock)
    async with open_service(
        settings,
        clock=clock,
        rng=random.Random(1),
        store=inline_store,
        transport=transport,
        receiver=receiver,
        schedules=False,
    ) as service:
        credentials = Credentials(SECRET, settings.jwt_issuer, settings.jwt_audience, KEYS)
        # Passwords that are hashed in a moment: how slow it is in earnest is no part of what is tested.
        passwords = PasswordHasher(Argon2Passwords(memory_kib=64, passes=1))
        parts = Parts(service, settings, credentials, passwords)
        app = make_app(parts)
        tokens = {role: credentials.issue(f"{role}@practice", role, timedelta(hours=1), NOW) for role in Role}
        yield Office(
            Api(app, tokens[Role.ADMIN]),
            Api(app, tokens[Role.VIEWER]),
            Api(app),
            service,
            simulator,
            credentials,
            parts,
            clock,
        )
