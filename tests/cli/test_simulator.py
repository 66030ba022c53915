"""`sellerwatch simulator`: says where it listens, answers, ends when told, and refuses in one sentence."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path

import pytest

from .conftest import Run, clean_environment, refused


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_listens_answers_and_ends_cleanly_when_told(tmp_path: Path, end: signal.Signals) -> None:
    command = [sys.executable, "-m", "sellerwatch", "simulator", "--port", "0", "--sellers", "2", "--products", "3"]
    process = subprocess.Popen(
        [*command, "--json"],
        cwd=tmp_path,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        said = ""
        while not said.endswith("}\n"):
            line = process.stdout.readline()
            assert line, process.communicate()
            said += line
        facts = json.loads(said)
        assert (facts["sellers"], facts["products"], facts["profile"]) == (2, 6, "calm")
        asked = HTTPConnection(facts["marketplace"].removeprefix("http://"), timeout=600)
        asked.request("GET", "/", headers={"User-Agent": "Mozilla/5.0 (tests)"})
        answer = asked.getresponse()
        cookies = [cookie.partition("=")[0] for cookie in answer.headers.get_all("set-cookie", [])]
        asked.close()
        assert (answer.status, "token" in cookies) == (200, True)
    finally:
        process.send_signal(end)
        rest, errors = process.communicate(timeout=600)
    assert (process.returncode, rest, errors) == (0, "", "")


def test_a_used_port_is_one_sentence(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused(run("simulator", "--port", str(port), "--products", "1"), 1)
    assert said == f"127.0.0.1:{port} is already in use; stop the program that listens there, or choose another port."


def test_an_address_that_is_not_ours_is_one_sentence(run: Run) -> None:
    said = refused(run("simulator", "--host", "192.0.2.1", "--port", "0", "--products", "1"), 1)
    assert said.startswith("Cannot listen on 192.0.2.1:0: ")


def test_an_unknown_profile_is_answered_with_those_there_are(run: Run) -> None:
    said = refused(run("simulator", "--profile", "nonsense"), 2)
    assert "'nonsense'" in said
    assert "calm" in said
    assert "hostile" in said


@pytest.mark.parametrize("arguments", [("--port", "many"), ("--sellers", "0")], ids=" ".join)
def test_a_bad_number_is_bad_usage(run: Run, arguments: tuple[str, str]) -> None:
    done = run("simulator", *arguments)
    assert done.returncode == 2
    assert f"Invalid value for '{arguments[0]}'" in done.stderr
