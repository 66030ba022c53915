"""The status of the marketplace: what is paused, and which endpoints do not answer and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from sellerwatch.agents.marketplace_circuit import Endpoint, MarketplaceCircuit
from sellerwatch.agents.ports import AgentsTx, Pause
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.failure import Failure
from sellerwatch.kernel.failure_view import FailureView
from sellerwatch.kernel.ids import SellerId
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About, View
from sellerwatch.kernel.wording import failure_text


@dataclass(frozen=True)
class EndpointStatus:
    """`since`, `not_before` and `failure` are None while the circuit is closed. `not_before` is when the next probe can
    be sent or, while one is under way, until when its answer is awaited."""

    endpoint: Endpoint
    state: CircuitState
    since: datetime | None = None
    not_before: datetime | None = None
    failure: Failure | None = None

    @property
    def is_closed(self) -> bool:
        return self.state is CircuitState.CLOSED

    def reason(self, language: str) -> str | None:
        """Return the cause as a sentence."""
        return None if self.failure is None else failure_text(self.failure, language)


@dataclass(frozen=True)
class MarketplaceStatus:
    """`pause` stops all requests; `seller_pauses` those for one seller each. `endpoints` has every endpoint."""

    pause: Pause | None
    seller_pauses: tuple[Pause, ...]
    endpoints: tuple[EndpointStatus, ...]

    @property
    def is_paused(self) -> bool:
        return self.pause is not None

    @property
    def away(self) -> tuple[EndpointStatus, ...]:
        """Endpoints that do not answer."""
        return tuple(endpoint for endpoint in self.endpoints if not endpoint.is_closed)

    def pause_of(self, seller_id: SellerId) -> Pause | None:
        return next((pause for pause in self.seller_pauses if pause.seller_id == seller_id), None)


@dataclass(frozen=True)
class SellerPauseView(View):
    seller_id: Annotated[str, About(example="seller_12345")]
    paused_at: datetime
    paused_by: Annotated[str, About(example="api:minji@example")]


@dataclass(frozen=True)
class EndpointView(View):
    """While `state` is not CLOSED the endpoint gets no requests but one probe at `notBefore`, which checks whether it
    answers again. `reason` is the failure as a sentence in the caller's language."""

    endpoint: Annotated[Endpoint, About(example="detail")]
    state: Annotated[CircuitState, About(example="OPEN")]
    since: datetime | None
    reason: Annotated[str | None, About(example="The marketplace answered 503: an error on its side.")]
    failure: FailureView | None
    not_before: datetime | None


@dataclass(frozen=True)
class MarketplaceStatusView(View):
    """`paused`: all requests are stopped. `sellers`: those for these sellers are stopped."""

    paused: bool
    paused_by: Annotated[str | None, About(example="api:minji@example")]
    paused_at: datetime | None
    sellers: Sequence[SellerPauseView]
    circuits: Sequence[EndpointView]

    @classmethod
    def of(cls, status: MarketplaceStatus, language: str) -> MarketplaceStatusView:
        pause = status.pause
        return cls(
            paused=status.is_paused,
            paused_by=None if pause is None else pause.paused_by,
            paused_at=None if pause is None else pause.paused_at,
            sellers=[
                SellerPauseView(each.seller_id, each.paused_at, each.paused_by)
                for each in status.seller_pauses
                if each.seller_id is not None
            ],
            circuits=[
                EndpointView(
                    each.endpoint,
                    each.state,
                    each.since,
                    each.reason(language),
                    FailureView.of(each.failure),
                    each.not_before,
                )
                for each in status.endpoints
            ],
        )

    @property
    def away(self) -> Sequence[EndpointView]:
        """Endpoints that do not answer."""
        return [each for each in self.circuits if each.state is not CircuitState.CLOSED]


def show_marketplace(tx: AgentsTx, context: OperationContext) -> MarketplaceStatusView:
    """Show what is paused and by whom, and for each endpoint its circuit, since when, why, and the next probe."""
    return MarketplaceStatusView.of(marketplace_status(tx), context.language)


def marketplace_status(tx: AgentsTx) -> MarketplaceStatus:
    """Return what is paused and how each endpoint is; nothing is changed or locked."""
    pauses, circuits = tx.marketplace.pauses(), tx.marketplace.circuits()
    return MarketplaceStatus(
        pause=next((pause for pause in pauses if pause.seller_id is None), None),
        seller_pauses=tuple(pause for pause in pauses if pause.seller_id is not None),
        endpoints=tuple(_endpoint(circuits[endpoint]) for endpoint in Endpoint),
    )


def _endpoint(circuit: MarketplaceCircuit) -> EndpointStatus:
    if circuit.is_closed:
        return EndpointStatus(circuit.endpoint, circuit.state)
    return EndpointStatus(circuit.endpoint, circuit.state, circuit.since, circuit.not_before, circuit.failure)
