"""`sellerwatch serve` as somebody outside meets it: the first start, the page's own examples, and the stop."""

from __future__ import annotations

import json
import re
import shlex
import signal
from collections.abc import Mapping
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

from tests.faults.processes import Program
from tests.waiting import PATIENCE

PAGE = (Path(__file__).parents[2] / "docs/api.md").read_text("utf-8")
EXAMPLES = re.findall(r"^ +(curl .*)$", PAGE, re.MULTILINE)


def address_of(serving: Program) -> str:
    serving.until_it_says('"api"')
    return str(json.loads(next(line for line in serving.complained.splitlines() if '"api"' in line))["api"])


def connect(address: str) -> HTTPConnection:
    parsed = urlsplit(address)
    return HTTPConnection(parsed.hostname or "", parsed.port, timeout=PATIENCE)


def curl(command: str, names: Mapping[str, str]) -> tuple[int, bytes]:
    """What curl would do with the few options the page uses; its shell puts in the names first."""
    for name, value in names.items():
        command = command.replace(f"${name}", value)
    words = iter(shlex.split(command)[1:])
    headers: dict[str, str] = {}
    url, body = "", None
    for word in words:
        if word == "-H":
            name, _, value = next(words).partition(": ")
            headers[name] = value
        elif word == "-d":
            body = next(words).encode()
        elif not word.startswith("-"):
            url = word
    path = url.removeprefix(names["API"])
    with closing(connect(names["API"])) as connection:
        connection.request("GET" if body is None else "POST", path, body, headers)
        answer: HTTPResponse = connection.getresponse()
        return answer.status, answer.read()


def test_the_examples_of_the_page_work_on_a_fresh_install_and_no_secret_is_left_behind(tmp_path: Path) -> None:
    with Program(tmp_path, "serve", DATABASE_URL=f"sqlite:///{tmp_path}/fresh.db") as serving:
        names = {"API": address_of(serving)}
        found = re.search(r"one-time password (\S+)", serving.complained)
        assert found is not None
        names["ONE_TIME"] = found[1]
        said = {}
        for command in EXAMPLES:
            status, body = curl(command, names)
            said[command] = status
            if '"token":' in body.decode():
                names["TOKEN"] = json.loads(body)["token"]
        assert len(said) >= 9
        expected = {command: 404 if "/nobody" in command else 201 if "order-17" in command else 200 for command in said}
        assert said == expected
        again, body = curl(next(c for c in EXAMPLES if "order-17" in c), names)
        assert (again, json.loads(body)["sellerId"]) == (201, "seller_12345")
        assert serving.end(signal.SIGTERM) == 0
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.name.startswith("fresh.db"))
    for secret in (names["ONE_TIME"], "correct horse battery", names["TOKEN"]):
        assert secret.encode() not in kept
    assert serving.complained.count(names["ONE_TIME"]) == 1
    assert names["TOKEN"] not in serving.complained
    with Program(tmp_path, "serve", DATABASE_URL=f"sqlite:///{tmp_path}/fresh.db") as serving:
        address_of(serving)
        assert "one-time" not in serving.complained


def test_an_open_stream_does_not_keep_it_from_stopping(tmp_path: Path) -> None:
    settings = {"DATABASE_URL": f"sqlite:///{tmp_path}/x.db", "ADMIN_PASSWORD": "correct horse battery"}
    with Program(tmp_path, "serve", **settings) as serving:
        names = {"API": address_of(serving)}
        status, body = curl(next(c for c in EXAMPLES if "/login" in c), names)
        assert status == 200
        with closing(connect(names["API"])) as connection:
            headers = {"Authorization": f"Bearer {json.loads(body)['token']}"}
            connection.request("GET", "/api/v1/events", headers=headers)
            stream = connection.getresponse()
            assert stream.readline() == b"retry: 2000\n"
            assert serving.end(signal.SIGTERM) == 0
            assert b"Traceback" not in serving.complained.encode()
            stream.read()
