"""docs/receiving-events.md: its verifier is run against what we really send."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sellerwatch.adapters.http.signing import signature_header, signing_keys
from sellerwatch.outbox.event import read_event

PAGE = (Path(__file__).parents[2] / "docs/receiving-events.md").read_text("utf-8")
NOW = 1_794_722_645
BODY = '{"이름":"셔츠"}'.encode()
IsGenuine = Callable[[dict[str, str], bytes, str, float], bool]


@pytest.fixture
def is_genuine() -> IsGenuine:
    (snippet,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    found: dict[str, IsGenuine] = {}
    exec(compile(snippet, "receiving-events.md", "exec"), found)  # noqa: S102 - our own page
    return found["is_genuine"]


def headers(secrets: str, body: bytes = BODY) -> dict[str, str]:
    keys = signing_keys(secrets)
    return {
        "webhook-id": "event-1",
        "webhook-timestamp": str(NOW),
        "webhook-signature": signature_header(keys, "event-1", NOW, body),
    }


@pytest.mark.parametrize("secret", ["plain-secret", "whsec_c2VjcmV0"])
def test_the_verifier_takes_what_we_sign(is_genuine: IsGenuine, secret: str) -> None:
    assert is_genuine(headers(secret), BODY, secret, NOW + 10)


def test_the_verifier_takes_either_secret_while_it_is_rotated(is_genuine: IsGenuine) -> None:
    sent = headers("new old")
    assert is_genuine(sent, BODY, "new", NOW)
    assert is_genuine(sent, BODY, "old", NOW)


def test_the_verifier_refuses_what_is_not_ours_changed_or_old(is_genuine: IsGenuine) -> None:
    sent = headers("secret")
    assert not is_genuine(sent, BODY, "another", NOW)
    assert not is_genuine(sent, BODY + b" ", "secret", NOW)
    assert not is_genuine(sent, BODY, "secret", NOW + 301)
    assert not is_genuine({**sent, "webhook-id": "event-2"}, BODY, "secret", NOW)
    assert not is_genuine({}, BODY, "secret", NOW)


def test_the_example_is_an_event() -> None:
    (example,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert read_event(json.dumps(json.loads(example))).version == 2
