"""`sellerwatch receiver`: says where it listens, what each request came to, and in the end what it found."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from tests.builders import NOW, outbox_id

from sellerwatch.outbox.event import ping_body

from .conftest import Run, clean_environment, refused


def test_it_reports_each_request_and_exits_with_1_when_a_rule_was_broken(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "sellerwatch", "receiver", "--port", "0", "--json"],
        cwd=tmp_path,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        told = json.loads(process.stdout.readline())
        assert (told["db"], told["signed"]) == ("received.db", False)
        connection = HTTPConnection(urlsplit(told["events"]).netloc, timeout=600)
        for key in (outbox_id(), "another"):
            connection.request("POST", "/events", ping_body(outbox_id(), NOW), {"Idempotency-Key": key})
            assert connection.getresponse().read() == b'{"received":true,"duplicate":false}'
        connection.request("GET", "/")
        summary = json.loads(connection.getresponse().read())
        connection.close()
        process.send_signal(signal.SIGTERM)
        first, second, last = map(json.loads, process.communicate(timeout=600)[0].splitlines())
    finally:
        process.kill()
    assert (first["eventType"], first["violations"]) == ("PING", [])
    assert second["violations"] == ["idempotency-key is another"]
    assert last == summary == {"products": 0, "events": {"PING": 2}, "duplicates": 0, "violations": 1}
    assert process.returncode == 1


def test_a_file_or_a_secret_that_cannot_be_used_is_one_sentence(run: Run, tmp_path: Path) -> None:
    assert "cannot be used" in refused(run("receiver", "--db", str(tmp_path)), 1)
    bad = refused(run("receiver", "--db", str(tmp_path / "x.db"), "--secret", "whsec_?"), 2)
    assert "must go on in base64" in bad
