"""What is paused, in memory: looked at before every departure, refreshed from the database at least every second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sellerwatch.agents.ports import Pause
from sellerwatch.kernel.ids import SellerId


@dataclass
class PauseState:
    """Requests that a person has stopped: all of them, or those for some sellers."""

    everything: bool = False
    sellers: frozenset[SellerId] = field(default_factory=frozenset)

    def stops(self, seller_id: SellerId) -> bool:
        return self.everything or seller_id in self.sellers

    def take(self, pauses: Sequence[Pause]) -> bool:
        """Take over what the database says; True where something is paused that was not."""
        was = self.everything, self.sellers
        self.everything = any(pause.seller_id is None for pause in pauses)
        self.sellers = frozenset(pause.seller_id for pause in pauses if pause.seller_id is not None)
        return (self.everything and not was[0]) or bool(self.sellers - was[1])
