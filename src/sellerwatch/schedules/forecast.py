"""When would each run finish: runs to come, played through minute by minute against what the pool may ask.

An estimate, as the outlook is: sizes are those of the last run, agents stay as they are, nothing is asked twice and no
answer takes long. Agents begin with what their windows have left now; what is used by now comes back evenly.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sellerwatch.agents.agent import AgentStatus
from sellerwatch.agents.agent_status import AgentDetails
from sellerwatch.agents.limits import Host, Limits
from sellerwatch.schedules.outlook import Due

DAY = timedelta(days=1)
STEP = timedelta(minutes=1)
#: What has not finished by then does not finish.
LONGEST = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Budget:
    """What the available agents may ask together: `slots` in any window (`left` of them free now), and `per_second`."""

    agents: int
    slots: int
    left: int
    window: timedelta
    per_second: float

    @classmethod
    def of(cls, standings: Sequence[AgentDetails], limits: Limits, host: Host) -> Budget:
        able = [one.window for one in standings if one.agent.status is AgentStatus.AVAILABLE]
        slots, left = sum(window.limit for window in able), sum(window.left for window in able)
        return cls(len(able), slots, left, limits.window, _rate(len(able), limits, host))

    @classmethod
    def of_so_many(cls, agents: int, limits: Limits, host: Host) -> Budget:
        """Return the forecast for another number of agents, all of them rested."""
        slots = agents * limits.window_limit
        return cls(agents, slots, slots, limits.window, _rate(agents, limits, host))

    def rested(self) -> Budget:
        return replace(self, left=self.slots)

    def within(self, time: timedelta) -> int:
        """In the long run."""
        return int(min(self.slots * (time / self.window), self.per_second * time.total_seconds()))


def _rate(agents: int, limits: Limits, host: Host) -> float:
    rate = agents * 1_000_000 / limits.spacing_us
    return rate if host.per_second is None else min(rate, host.per_second)


def agents_needed(requests_a_day: float, limits: Limits) -> int:
    """How many agents may ask that much, whatever the marketplace as a whole may be asked."""
    return -(-int(requests_a_day) // max(1, Budget.of_so_many(1, limits, Host()).within(DAY)))


@dataclass(frozen=True, slots=True)
class Finish:
    """`at` is None for a run that would not end within a week."""

    run: Due
    at: datetime | None


def finishes(runs: Sequence[Due], budget: Budget, now: datetime) -> list[Finish]:
    """Runs that are going on share what there is, as the service does it; in the order they were given."""
    ends: dict[int, datetime] = {}
    waiting = deque(sorted(range(len(runs)), key=lambda number: runs[number].at))
    left: dict[int, int] = {}
    flow = _Flow(budget)
    for minute in range(1, LONGEST // STEP + 1):
        until = now + minute * STEP
        while waiting and runs[waiting[0]].at < until:
            number = waiting.popleft()
            left[number] = runs[number].requests
        room = flow.room()
        spent = 0
        # The smallest first: what it does not need of its share is for the others.
        for place, number in enumerate(sorted(left, key=left.__getitem__)):
            share = min(left[number], -(-(room - spent) // (len(left) - place)))
            spent += share
            left[number] -= share
        flow.spend(spent)
        ends |= dict.fromkeys((number for number, requests in left.items() if not requests), until)
        left = {number: requests for number, requests in left.items() if requests}
        if not left and not waiting:
            break
    return [Finish(run, ends.get(number)) for number, run in enumerate(runs)]


class _Flow:
    """The pool's slots over time: each comes back one window after it was used."""

    def __init__(self, budget: Budget) -> None:
        self._most = budget.per_second * STEP.total_seconds()
        self._steps = max(1, round(budget.window / STEP))
        # A window shorter than a step is used more than once in it.
        self._free = budget.left if budget.window > STEP else budget.within(STEP)
        used = budget.slots - budget.left if budget.window > STEP else 0
        self._used = deque(used * (step + 1) // self._steps - used * step // self._steps for step in range(self._steps))

    def room(self) -> int:
        """Of the next step."""
        self._free += self._used.popleft()
        return int(min(self._most, self._free))

    def spend(self, number: int) -> None:
        self._used.append(number)
        self._free -= number
