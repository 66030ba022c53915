"""EventBridge as the scheduler: one rule for each seller, changed through the scheduler outbox by idempotent calls.

A rule follows from its schedule alone, so it can be written again at any time, and compared (`differences`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import orjson

from sellerwatch.adapters.aws.client import INVALID, MISSING, Aws, AwsUnavailable
from sellerwatch.outbox.message import Message
from sellerwatch.outbox.receipt import DeliveryVerdict, Receipt
from sellerwatch.schedules.schedule import Schedule, ScheduleEventType, ScheduleStatus

PREFIX = "mustit-crawler-"
LONGEST = 64
TARGET_ID = "trigger"
#: API destinations give up after 5 s, and a 409 may be retried: three times, and not longer than it makes sense.
RETRIES = {"MaximumRetryAttempts": 3, "MaximumEventAgeInSeconds": 900}
PAGE = 100

_PLAIN = re.compile(r"[.\-_A-Za-z0-9]+")
_FOREIGN = re.compile(r"[^.\-_A-Za-z0-9]+")
_HASHED = re.compile(r".*\.[0-9a-f]{16}")


def rule_name(wanted: str) -> str:
    """Return a name that EventBridge accepts: the wanted one, else its readable beginning with its hash. A wanted name
    that looks like one with a hash gets a hash too, so that names stay unique."""
    if len(wanted) <= LONGEST and _PLAIN.fullmatch(wanted) and not _HASHED.fullmatch(wanted):
        return wanted
    digest = hashlib.sha256(wanted.encode()).hexdigest()[:16]
    return f"{_FOREIGN.sub('-', wanted)[: LONGEST - 17]}.{digest}"


@dataclass(frozen=True)
class Target:
    """What every rule starts: `POST /api/internal/crawling/trigger` behind an API destination or gateway."""

    arn: str
    role_arn: str | None = None

    def entry(self, given: str) -> dict[str, Any]:
        role = {} if self.role_arn is None else {"RoleArn": self.role_arn}
        return {"Id": TARGET_ID, "Arn": self.arn, "Input": given, "RetryPolicy": RETRIES, **role}


@dataclass(frozen=True)
class Rule:
    """A rule, as it should be or as it was found."""

    name: str
    expression: str
    enabled: bool
    #: None: it was not looked at, or there is none.
    target: dict[str, Any] | None = None


class RuleDifference(StrEnum):
    MISSING = "missing"
    EXTRA = "extra"
    EXPRESSION = "expression"
    STATE = "state"
    TARGET = "target"


@dataclass(frozen=True)
class RuleMismatch:
    """A rule that differs from its schedule. `wanted` is None for a rule without a schedule."""

    name: str
    differences: tuple[RuleDifference, ...]
    wanted: Rule | None


class EventBridge:
    """Receives the messages of the scheduler outbox, and compares and repairs rules."""

    def __init__(self, aws: Aws, target: Target) -> None:
        self._aws = aws
        self._target = target

    async def check(self) -> None:
        """Check that EventBridge answers and permits access."""
        await self._aws.call("events", "list_rules", NamePrefix=PREFIX, Limit=1)

    async def deliver(self, message: Message, now: datetime) -> Receipt:
        body = orjson.loads(message.payload)
        rule = Rule(rule_name(body["ruleName"]), body["scheduleExpression"], True, self._target.entry(body["input"]))
        try:
            match message.event_type:
                case ScheduleEventType.REGISTERED:
                    await self.put(rule)
                case ScheduleEventType.UPDATED:
                    await self._put_rule(rule)
                case ScheduleEventType.ACTIVATED:
                    await self._enable(rule)
                case ScheduleEventType.DEACTIVATED:
                    await self._disable(rule)
                case other:
                    return Receipt(DeliveryVerdict.REFUSED, None, f"EventBridge has nothing for {other}")
        except AwsUnavailable as refusal:
            verdict = DeliveryVerdict.REFUSED if refusal.reason in INVALID else DeliveryVerdict.RETRY
            return Receipt(verdict, None, str(refusal))
        return Receipt(DeliveryVerdict.DELIVERED)

    async def put(self, rule: Rule) -> None:
        """Write the rule and its target, whatever was there. The rule comes first: a target needs one."""
        await self._put_rule(rule)
        if rule.target is not None:
            response = await self._aws.call("events", "put_targets", Rule=rule.name, Targets=[rule.target])
            if response.get("FailedEntryCount"):
                failed = response["FailedEntries"][0]
                problem = f"it refused the target of {rule.name}: {failed.get('ErrorMessage', 'no reason given')}"
                raise AwsUnavailable(service="EventBridge", problem=problem, reason=str(failed.get("ErrorCode", "")))

    async def remove(self, name: str) -> None:
        try:
            await self._aws.call("events", "remove_targets", Rule=name, Ids=[TARGET_ID])
            await self._aws.call("events", "delete_rule", Name=name)
        except AwsUnavailable as refusal:
            if refusal.reason not in MISSING:
                raise

    async def rules(self) -> list[Rule]:
        """Return our rules with their targets."""
        found: list[Rule] = []
        given: dict[str, Any] = {"NamePrefix": PREFIX, "Limit": PAGE}
        while True:
            response = await self._aws.call("events", "list_rules", **given)
            for rule in response.get("Rules", ()):
                targets = await self._aws.call("events", "list_targets_by_rule", Rule=rule["Name"])
                target = next((one for one in targets.get("Targets", ()) if one.get("Id") == TARGET_ID), None)
                expression = str(rule.get("ScheduleExpression", ""))
                found.append(Rule(str(rule["Name"]), expression, rule.get("State") == "ENABLED", target))
            if not response.get("NextToken"):
                return found
            given["NextToken"] = response["NextToken"]

    def wanted(self, schedules: Iterable[Schedule]) -> list[Rule]:
        return [
            Rule(
                rule_name(schedule.rule),
                schedule.expression,
                _is_on(schedule),
                self._target.entry(orjson.dumps({"sellerId": schedule.seller_id}).decode()),
            )
            for schedule in schedules
        ]

    async def mend(self, drifted: RuleMismatch) -> None:
        if drifted.wanted is None:
            await self.remove(drifted.name)
        else:
            await self.put(drifted.wanted)

    async def _put_rule(self, rule: Rule) -> None:
        state = "ENABLED" if rule.enabled else "DISABLED"
        await self._aws.call("events", "put_rule", Name=rule.name, ScheduleExpression=rule.expression, State=state)

    async def _enable(self, rule: Rule) -> None:
        try:
            await self._aws.call("events", "enable_rule", Name=rule.name)
        except AwsUnavailable as refusal:
            if refusal.reason not in MISSING:
                raise
            # Somebody deleted it: it is made again.
            await self.put(rule)

    async def _disable(self, rule: Rule) -> None:
        try:
            await self._aws.call("events", "disable_rule", Name=rule.name)
        except AwsUnavailable as refusal:
            if refusal.reason not in MISSING:
                raise


def _is_on(schedule: Schedule) -> bool:
    """Return whether a schedule's rule is enabled. A FAILED schedule's is, if it has a next run."""
    return schedule.status is not ScheduleStatus.INACTIVE and schedule.next_run_at is not None


def differences(wanted: Sequence[Rule], found: Sequence[Rule]) -> list[RuleMismatch]:
    """Return the rules that differ, by name."""
    there = {rule.name: rule for rule in found}
    drifted = [RuleMismatch(rule.name, _between(rule, there.get(rule.name)), rule) for rule in wanted]
    names = {rule.name for rule in wanted}
    drifted += [RuleMismatch(name, (RuleDifference.EXTRA,), None) for name in there if name not in names]
    return sorted((one for one in drifted if one.differences), key=lambda one: one.name)


def _between(wanted: Rule, found: Rule | None) -> tuple[RuleDifference, ...]:
    if found is None:
        return (RuleDifference.MISSING,)
    compared = {
        RuleDifference.EXPRESSION: wanted.expression == found.expression,
        RuleDifference.STATE: wanted.enabled == found.enabled,
        RuleDifference.TARGET: wanted.target == found.target,
    }
    return tuple(difference for difference, same in compared.items() if not same)
