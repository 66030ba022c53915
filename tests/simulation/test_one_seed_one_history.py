"""The same seed gives the same history, in any process: every request, every event, every id and every time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def history(template: Path, seed: int, hash_seed: int) -> bytes:
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.history", str(template), str(seed)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        timeout=600,
        check=True,
    )
    return done.stdout


def test_one_seed_gives_one_history_whatever_the_process(migrated_template: Path) -> None:
    first, second = (json.loads(history(migrated_template, 7, hash_seed)) for hash_seed in (1, 2))
    for part, told in first.items():
        assert told == second[part], part
    assert len(first["events"]) == 55
    assert len(first["asked"]) > 180
    assert json.loads(history(migrated_template, 8, 1)) != first, "another seed, another history"
