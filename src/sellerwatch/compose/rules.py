"""Translate settings into the rules of the features."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from pydantic import ValidationError

from sellerwatch.access.login_sessions import SessionLimits
from sellerwatch.agents.breaker import BreakerRules
from sellerwatch.agents.limits import Host, Limits, PoolRules
from sellerwatch.agents.marketplace_circuit import MarketplaceCircuitRules
from sellerwatch.catalog.differences import ChangeKind
from sellerwatch.catalog.policies import parse_policies
from sellerwatch.catalog.quarantine import DriftRules
from sellerwatch.catalog.removal import RemovalRules
from sellerwatch.compose.database import lost_permits
from sellerwatch.crawling.absorb_batch import CrawlRules
from sellerwatch.crawling.context import Tuning
from sellerwatch.kernel.backoff import Backoff
from sellerwatch.marketplaces.ports import Marketplace
from sellerwatch.outbox.rules import DeliveryRules
from sellerwatch.oversight.retention import RetentionRules
from sellerwatch.settings.model import TUNABLE, Settings


def session_limits(settings: Settings) -> SessionLimits:
    """Return how long log-ins are valid."""
    idle, longest, api = settings.session_idle_seconds, settings.session_seconds, settings.login_seconds
    return SessionLimits(timedelta(seconds=idle), timedelta(seconds=longest), timedelta(seconds=api))


def tuning_in_force(settings: Settings, overrides: Mapping[str, str]) -> Tuning:
    """Return the settings with an operator's changes; a changed value that is no longer valid is left out."""
    known = {name: value for name, value in overrides.items() if name in TUNABLE}
    try:
        changed = Settings.model_validate(settings.model_dump() | known)
    except ValidationError:
        changed = settings
    return Tuning(
        limits=Limits(
            window_limit=changed.window_limit,
            window=timedelta(seconds=changed.window_seconds),
            per_second=changed.requests_per_second,
            margin=timedelta(seconds=changed.departure_margin_seconds),
        ),
        host=Host(changed.host_concurrency, changed.host_requests_per_second),
        concurrency=min(changed.max_concurrency, changed.host_concurrency),
    )


def pool_rules(settings: Settings) -> PoolRules:
    """Return what commands and queries of the pool go by."""
    return PoolRules(
        breaker=breaker_rules(settings),
        suspension=timedelta(seconds=settings.agent_suspension_seconds),
        limits=lambda overrides: tuning_in_force(settings, overrides).limits,
        host=lambda overrides: tuning_in_force(settings, overrides).host,
        is_restored=lambda highest: lost_permits(settings, highest),
    )


def breaker_rules(settings: Settings) -> BreakerRules:
    return BreakerRules(
        min_percent=settings.breaker_min_available_percent,
        open_for=timedelta(seconds=settings.breaker_open_seconds),
    )


def crawl_rules(settings: Settings, marketplace: Marketplace) -> CrawlRules:
    """Return the rules of processing; commands that end runs or release held parts use the same."""
    exempt = (name.strip() for name in settings.quarantine_exempt.split(","))
    return CrawlRules(
        marketplace=marketplace,
        page_size=settings.page_size,
        max_list_total=settings.max_list_total,
        recheck_every=timedelta(seconds=settings.quarantine_recheck_seconds),
        task_retries=settings.task_retries,
        breaker=breaker_rules(settings),
        marketplace_circuit=MarketplaceCircuitRules(
            failures=settings.marketplace_circuit_failures,
            open_for=timedelta(seconds=settings.marketplace_circuit_open_seconds),
        ),
        drift=DriftRules(
            share=settings.quarantine_share_percent,
            products=settings.quarantine_products,
            exempt=frozenset(ChangeKind(name) for name in exempt if name),
        ),
        removal_rules=RemovalRules(share=settings.removal_share_percent, products=settings.removal_products),
        policies=parse_policies(settings.field_policies),
    )


def retention_rules(settings: Settings) -> RetentionRules:
    """Return how long rows are kept that nothing needs any more."""
    days = {
        "requests": settings.usage_log_days,
        "tokens": settings.token_retention_days,
        "circuit_events": settings.circuit_event_retention_days,
        "tasks": settings.task_retention_days,
        "audit": settings.audit_retention_days,
        "bodies": settings.raw_body_days,
        "events": settings.outbox_kept_days,
    }
    return RetentionRules(**{name: timedelta(days=number) for name, number in days.items()})


def delivery_rules(settings: Settings) -> DeliveryRules:
    return DeliveryRules(
        concurrency=settings.outbox_concurrency,
        max_attempts=settings.outbox_retries,
        interval=settings.outbox_interval_seconds,
        backoff=Backoff(settings.outbox_backoff_seconds, settings.outbox_backoff_max_seconds),
        grace=4.0,
        per_second=settings.outbox_requests_per_second,
        failures=settings.outbox_circuit_failures,
        probes=settings.outbox_probes,
        opened=Backoff(
            settings.outbox_circuit_open_seconds,
            max(settings.outbox_circuit_open_seconds, settings.outbox_interval_seconds),
        ),
    )
