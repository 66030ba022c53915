"""The last backup of the database, and its restores: a restored database does not know the versions sent since."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Annotated, Protocol

from sellerwatch.kernel.views import About, View
from sellerwatch.kernel.wording import error_text

_START_OF_FLOORS = datetime(2000, 1, 1, tzinfo=UTC)
_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class LastBackup:
    """The newest good backup that `db backup` made (`made_at` is None before the first), and the newest one that
    failed since."""

    made_at: datetime | None = None
    file: str | None = None
    bytes: int | None = None
    seconds: float | None = None
    revision: str | None = None
    failed_at: datetime | None = None
    error_code: str | None = None
    error_facts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class LastBackupView(View):
    """The newest good backup that `db backup` made, and the newest one that failed since."""

    made_at: Annotated[datetime | None, About("Null: none was made yet.")]
    file: Annotated[str | None, About(example="/var/backups/sellerwatch-2026-11-15.db")]
    bytes: Annotated[int | None, About("Its size.", 52_428_800)]
    seconds: Annotated[float | None, About("How long it took.", 1.4)]
    revision: Annotated[str | None, About("The schema in it.", "0018")]
    failed_at: Annotated[datetime | None, About("Null: the last one did not fail.")]
    problem: Annotated[str | None, About("Why it failed.")]

    @classmethod
    def of(cls, last: LastBackup | None, language: str) -> LastBackupView | None:
        if last is None:
            return None
        problem = None if last.error_code is None else error_text(last.error_code, last.error_facts, language)
        return cls(last.made_at, last.file, last.bytes, last.seconds, last.revision, last.failed_at, problem)


@dataclass(frozen=True)
class Restore:
    """A backup became the database. Versions of events go on above `version_floor`."""

    restored_at: datetime
    file: str
    version_floor: int


def version_floor_at(now: datetime) -> int:
    """Return a version that is above every one that was sent before `now`: the minutes since the year 2000.

    It holds because no product has an event a minute, over restores too: versions since the last restore began with the
    minutes then.
    """
    return (now - _START_OF_FLOORS) // _MINUTE


class Backups(Protocol):
    """What is known of backups and restores of this database."""

    def last(self) -> LastBackup | None:
        """Return the last backup; None where none was tried."""

    def save(self, last: LastBackup) -> None: ...

    def add_restore(self, restore: Restore) -> None: ...

    def version_floor(self) -> int:
        """Return the version above which events go on since the last restore; 0 where there was none."""


class BackupsTx(Protocol):
    @property
    def backups(self) -> Backups: ...
