"""The state of the marketplace as people see it: what is paused, and which endpoints do not answer and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from sellerwatch.agents.endpoints import Endpoint
from sellerwatch.agents.marketplace_circuit import MarketplaceCircuit
from sellerwatch.agents.ports import AgentsTx, Pause
from sellerwatch.kernel.circuit import CircuitState
from sellerwatch.kernel.clock import stamp
from sellerwatch.kernel.failure import Failure
from sellerwatch.kernel.failure_view import FailureView
from sellerwatch.kernel.ids import SellerId
from sellerwatch.kernel.views import About, View
from sellerwatch.kernel.wording import failure_text


@dataclass(frozen=True)
class EndpointStatus:
    """`since`, `not_before` and `failure` are None while the circuit is closed. `not_before` is when the next probe may
    leave or, while one is on its way, until when its answer is waited for."""

    endpoint: Endpoint
    state: CircuitState
    since: datetime | None = None
    not_before: datetime | None = None
    failure: Failure | None = None

    @property
    def is_closed(self) -> bool:
        return self.state is CircuitState.CLOSED

    def reason(self, language: str) -> str | None:
        """The cause as a sentence."""
        return None if self.failure is None else failure_text(self.failure, language)

    def as_json(self, language: str) -> dict[str, Any]:
        return {
            "endpoint": self.endpoint.value,
            "state": self.state.value,
            "since": _stamp(self.since),
            "reason": self.reason(language),
            "failure": None if self.failure is None else _failure(self.failure),
            "notBefore": _stamp(self.not_before),
        }


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

    def as_json(self, language: str) -> dict[str, Any]:
        """As the API and `--json` show it; sentences in that language."""
        return {
            "paused": self.is_paused,
            "pausedBy": None if self.pause is None else self.pause.paused_by,
            "pausedAt": None if self.pause is None else _stamp(self.pause.paused_at),
            "sellers": [
                {"sellerId": pause.seller_id, "pausedAt": _stamp(pause.paused_at), "pausedBy": pause.paused_by}
                for pause in self.seller_pauses
            ],
            "circuits": [endpoint.as_json(language) for endpoint in self.endpoints],
        }


@dataclass(frozen=True)
class EndpointView(View):
    """An endpoint's circuit. While it is closed, `since`, `reason`, `failure` and `notBefore` are null."""

    endpoint: Endpoint
    state: CircuitState
    since: datetime | None
    reason: Annotated[str | None, About("The cause as a sentence in the caller's language.")]
    failure: FailureView | None
    not_before: Annotated[datetime | None, About("When the next probe may be sent.")]

    @classmethod
    def of(cls, endpoint: EndpointStatus, language: str) -> EndpointView:
        return cls(
            endpoint=endpoint.endpoint,
            state=endpoint.state,
            since=endpoint.since,
            reason=endpoint.reason(language),
            failure=FailureView.of(endpoint.failure),
            not_before=endpoint.not_before,
        )


@dataclass(frozen=True)
class PausedSellerView(View):
    """A seller whose requests a person paused."""

    seller_id: str
    paused_at: datetime
    paused_by: str


@dataclass(frozen=True)
class MarketplaceStatusView(View):
    """What is paused and by whom, and the circuit of each endpoint."""

    paused: Annotated[bool, About("All requests are paused.")]
    paused_by: str | None
    paused_at: datetime | None
    sellers: Sequence[PausedSellerView]
    circuits: Sequence[EndpointView]

    @classmethod
    def of(cls, status: MarketplaceStatus, language: str) -> MarketplaceStatusView:
        pause = status.pause
        return cls(
            paused=pause is not None,
            paused_by=None if pause is None else pause.paused_by,
            paused_at=None if pause is None else pause.paused_at,
            sellers=[
                PausedSellerView(each.seller_id or "", each.paused_at, each.paused_by) for each in status.seller_pauses
            ],
            circuits=[EndpointView.of(endpoint, language) for endpoint in status.endpoints],
        )

    @property
    def away(self) -> Sequence[EndpointView]:
        """Endpoints that do not answer."""
        return [each for each in self.circuits if each.state is not CircuitState.CLOSED]


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


def _failure(failure: Failure) -> dict[str, Any]:
    return {
        "code": failure.code.value,
        "blame": failure.blame.value,
        "facts": failure.facts_by_name,
        "at": _stamp(failure.at),
    }


def _stamp(time: datetime | None) -> str | None:
    return None if time is None else stamp(time)
