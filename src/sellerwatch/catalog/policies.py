"""Field policies: which differences are no change worth telling.

A policy decides whether an event is due, never what it says: once one is due, `changes` lists everything that differs
from what the receiver was last told. And since that is what states are compared with, many small steps inside a
tolerance add up until they are outside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sellerwatch.catalog.differences import Change
from sellerwatch.kernel.errors import Invalid

IGNORE = "ignore"


@dataclass(eq=False)
class InvalidPolicy(Invalid):
    """A field policy that cannot be followed."""

    policy: str
    problem: str


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Numbers may move by this much, in their own unit or in percent of the older one."""

    amount: float
    percent: bool

    def covers(self, change: Change) -> bool:
        before, after = change.before, change.after
        if not _is_number(before) or not _is_number(after):
            return False
        return bool(abs(after - before) <= (abs(before) * self.amount / 100 if self.percent else self.amount))


@dataclass(frozen=True, slots=True)
class Policies:
    """By field, members of lists without their number (`options[].stock`). A field given covers what is inside it."""

    by_field: Mapping[str, Tolerance | None]

    def matter(self, changes: Sequence[Change]) -> bool:
        """Whether any of these has to be told."""
        return any(not self._covers(change) for change in changes)

    def _covers(self, change: Change) -> bool:
        field = change.general_field
        for given, tolerance in self.by_field.items():
            if field == given or field.startswith((f"{given}.", f"{given}[")):
                return tolerance is None or tolerance.covers(change)
        return False


NO_POLICIES = Policies({})


def parse_policies(text: str) -> Policies:
    """`prices.rate=ignore, stock=2, prices.selling=1%`: ignored, or what a number may move by."""
    found: dict[str, Tolerance | None] = {}
    for each in filter(None, (part.strip() for part in text.split(","))):
        field, _, rule = (part.strip() for part in each.partition("="))
        if not field or not rule:
            raise InvalidPolicy(each, "it is written FIELD=ignore, FIELD=5 or FIELD=5%")
        found[field] = None if rule.lower() == IGNORE else _tolerance(each, rule)
    return Policies(found)


def _tolerance(policy: str, rule: str) -> Tolerance:
    try:
        amount = float(rule.removesuffix("%"))
    except ValueError:
        raise InvalidPolicy(policy, f"{rule} is neither ignore nor a number") from None
    if not 0 <= amount < float("inf"):
        raise InvalidPolicy(policy, f"{rule} is no number from 0")
    return Tolerance(amount, rule.endswith("%"))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
