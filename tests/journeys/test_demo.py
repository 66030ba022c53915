"""`sellerwatch demo` as a stranger runs it."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.faults.processes import Program, run


def demo(folder: Path, *arguments: str) -> dict[str, Any]:
    done = run(folder, "demo", "--once", "--json", "--sellers", "2", "--products", "100", *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


@pytest.mark.parametrize("profile", ["calm", "flaky", "hostile"])
def test_a_demo_ends_with_the_receivers_catalogue_equal_to_the_marketplaces(tmp_path: Path, profile: str) -> None:
    summary = demo(tmp_path, "--profile", profile)
    assert (summary["mismatches"], summary["over_budget"], summary["violations"]) == (0, 0, 0)
    assert summary["products"] == summary["events_delivered"] == 200
    assert summary["requests"] >= 402
    assert summary["seconds"] > 0


def test_a_second_round_without_changes_delivers_nothing(tmp_path: Path) -> None:
    summary = demo(tmp_path, "--rounds", "2", "--changes", "0")
    assert summary["events_by_round"] == [200, 0]
    assert summary["mismatches"] == 0


def test_a_profile_that_does_not_exist_is_refused_in_one_sentence(tmp_path: Path) -> None:
    done = run(tmp_path, "demo", "--once", "--profile", "friendly")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "friendly" in line
    assert "hostile" in line


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("when", ["while it crawls", "while it stands by"])
def test_a_demo_stays_up_until_it_is_asked_to_end_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, when: str
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    crawling = when == "while it crawls"
    with Program(tmp_path, "demo", "--sellers", "1", "--products", "3000" if crawling else "20") as shown:
        shown.until_it_says("round 1: crawling" if crawling else "the catalogues are equal")
        assert len(list(scratch.glob("sellerwatch-demo-*"))) == 1
        # What was cut off in the middle is not equal yet, and the exit code says so.
        assert shown.end(number) == (1 if crawling else 0)
        assert "Traceback" not in shown.complained + shown.said
    assert list(scratch.iterdir()) == []
