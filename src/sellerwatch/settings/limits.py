"""Limits that are changed while the service runs: their names, and refusals in one sentence."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sellerwatch.kernel.errors import Invalid
from sellerwatch.kernel.wording import Worded
from sellerwatch.settings.faults import Fault, InvalidSettings
from sellerwatch.settings.load import tuned
from sellerwatch.settings.model import PREFIX, TUNABLE, Settings
from sellerwatch.texts import say


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
    problem: Worded


@dataclass(frozen=True)
class _Why(Worded):
    """What is wrong with a value, without the value."""

    fault: Fault

    def text(self, language: str = "en") -> str:
        return replace(self.fault, value=None).problem_text(language)


@dataclass(frozen=True)
class TunableLimits:
    """The limits of these settings (the port `LimitSettings`). `origins` says where each setting is from, if known."""

    settings: Settings
    origins: Mapping[str, str] = field(default_factory=dict)

    @property
    def configured(self) -> Mapping[str, Any]:
        return {name: _whole(getattr(self.settings, name)) for name in TUNABLE}

    @property
    def taken_over_within(self) -> float:
        return min(self.settings.tending_interval_seconds, self.settings.visibility_seconds)

    def find(self, given: str) -> str:
        """Return the name of a limit, given in any case, with or without the prefix of the environment."""
        name = given.strip().lower().replace("-", "_").removeprefix(PREFIX.lower())
        if name in TUNABLE:
            return name
        if name in Settings.model_fields:
            raise FixedSetting(name=name.upper())
        near = difflib.get_close_matches(name, TUNABLE, n=1) or list(TUNABLE)
        raise UnknownLimit(given=given[:100], known=tuple(one.upper() for one in near))

    def in_force(self, overrides: Mapping[str, str]) -> Mapping[str, Any]:
        known = {name: value for name, value in overrides.items() if name in TUNABLE}
        return TunableLimits(tuned(self.settings, known)).configured

    def check(self, name: str, value: str, overrides: Mapping[str, str]) -> Any:
        try:
            return self.in_force({**overrides, name: value})[name]
        except InvalidSettings as invalid:
            if [fault.name for fault in invalid.faults] != [PREFIX + name.upper()]:
                raise
            raise InvalidLimit(name=name.upper(), value=value[:100], problem=_Why(invalid.faults[0])) from None

    def faults(self, overrides: Mapping[str, str], language: str) -> Mapping[str, str]:
        try:
            self.in_force(overrides)
        except InvalidSettings as invalid:
            return {fault.name: fault.problem_text(language) for fault in invalid.faults}
        return {}

    def origin(self, name: str) -> str:
        return self.origins.get(name, "default")

    def meaning(self, name: str, language: str) -> str:
        return say("settings", name, language)


def _whole(value: float | None) -> float | None:
    """Return 3600.0 as 3600, as a person wrote it: a default and a changed value look alike."""
    return int(value) if value is not None and value == int(value) else value
