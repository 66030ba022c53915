"""A service whose marketplace and product server are the simulator's, without sockets."""

from __future__ import annotations

import base64
import random
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from tests.simulated_receiver import SimulatedReceiver
from tests.simulated_transport import SimulatedTransport

from sellerwatch.adapters.sql.store import SqlStore
from sellerwatch.compose.service import open_service
from sellerwatch.kernel.clock import Clock
from sellerwatch.service.service import Service
from sellerwatch.settings.load import load
from sellerwatch.settings.model import Settings
from sellerwatch.simulator.simulator import Simulator

#: Limits that let a small crawl end within seconds; the limiter and the marketplace's judge go by the same.
QUICK: Mapping[str, float] = {"WINDOW_LIMIT": 80, "WINDOW_SECONDS": 10, "REQUESTS_PER_SECOND": 30}
KEY = f"test:{base64.b64encode(bytes(32)).decode()}"


def settings_of(**values: object) -> Settings:
    given = {
        "DATABASE_URL": "sqlite://",
        "TOKEN_KEYS": KEY,
        "AGENT_SUSPENSION_SECONDS": 5,
        "TENDING_INTERVAL_SECONDS": 1,
        "OUTBOX_BACKOFF_SECONDS": 1,
        "OUTBOX_CIRCUIT_OPEN_SECONDS": 1,
        **QUICK,
        **values,
    }
    return load({f"SELLERWATCH_{name}": str(value) for name, value in given.items()}).settings


def simulator_of(settings: Settings, **given: Any) -> Simulator:
    """A simulator that judges by the limits the service goes by."""
    judged = {
        "window_limit": settings.window_limit,
        "window_seconds": settings.window_seconds,
        "requests_per_second": settings.requests_per_second,
    }
    return Simulator(**{"detail_kb": 1, **judged, **given})


def simulated_service(
    settings: Settings, simulator: Simulator, clock: Clock, *, store: SqlStore | None = None
) -> AbstractAsyncContextManager[Service]:
    """Without its scheduler: a run starts when a test triggers it."""
    return open_service(
        settings,
        clock=clock,
        rng=random.Random(1),
        store=store,
        transport=SimulatedTransport(simulator, clock),
        receiver=SimulatedReceiver(simulator, clock),
        schedules=False,
    )
