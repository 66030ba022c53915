"""The whole simulator: one world, the marketplace that shows it, and the product server that should come to equal
it."""

from collections.abc import Collection

from sellerwatch.simulator.chaos import PROFILES
from sellerwatch.simulator.control import CONTROL_PREFIX, Control
from sellerwatch.simulator.limits import SimulatedLimits
from sellerwatch.simulator.marketplace import SimulatedMarketplace
from sellerwatch.simulator.product_server import Mismatch, ProductServer
from sellerwatch.simulator.rng import seeded_rng
from sellerwatch.simulator.wire import SimulatedAnswer, SimulatedRequest
from sellerwatch.simulator.world import World

EVENTS_PATH = "/product-server/events"


class Simulator:
    """Everything at one address: the marketplace at `/`, the product server at `/product-server/events`, and the
    simulator's control API under `/__simulator__/`.

    Call `answer` in process, with a virtual time if you like, or serve it with `http.serve`. `products` is per seller.
    The same arguments and the same requests at the same times give the same answers.
    """

    def __init__(
        self,
        *,
        seed: int | str = 0,
        sellers: int = 3,
        products: int = 100,
        profile: str = "calm",
        latency_ms: float | None = None,
        detail_kb: int | None = None,
        random_text: bool = False,
        volatile: bool = True,
        window_limit: int = 80,
        window_seconds: float = 3600.0,
        requests_per_second: float | None = 1.0,
        secret: str | Collection[str] | None = None,
    ) -> None:
        day = PROFILES.get(profile)
        if day is None:
            raise ValueError(f"no chaos profile {profile!r}; there are {', '.join(PROFILES)}")
        if latency_ms is not None:
            day = day.with_latency(latency_ms)
        limits = SimulatedLimits(window_limit, window_seconds, requests_per_second)
        self.world = World(seed, sellers, products, detail_kb, random_text)
        self.marketplace = SimulatedMarketplace(self.world, day, limits, seed, volatile)
        self.product_server = ProductServer(secret, seed)
        self._control = Control(self.marketplace, self.product_server, latency_ms)

    def answer(self, request: SimulatedRequest, now: float) -> SimulatedAnswer:
        """Answer a request that arrived at `now`: Unix seconds that never go back."""
        if request.path == EVENTS_PATH:
            return self.product_server.answer(request, now)
        if request.path.startswith(CONTROL_PREFIX):
            return self._control.answer(request, now)
        return self.marketplace.answer(request, now)

    def mutate(self, count: int, seed: int | str = 0) -> int:
        """Apply a realistic mix of changes to `count` products; return how many were changed."""
        return len(self.world.mutate(count, seeded_rng(seed)))

    def compare(self, sellers: Collection[str] | None = None) -> list[Mismatch]:
        """Return where the product server's catalogue differs from the truth."""
        return self.product_server.compare(self.world, sellers)
