"""Limits that are changed while the service runs: their names, and refusals in one sentence."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sellerwatch.kernel.errors import Invalid
from sellerwatch.settings.faults import InvalidSettings
from sellerwatch.settings.model import PREFIX, TUNABLE, Settings

#: All limits that would hold with these overrides; refuses what is wrong.
InForce = Callable[[Mapping[str, str]], Mapping[str, Any]]


@dataclass(eq=False)
class UnknownLimit(Invalid):
    """There is no limit of that name; `known` are the nearest names, or all."""

    given: str
    known: tuple[str, ...]


@dataclass(eq=False)
class FixedSetting(Invalid):
    """A setting that is read once, when the service starts."""

    name: str


@dataclass(eq=False)
class InvalidLimit(Invalid):
    """A value that the settings as a whole do not allow."""

    name: str
    value: str
    problem: str


def limit_name(given: str) -> str:
    """Return a limit's name, given in any case, with or without the prefix of the environment."""
    name = given.strip().lower().replace("-", "_").removeprefix(PREFIX.lower())
    if name in TUNABLE:
        return name
    if name in Settings.model_fields:
        raise FixedSetting(name=name.upper())
    near = difflib.get_close_matches(name, TUNABLE, n=1) or list(TUNABLE)
    raise UnknownLimit(given=given[:100], known=tuple(one.upper() for one in near))


def limit_checked(name: str, value: str, in_force: InForce) -> InForce:
    """Return `in_force` with the new value; refuse it in one sentence where it alone is at fault."""

    def check(overrides: Mapping[str, str]) -> Mapping[str, Any]:
        try:
            return in_force(overrides)
        except InvalidSettings as invalid:
            if [fault.name for fault in invalid.faults] != [PREFIX + name.upper()]:
                raise
            problem = invalid.faults[0].problem.partition(" (it is")[0]
            raise InvalidLimit(name=name.upper(), value=value[:100], problem=problem) from None

    return check
