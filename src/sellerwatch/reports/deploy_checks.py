"""What is unsafe to expose, as settings and files show it: the checks of the registry that need no database.

Errors are what nobody should run within reach of others; warnings are for the rest. Each finding names its setting,
what is wrong and how to mend it. `config check --deploy` shows all, and so does the log at a start on a public address;
there, errors need attention.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sellerwatch.kernel.wording import Problem
from sellerwatch.reports.severity import Severity

#: A secret with less than this can be guessed by who has something that it signed.
LEAST_BITS = 100
SHORTEST_SECRET = 32
_OTHERS = 0o007


@dataclass(frozen=True)
class Connection:
    """Another server. What goes to this machine itself stays in it."""

    setting: str
    host: str
    is_encrypted: bool
    is_here: bool


@dataclass(frozen=True, repr=False)
class ConfiguredSecret:
    setting: str
    value: str

    @property
    def bits(self) -> float:
        """Return how many bits an attacker must guess at most, by how often each character occurs."""
        counts, length = Counter(self.value), len(self.value)
        return -sum(number * math.log2(number / length) for number in counts.values())


@dataclass(frozen=True)
class PrivateFile:
    """A file with secrets. `is_ours`: this program made it."""

    setting: str
    path: str
    mode: int
    is_ours: bool


@dataclass(frozen=True)
class Deployment:
    """What the checks look at. `is_public`: the API listens on more than this machine."""

    is_public: bool
    has_trusted_proxies: bool
    is_receiver_unsigned: bool
    connections: Sequence[Connection] = ()
    secrets: Sequence[ConfiguredSecret] = ()
    files: Sequence[PrivateFile] = ()


@dataclass(frozen=True)
class UnsafeSetting:
    """A setting that should be mended before others can reach the service."""

    severity: Severity
    setting: str
    problem: Problem


def plaintext(deployment: Deployment) -> Iterator[UnsafeSetting]:
    for each in deployment.connections:
        if not each.is_encrypted and not each.is_here:
            problem = Problem(f"plaintext_{each.setting.lower()}", {"host": each.host})
            yield UnsafeSetting(Severity.ERROR, each.setting, problem)


def weak_secrets(deployment: Deployment) -> Iterator[UnsafeSetting]:
    for each in deployment.secrets:
        if len(each.value) < SHORTEST_SECRET or each.bits < LEAST_BITS:
            yield UnsafeSetting(
                Severity.ERROR, each.setting, Problem("weak_secret", {"command": "openssl rand -base64 32"})
            )


def front(deployment: Deployment) -> Iterator[UnsafeSetting]:
    if deployment.is_public and not deployment.has_trusted_proxies:
        yield UnsafeSetting(Severity.ERROR, "TRUSTED_PROXIES", Problem("no_front"))


def exposed_files(deployment: Deployment) -> Iterator[UnsafeSetting]:
    for each in deployment.files:
        if each.mode & _OTHERS:
            severity = Severity.ERROR if each.is_ours else Severity.WARNING
            problem = Problem("exposed_file", {"path": each.path, "mode": f"{each.mode:04o}"})
            yield UnsafeSetting(severity, each.setting, problem)


def unsigned(deployment: Deployment) -> Iterator[UnsafeSetting]:
    if deployment.is_receiver_unsigned:
        yield UnsafeSetting(Severity.WARNING, "PRODUCT_SERVER_SECRET", Problem("unsigned"))
