"""The program as a person runs it: a process, an environment, a folder, an exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sellerwatch.adapters.sql.store import SqlStore

from .cli_world import CliWorld, Run

__all__ = ["Run", "clean_environment", "refused"]


def clean_environment(**settings: str) -> dict[str, str]:
    """Nothing of ours is set but what is given; what the machine needs is."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SELLERWATCH_")}
    ours = {f"SELLERWATCH_{name}": value for name, value in settings.items()}
    return kept | ours | {"NO_COLOR": "1", "PYTHONIOENCODING": "utf-8", "COLUMNS": "160"}


@pytest.fixture
def run_cold(tmp_path: Path) -> Run:
    """Runs `python -m sellerwatch ...` from nothing, in the test's folder. Keywords are settings. Never a traceback."""

    def sellerwatch(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "sellerwatch", *arguments],
            cwd=tmp_path,
            env=clean_environment(**settings),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return sellerwatch


@pytest.fixture(scope="session")
def warm() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("warm.py")],
        env=clean_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        yield process


@pytest.fixture
def run(warm: subprocess.Popen[str], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The same as `run_cold`, in a process that has its imports behind it: a second sooner."""
    said = tmp_path_factory.mktemp("said")
    count = iter(range(1000))

    def sellerwatch(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        number = next(count)
        out, err = said / f"{number}.out", said / f"{number}.err"
        request = {
            "arguments": arguments,
            "environment": clean_environment(**settings),
            "folder": str(tmp_path),
            "stdout": str(out),
            "stderr": str(err),
        }
        assert warm.stdin is not None
        assert warm.stdout is not None
        warm.stdin.write(json.dumps(request) + "\n")
        warm.stdin.flush()
        code = int(warm.stdout.readline())
        done = subprocess.CompletedProcess(arguments, code, out.read_text("utf-8"), err.read_text("utf-8"))
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return sellerwatch


@pytest.fixture
def world(run: Run, inline_store: SqlStore, database_file: Path) -> CliWorld:
    return CliWorld(run, inline_store, database_file)


def refused(done: subprocess.CompletedProcess[str], code: int) -> str:
    """The one sentence of a refusal: nothing on standard output, one line on standard error."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert line.endswith(".")
    return line.removeprefix("error: ")
