"""Decide how many tasks a worker claims, and when."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto

from sellerwatch.crawling.claim import Claims
from sellerwatch.crawling.worker_queues import BATCH_SIZE, ClaimQueue, ResultQueue
from sellerwatch.kernel.ids import TaskId

#: Claimed ahead for each slot, up to a batch; up to two where claims are made with batches, since one must last
#: until the next is committed.
CLAIMS_AHEAD_PER_SLOT = 4


class Supply(Enum):
    """What the last claim showed of the tasks that are ready."""

    UNKNOWN = auto()
    #: It got all that it asked for.
    MORE_AVAILABLE = auto()
    #: It got every task that was ready. Only an absorbed result, a nudge or time can bring more.
    DRAINED = auto()


class ClaimPlan:
    """Decides how many tasks to claim, and keeps what the decision goes by. One claim is made at a time."""

    def __init__(self, claims: ClaimQueue, results: ResultQueue, *, can_claim_with_absorb: bool) -> None:
        """`can_claim_with_absorb`: nothing has to be asked over the network before a claim."""
        self._claims = claims
        self._results = results
        self._can_claim_with_absorb = can_claim_with_absorb
        #: Which run comes first in the next claim.
        self.rotation = 0
        self.supply = Supply.UNKNOWN
        #: A claim failed and may have been committed, or claims went back unsent: the database may hold tasks for this
        #: worker that it does not know.
        self.claim_outcome_unknown = False
        self.is_stopped = False
        self._is_claiming = False

    @property
    def claims_with_absorb(self) -> bool:
        """Whether the next claim may be part of a batch. Putting back unknown claims takes a transaction of its own."""
        return self._can_claim_with_absorb and not self.claim_outcome_unknown

    @property
    def most(self) -> int:
        """The largest number of tasks to claim at a time."""
        return 2 * BATCH_SIZE if self._can_claim_with_absorb else BATCH_SIZE

    def wanted(self, slots: int, *, with_absorb: bool = False) -> int:
        """Return how many tasks to claim now.

        With a batch, claim once half of what was claimed ahead is sent. A claim of its own comes when that was not
        possible or came too late, and not while a batch is being absorbed that claims as well.
        """
        waits_for_batch = (
            not with_absorb
            and self.claims_with_absorb
            and self.supply is Supply.MORE_AVAILABLE
            and bool(self._results.batch)
        )
        if self._is_claiming or self.is_stopped or waits_for_batch or self._results.is_full:
            return 0
        ahead = min(CLAIMS_AHEAD_PER_SLOT * slots, self.most) if slots > 1 else 0
        lacking = slots + ahead - len(self._claims)
        left = ahead // 2 if with_absorb or not self._can_claim_with_absorb else ahead // 8
        return min(lacking, self.most) if lacking > ahead - left else 0

    @contextmanager
    def claiming(self) -> Iterator[None]:
        """Refuse other claims meanwhile. After an error it is not known whether the claim was committed."""
        self._is_claiming = True
        try:
            yield
        except BaseException:
            self.claim_outcome_unknown = True
            raise
        finally:
            self._is_claiming = False

    def stop(self) -> None:
        """Claim nothing from now on."""
        self.is_stopped = True

    def note(self, claims: Claims, wanted: int, *, only_named: bool = False) -> None:
        """Keep what a committed claim showed. One of tasks that messages named shows nothing of the others."""
        self.rotation += 1
        if len(claims.taken) == wanted:
            self.supply = Supply.MORE_AVAILABLE
        elif claims.lacks_agents or only_named:
            self.supply = Supply.UNKNOWN
        else:
            self.supply = Supply.DRAINED

    def tasks_in_hand(self) -> set[TaskId]:
        """Return the tasks that this worker holds, from their claim until their result is committed."""
        return {*self._claims.task_ids, *self._results.task_ids}
