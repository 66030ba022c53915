"""Field policies: differences that are not worth an event.

A policy decides whether an event is due, never what it contains: once one is due, its `changes` are all differences
from the last event. Since states are compared with the last event, many small steps within a tolerance add up until
they exceed it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sellerwatch.catalog.differences import Change
from sellerwatch.kernel.errors import Invalid

IGNORE = "ignore"


@dataclass(eq=False)
class InvalidPolicy(Invalid):
    """A field policy that is not valid."""

    policy: str
    problem: str


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a number may move, in its own unit or in percent of the older value."""

    amount: float
    percent: bool

    def covers(self, change: Change) -> bool:
        before, after = change.before, change.after
        if not _is_number(before) or not _is_number(after):
            return False
        return bool(abs(after - before) <= (abs(before) * self.amount / 100 if self.percent else self.amount))


@dataclass(frozen=True, slots=True)
class Policies:
    """Policies by field, without option numbers (`options[].stock`). A field covers the fields inside it."""

    by_field: Mapping[str, Tolerance | None]

    def matter(self, changes: Sequence[Change]) -> bool:
        """Return whether any of these changes is worth an event."""
        return any(not self._covers(change) for change in changes)

    def _covers(self, change: Change) -> bool:
        field = change.general_field
        for given, tolerance in self.by_field.items():
            if field == given or field.startswith((f"{given}.", f"{given}[")):
                return tolerance is None or tolerance.covers(change)
        return False


NO_POLICIES = Policies({})


def parse_policies(text: str) -> Policies:
    """Read `prices.rate=ignore, stock=2, prices.selling=1%`: fields to ignore, or how far a number may move."""
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
