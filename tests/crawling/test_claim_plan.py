"""How many tasks a worker claims, and when."""

from __future__ import annotations

import pytest
from tests.crawling.worker_parts import a_claim, a_plan, a_result, claims_of, judged, some_claims

from sellerwatch.crawling.claim_ahead import ClaimPlan, Supply
from sellerwatch.crawling.worker_queues import BATCH_SIZE, RESULT_BUFFER, ClaimQueue, ResultQueue

SLOTS = 10
#: With what is claimed ahead of ten slots.
ALL = SLOTS + 4 * SLOTS


@pytest.fixture
def queues() -> tuple[ClaimQueue, ResultQueue]:
    return ClaimQueue(), ResultQueue()


@pytest.fixture
def plan(queues: tuple[ClaimQueue, ResultQueue]) -> ClaimPlan:
    return a_plan(*queues)


def begin_batch(results: ResultQueue) -> None:
    results.put(a_result(a_claim(999)), is_last=True)
    list(results.fill_batch(judged))


def test_an_idle_worker_claims_for_its_slots_and_ahead(plan: ClaimPlan) -> None:
    assert plan.wanted(SLOTS) == ALL


def test_one_slot_claims_nothing_ahead(plan: ClaimPlan) -> None:
    assert plan.wanted(1) == 1


def test_a_claim_with_a_batch_comes_at_half_of_what_was_claimed_ahead(
    plan: ClaimPlan, queues: tuple[ClaimQueue, ResultQueue]
) -> None:
    claims, _ = queues
    claims.put(some_claims(SLOTS + 2 * SLOTS))
    assert plan.wanted(SLOTS, with_absorb=True) == 0
    claims.remove(lambda claim: claim.permit.number == 1)
    assert plan.wanted(SLOTS, with_absorb=True) == 2 * SLOTS + 1


def test_a_claim_of_its_own_comes_later_than_one_with_a_batch(
    plan: ClaimPlan, queues: tuple[ClaimQueue, ResultQueue]
) -> None:
    claims, _ = queues
    claims.put(some_claims(SLOTS + 2 * SLOTS - 1))
    assert plan.wanted(SLOTS) == 0
    claims.remove(lambda claim: claim.permit.number > SLOTS + 4)
    assert plan.wanted(SLOTS) == ALL - SLOTS - 4


def test_where_a_claim_never_comes_with_a_batch_it_comes_at_half(queues: tuple[ClaimQueue, ResultQueue]) -> None:
    plan = a_plan(*queues, can_claim_with_absorb=False)
    queues[0].put(some_claims(SLOTS + 2 * SLOTS - 1))
    assert plan.wanted(SLOTS) == 2 * SLOTS + 1
    assert not plan.claims_with_absorb


def test_a_claim_is_bounded_by_batches(queues: tuple[ClaimQueue, ResultQueue]) -> None:
    assert a_plan(*queues).wanted(1000) == 2 * BATCH_SIZE
    assert a_plan(*queues, can_claim_with_absorb=False).wanted(1000) == BATCH_SIZE


def test_while_a_batch_is_absorbed_that_will_claim_nothing_else_claims(
    plan: ClaimPlan, queues: tuple[ClaimQueue, ResultQueue]
) -> None:
    plan.note(claims_of(some_claims(3)), 3)
    begin_batch(queues[1])
    assert plan.wanted(SLOTS) == 0
    assert plan.wanted(SLOTS, with_absorb=True) == ALL


def test_a_batch_that_will_not_claim_holds_no_claim_back(
    plan: ClaimPlan, queues: tuple[ClaimQueue, ResultQueue]
) -> None:
    begin_batch(queues[1])
    assert plan.wanted(SLOTS) == ALL
    plan.note(claims_of(some_claims(3)), 3)
    plan.claim_outcome_unknown = True
    assert plan.wanted(SLOTS) == ALL


def test_nothing_is_claimed_while_results_fill_their_buffer(
    plan: ClaimPlan, queues: tuple[ClaimQueue, ResultQueue]
) -> None:
    for claim in some_claims(RESULT_BUFFER):
        queues[1].put(a_result(claim), is_last=False)
    assert plan.wanted(SLOTS) == 0


def test_one_claim_at_a_time(plan: ClaimPlan) -> None:
    with plan.claiming():
        assert plan.wanted(SLOTS) == 0
    assert plan.wanted(SLOTS) == ALL


def test_after_a_failed_claim_its_outcome_is_unknown(plan: ClaimPlan) -> None:
    with pytest.raises(ValueError, match="lost"), plan.claiming():
        raise ValueError("lost")
    assert plan.claim_outcome_unknown
    assert not plan.claims_with_absorb
    assert plan.wanted(SLOTS) == ALL


def test_after_the_stop_nothing_is_claimed(plan: ClaimPlan) -> None:
    with plan.claiming():
        plan.stop()
    assert plan.wanted(SLOTS) == 0


@pytest.mark.parametrize(
    ("taken", "lacks_agents", "only_named", "supply"),
    [
        (3, False, False, Supply.MORE_AVAILABLE),
        (2, False, False, Supply.DRAINED),
        (2, True, False, Supply.UNKNOWN),
        (2, False, True, Supply.UNKNOWN),
    ],
)
def test_a_claim_of_three_shows_how_much_is_ready(
    plan: ClaimPlan, taken: int, lacks_agents: bool, only_named: bool, supply: Supply
) -> None:
    plan.note(claims_of(some_claims(taken), lacks_agents=lacks_agents), 3, only_named=only_named)
    assert (plan.supply, plan.rotation) == (supply, 1)


def test_a_task_is_in_hand_from_its_claim_until_its_result_is_committed(
    plan: ClaimPlan, queues: tuple[ClaimQueue, ResultQueue]
) -> None:
    claims, results = queues
    sent, waiting = some_claims(2)
    claims.put([sent, waiting])
    claims.start_next(lambda _: True)
    both = {sent.task.task_id, waiting.task.task_id}
    assert plan.tasks_in_hand() == both
    claims.finish(sent)
    results.put(a_result(sent), is_last=False)
    assert plan.tasks_in_hand() == both
    list(results.fill_batch(judged))
    assert plan.tasks_in_hand() == both
    results.commit()
    assert plan.tasks_in_hand() == {waiting.task.task_id}
