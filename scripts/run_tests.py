"""Everything `make test` checks, stage by stage, bounded in time, with what each stage took.

A stage that does not end in its time is ended and counts as failed: no run may hang.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
SLOW = ("simulation", "contracts", "faults", "journeys")
#: What lies around the features; `coverage` does not look at it.
EDGES = ("adapters", "architecture", "cli", "fuzz", "logs", "settings", "simulator")
#: Workers beside one for each core: these tests mostly wait, for leases, circuits, servers that come back, a browser.
WAITING = {"faults": 2, "journeys": 1}
COVERAGE_FLOOR = 90
#: Seconds a stage may take before it is ended; far beyond what it needs, so that a busy machine does not fail it.
LIMIT = 3600

GATES = {
    "format": ["ruff", "format", "--check", "--quiet", "."],
    "ruff": ["ruff", "check", "--quiet", "."],
    "types": ["mypy"],
    "imports": ["lint-imports", "--no-cache"],
    "security": ["bandit", "-q", "-r", "src", "-c", "pyproject.toml"],
    "lifecycles": ["python", "scripts/make_lifecycles.py", "--check"],
    "settings": ["python", "scripts/make_settings.py", "--check"],
    "errors": ["python", "scripts/make_errors.py", "--check"],
    "events": ["python", "scripts/make_events.py", "--check"],
    "user agents": ["python", "scripts/make_user_agents.py", "--check"],
    "locks": ["python", "scripts/check_locks.py"],
}


@dataclass(frozen=True)
class Stage:
    """One line of the closing table."""

    name: str
    seconds: float
    passed: bool


def run(command: list[str], limit: float, *, quiet: bool = False) -> tuple[bool, str]:
    """Run a tool of the environment; what it printed is returned when quiet, shown otherwise."""
    env = os.environ | {"PYTHONHASHSEED": "random", "COVERAGE_FILE": str(ROOT / ".coverage")}
    # Hundreds of processes are started: where each compiles everything anew, the run takes half as long again.
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        done = subprocess.run(
            [str(BIN / command[0]), *command[1:]],
            cwd=ROOT,
            env=env,
            timeout=limit,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if quiet else None,
            stderr=subprocess.STDOUT if quiet else None,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False, f"{command[0]} did not end within {limit:.0f} s"
    return done.returncode == 0, done.stdout or ""


def gates() -> bool:
    """All gates, two at a time; every one that fails is shown."""
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda command: run(command, LIMIT, quiet=True), GATES.values()))
    for name, (passed, said) in zip(GATES, results, strict=True):
        print(f"  {'ok    ' if passed else 'FAILED'} {name}", flush=True)
        if not passed:
            print(said, flush=True)
    return all(passed for passed, _ in results)


def tests(name: str, jobs: int, *more: str) -> bool:
    """One folder of slow tests, those around the features, or (`features`) everything else."""
    chosen = {
        "features": ["tests", *(f"--ignore=tests/{other}" for other in (*SLOW, *EDGES))],
        "edges": [f"tests/{edge}" for edge in EDGES],
    }.get(name, [f"tests/{name}"])
    workers = ["-n", str(jobs + WAITING.get(name, 0)), "--dist", "worksteal"] if jobs > 1 else []
    passed, said = run(["pytest", *chosen, *workers, *more, "--durations=5"], LIMIT)
    print(said, end="")
    return passed


def coverage(jobs: int) -> bool:
    """Of the features' code (pyproject.toml names it), by their own tests and the API's, which take twice as long."""
    passed = tests("features", jobs, "--cov", "--cov-report=")
    enough, said = run(["coverage", "report", f"--fail-under={COVERAGE_FLOOR}"], LIMIT, quiet=True)
    print(said, flush=True)
    return passed and enough


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", choices=["gates", "features", "coverage", "edges", *SLOW])
    args = parser.parse_args()
    stages = [args.only] if args.only else ["gates", "features", "edges", *SLOW]
    done: list[Stage] = []
    for name in stages:
        if name in SLOW and not (ROOT / "tests" / name).is_dir():
            continue
        print(f"== {name}", flush=True)
        began = time.monotonic()
        if name == "gates":
            passed = gates()
        elif name == "coverage":
            passed = coverage(args.jobs)
        else:
            passed = tests(name, args.jobs)
        done.append(Stage(name, time.monotonic() - began, passed))
    print("\nstage        seconds")
    for stage in done:
        print(f"{stage.name:<12} {stage.seconds:7.1f}  {'passed' if stage.passed else 'FAILED'}")
    print(f"{'together':<12} {sum(stage.seconds for stage in done):7.1f}")
    return 0 if all(stage.passed for stage in done) else 1


if __name__ == "__main__":
    sys.exit(main())
