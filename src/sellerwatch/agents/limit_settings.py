"""The limits that can be changed while the service runs, as commands and queries see the settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class LimitSettings(Protocol):
    """What the environment, the file and the defaults say of the limits, and what they allow."""

    @property
    def configured(self) -> Mapping[str, Any]:
        """Each limit by its name in lower case, as it is without changes made while the service runs."""

    @property
    def taken_over_within(self) -> float:
        """The seconds after which running services go by a change."""

    def find(self, given: str) -> str:
        """Return a limit's name in lower case; refuse the name of none."""

    def in_force(self, overrides: Mapping[str, str]) -> Mapping[str, Any]:
        """Return all limits with these changes; refuse changes that are wrong."""

    def check(self, name: str, value: str, overrides: Mapping[str, str]) -> Any:
        """Return the value of a limit that is to be changed to `value`; refuse it in one sentence."""

    def faults(self, overrides: Mapping[str, str], language: str) -> Mapping[str, str]:
        """Return what is wrong with these changes by the name of the setting."""

    def origin(self, name: str) -> str:
        """Return where the configured value is from: `environment`, `file` or `default`."""

    def meaning(self, name: str, language: str) -> str:
        """Return what a limit means."""
