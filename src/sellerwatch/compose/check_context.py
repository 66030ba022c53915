"""What checks go by that is not in the database: settings, and what the process that looks can see."""

from __future__ import annotations

import os
from datetime import timedelta

from sellerwatch.compose.database import disk_left
from sellerwatch.compose.deployment import deployment_of, is_public
from sellerwatch.compose.rules import pool_rules
from sellerwatch.reports.service_state import CheckContext
from sellerwatch.settings.model import Settings

#: Intervals of the outbox after which a due event that was not sent is stuck.
INTERVALS = 3


def check_context_of(
    settings: Settings,
    *,
    has_receiver: bool | None = None,
    is_worker: bool = False,
    is_scheduler: bool = False,
    dead_letters: int | None = None,
) -> CheckContext:
    """Return the check_context by these settings. A disk that cannot be looked at counts as full."""
    try:
        left = disk_left(settings)
    except OSError:
        left = 0
    return CheckContext(
        pool=pool_rules(settings),
        has_receiver=settings.product_server_url is not None if has_receiver is None else has_receiver,
        page_size=settings.page_size,
        silent_after=timedelta(seconds=settings.visibility_seconds),
        longest_lag=timedelta(seconds=INTERVALS * settings.outbox_interval_seconds),
        is_worker=is_worker,
        is_scheduler=is_scheduler or settings.scheduler != "embedded",
        disk_left=left,
        dead_letters=dead_letters,
        backup_max_age=timedelta(days=settings.backup_max_age_days),
        deployment=deployment_of(settings, os.environ) if is_public(settings) else None,
    )
