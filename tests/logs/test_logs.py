"""One event a line: for machines as JSON, for people readable, for nobody a secret."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from tests.builders import NOW
from tests.kernel.test_untrusted_text import OBEYED

from sellerwatch import logs

LOG = logging.getLogger("sellerwatch.example")


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    """Logging is the process's: put back what a test configured."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    quiet = {name: logging.getLogger(name).level for name in ("aiohttp", "alembic", "asyncio")}
    yield
    root.handlers = handlers
    root.setLevel(level)
    for name, was in quiet.items():
        logging.getLogger(name).setLevel(was)


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    captured = capsys.readouterr()
    assert captured.out == ""
    return [json.loads(line) for line in captured.err.splitlines()]


def test_a_line_is_one_json_object_with_the_facts_as_fields(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(form="json")
    LOG.info("crawl started", extra={"seller_id": "seller_12345", "pages": 3})
    (line,) = lines(capsys)
    assert datetime.fromisoformat(line.pop("timestamp")).utcoffset() is not None
    assert line == {"event": "crawl started", "level": "info", "seller_id": "seller_12345", "pages": 3}


def test_arguments_of_a_message_are_filled_in(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(form="json")
    LOG.warning("%d of %s", 3, "ten")
    assert lines(capsys)[0]["event"] == "3 of ten"


def test_korean_stays_readable(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(form="json")
    LOG.info("상품", extra={"brand": "스톤아일랜드 🧥"})
    assert "스톤아일랜드 🧥" in capsys.readouterr().err


def test_a_text_of_several_lines_stays_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(form="json")
    LOG.info("one\ntwo", extra={"body": "<html>\n</html>"})
    assert [line["event"] for line in lines(capsys)] == ["one\ntwo"]


@pytest.mark.parametrize("value", [NOW, {1, 2}, b"\xff", object(), ValueError("x")])
def test_a_fact_of_any_type_can_be_logged(capsys: pytest.CaptureFixture[str], value: object) -> None:
    logs.configure(form="json")
    LOG.info("odd", extra={"fact": value})
    assert lines(capsys)[0]["fact"] == str(value)


@pytest.mark.parametrize(
    "name",
    ["token", "access_token", "jwtSecret", "password", "Authorization", "set_cookie", "api_key", "apikey"],
)
@pytest.mark.parametrize("form", ["json", "console"])
def test_a_secret_is_hidden_whatever_put_it_there(capsys: pytest.CaptureFixture[str], name: str, form: Any) -> None:
    logs.configure(form=form)
    LOG.info("request", extra={name: "hunter2", "headers": {name: "hunter2", "inner": {name: "hunter2"}}})
    said = capsys.readouterr().err
    assert "hunter2" not in said
    assert "hidden" in said


def test_hiding_changes_the_line_and_not_the_callers_own_value(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(form="json")
    headers = {"Authorization": "hunter2", "Accept": "text/html"}
    LOG.info("request", extra={"headers": headers, "token": None})
    (line,) = lines(capsys)
    assert line["headers"] == {"Authorization": "hidden", "Accept": "text/html"}
    assert line["token"] is None
    assert headers["Authorization"] == "hunter2"


@pytest.mark.parametrize("form", ["json", "console"])
def test_an_exception_is_told_with_its_traceback(capsys: pytest.CaptureFixture[str], form: Any) -> None:
    logs.configure(form=form)
    try:
        raise LookupError("nowhere")
    except LookupError:
        LOG.exception("it failed")
    said = capsys.readouterr().err
    assert "it failed" in said
    assert "Traceback" in said
    assert "LookupError: nowhere" in said
    assert len(said.splitlines()) == 1 or form == "console"


@pytest.mark.parametrize(
    ("level", "kept"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_only_lines_as_severe_as_asked_for_are_kept(
    capsys: pytest.CaptureFixture[str], level: str, kept: list[str]
) -> None:
    logs.configure(level, form="json")
    for name in ("debug", "info", "warning", "error"):
        getattr(LOG, name)("line")
    assert [line["level"] for line in lines(capsys)] == kept


def test_libraries_speak_only_of_trouble(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("debug", form="json")
    logging.getLogger("alembic.runtime").info("chatter")
    logging.getLogger("aiohttp.access").warning("trouble")
    assert [line["event"] for line in lines(capsys)] == ["trouble"]


def test_configuring_again_replaces_and_does_not_double(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(form="json")
    logs.configure(form="json")
    LOG.info("once")
    assert len(lines(capsys)) == 1


def test_into_a_pipe_lines_are_json_and_for_people_they_are_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure()
    LOG.info("piped")
    assert [line["event"] for line in lines(capsys)] == ["piped"]
    logs.configure(form="console")
    LOG.info("spoken", extra={"pages": 3})
    said = capsys.readouterr().err
    assert "spoken" in said
    assert "pages=3" in said
    assert "\x1b" not in said


@pytest.mark.parametrize("form", ["json", "console"])
def test_nothing_that_a_terminal_obeys_is_in_a_line(capsys: pytest.CaptureFixture[str], form: Any) -> None:
    logs.configure(form=form)
    evil = "\x1b]0;owned\x07\x9b2J\u202e\x7f"
    try:
        raise LookupError(evil)
    except LookupError:
        LOG.exception("asked %s", evil, extra={"answer": evil, "headers": {"x": evil}})
    said = capsys.readouterr().err
    assert said.count("owned") >= 4
    assert not set(said) & OBEYED
