"""What holds without settings is what the settings say by default: no test may go by other numbers than the product."""

from __future__ import annotations

from sellerwatch.catalog.quarantine import DriftRules
from sellerwatch.compose.rules import crawl_rules, delivery_rules
from sellerwatch.outbox.rules import DeliveryRules
from sellerwatch.settings.load import load


def test_rules_of_delivery_are_those_of_the_settings() -> None:
    by_default, by_settings = DeliveryRules(), delivery_rules(load({}).settings)
    for name in ("concurrency", "max_attempts", "interval", "per_second", "failures", "probes"):
        assert getattr(by_default, name) == getattr(by_settings, name), name


def test_rules_of_the_quarantine_are_those_of_the_settings() -> None:
    assert DriftRules() == crawl_rules(load({}).settings, None).drift  # type: ignore[arg-type]
