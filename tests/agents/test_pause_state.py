"""What a process knows of pauses, before every request that leaves."""

from __future__ import annotations

from tests.builders import NOW, seller_id

from sellerwatch.agents.ports import Pause
from sellerwatch.crawling.context import PauseState
from sellerwatch.kernel.ids import SellerId

ONE, TWO = seller_id(1), seller_id(2)


def paused(*sellers: SellerId | None) -> list[Pause]:
    return [Pause(seller, NOW, "cli:minji") for seller in sellers]


def test_nothing_is_stopped_before_something_is_paused() -> None:
    assert not PauseState().stops(ONE)


def test_a_pause_of_everything_stops_every_seller() -> None:
    state = PauseState()
    assert state.take(paused(None))
    assert (state.everything, state.stops(ONE), state.stops(TWO)) == (True, True, True)


def test_a_pause_of_a_seller_stops_that_one_alone() -> None:
    state = PauseState()
    assert state.take(paused(ONE))
    assert (state.everything, state.stops(ONE), state.stops(TWO)) == (False, True, False)


def test_only_a_new_pause_is_reported_so_that_work_at_hand_goes_back_once() -> None:
    state = PauseState()
    assert state.take(paused(ONE))
    assert not state.take(paused(ONE))
    assert state.take(paused(ONE, TWO))
    assert state.take(paused(None, ONE))
    assert not state.take([])


def test_what_is_resumed_is_stopped_no_longer() -> None:
    state = PauseState()
    state.take(paused(None, ONE))
    state.take(paused(ONE))
    assert (state.stops(ONE), state.stops(TWO)) == (True, False)
    state.take([])
    assert not state.stops(ONE)
