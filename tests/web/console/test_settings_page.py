"""Limits at the console: changed and taken back after a question, and the audit entry of a change."""

from __future__ import annotations

import re

from .conftest import Console


async def test_a_limit_is_changed_and_taken_back_from_the_settings(console: Console) -> None:
    admin = console.admin
    assert 'href="/settings/limits/window_limit"' in (await admin.see("/settings")).text
    assert "Change the limit WINDOW_LIMIT?" in (await admin.see("/settings/limits/window_limit")).words
    changed = await admin.send("/settings/limits/window_limit", value="60")
    assert "WINDOW_LIMIT was changed." in changed.words
    assert 'href="/settings/limits/window_limit/unset"' in changed.text
    asked = await admin.see("/settings/limits/window_limit/unset")
    assert "default: 80." in asked.words
    assert "was undone" in (await admin.send("/settings/limits/window_limit/unset")).words
    refused = await admin.send("/settings/limits/window_limit", value="0")
    assert "WINDOW_LIMIT cannot be '0': input should be greater than 0." in refused.words


async def test_only_administrators_change_limits(console: Console) -> None:
    viewer = console.person("viewer")
    assert "/settings/limits/" not in (await viewer.see("/settings")).text
    assert (await viewer.see("/settings/limits/window_limit")).status == 403


async def test_an_audit_entry_has_a_page_of_its_own(console: Console) -> None:
    await console.admin.send("/settings/limits/window_limit", value="60")
    newest = re.findall(r'href="(/audit/[0-9]+)"', (await console.admin.see("/audit")).text)[0]
    entry = await console.admin.see(newest)
    assert "Before value : 80" in entry.words
    assert "After value : 60" in entry.words
    assert (await console.admin.see("/audit/999")).status == 404
