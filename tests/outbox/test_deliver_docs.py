"""docs/receiving-events.md: its verifier is run against what we really send, and its steps are followed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.event_contract import broken_rules
from tests.servers import free_port

from sellerwatch.adapters.http.signing import signature_header, signing_keys

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/receiving-events.md").read_text("utf-8")
NOW = 1_794_722_645
BODY = '{"이름":"셔츠"}'.encode()
IsGenuine = Callable[[dict[str, str], bytes, str, float], bool]


@pytest.fixture
def is_genuine() -> IsGenuine:
    (snippet,) = re.findall(r"^```python\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
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


def blocks(kind: str) -> list[str]:
    """The blocks of the walk through, without their indentation."""
    found = re.findall(rf"^   ```{kind}\n(.*?)^   ```", PAGE, re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(block) for block in found]


def files() -> dict[str, str]:
    """The files that the page says to save."""
    names = re.findall(r"^\d\. Save .*`([\w.]+)`", PAGE, re.MULTILINE)
    receiver, send = blocks("python")
    (event,) = blocks("json")
    made = {"receiver.py": receiver, "event.json": event, "send.py": send}
    assert names == list(made)
    return made


def test_the_example_is_an_event_of_its_schema() -> None:
    assert broken_rules(files()["event.json"]) == []


def test_the_receiver_of_the_page_is_the_example_that_is_run_with_faults() -> None:
    assert files()["receiver.py"] == (ROOT / "docs/examples/receivers/plain_receiver.py").read_text("utf-8")


def test_followed_to_the_letter_the_page_gives_a_working_receiver(tmp_path: Path) -> None:
    for name, text in files().items():
        (tmp_path / name).write_text(text, "utf-8")
    secret, start, send = blocks("sh")
    wait = "until (exec 3<>/dev/tcp/127.0.0.1/$PORT) 2>/dev/null; do kill -0 $!; sleep 0.05; done"
    script = f"set -e\n{secret}\n{start.strip()} &\ntrap 'kill %1' EXIT\n{wait}\n{send}"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"PATH": path, "PORT": str(free_port()), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True)  # noqa: PLW1510
    assert done.returncode == 0, done.stderr
    first, stored, again, same = done.stdout.splitlines()
    assert first == again == '200 {"received": "0198c0de-0000-7000-8005-000000000001"}'
    assert stored == same
    assert json.loads(stored) == {"900000001": json.loads(files()["event.json"])["productData"]}
