"""Views of `aws setup` and of compared rules, and the schedules that rules are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import View
from sellerwatch.operations.ports import ServiceTx
from sellerwatch.schedules.schedule import Schedule

#: Schedules that are read at once.
BATCH = 500


class SetupResult(StrEnum):
    CREATED = "CREATED"
    UNCHANGED = "UNCHANGED"
    CHANGED = "CHANGED"
    REACHABLE = "REACHABLE"


@dataclass(frozen=True)
class AwsSetupStep:
    """What was done with one part of AWS; `attributes` are those that were changed."""

    what: str
    name: str
    result: SetupResult
    attributes: tuple[str, ...] = ()

    @property
    def did(self) -> str:
        return {
            SetupResult.CREATED: "made",
            SetupResult.UNCHANGED: "as it should be",
            SetupResult.CHANGED: f"changed ({', '.join(self.attributes)})",
            SetupResult.REACHABLE: "reachable; a rule is made with each seller",
        }[self.result]


@dataclass(frozen=True)
class AwsSetupStepView(View):
    """`did` is the same as `result` and `attributes`, as a text in English."""

    what: str
    name: str
    did: str
    result: SetupResult
    attributes: Sequence[str]


@dataclass(frozen=True)
class AwsSetupView(View):
    steps: Sequence[AwsSetupStepView]

    @classmethod
    def of(cls, steps: Sequence[AwsSetupStep]) -> AwsSetupView:
        return cls([AwsSetupStepView(each.what, each.name, each.did, each.result, each.attributes) for each in steps])


@dataclass(frozen=True)
class RuleDifferenceView(View):
    """A rule that differs from its schedule; `mended` unless it was a dry run."""

    rule: str
    differences: Sequence[str]
    mended: bool


@dataclass(frozen=True)
class ReconciledRulesView(View):
    """`wanted` is the number of rules there are to be."""

    wanted: int
    differ: Sequence[RuleDifferenceView]


def all_schedules(tx: ServiceTx, _: OperationContext) -> Sequence[Schedule]:
    """Return every schedule, from which the rules there are to be follow."""
    found: list[Schedule] = []
    while True:
        batch, total = tx.schedules.page(offset=len(found), limit=BATCH)
        found += batch
        if not batch or len(found) >= total:
            return found
