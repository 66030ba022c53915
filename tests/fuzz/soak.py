"""Fuzzing for as long as wanted, each target in a process of its own.

    python -m tests.fuzz.soak [--targets http_answers settings] [--minutes 10] [--planted]

atheris drives the targets by the coverage they reach; what reached new code stays in `.fuzz/` for the next time. An
input that fails is written to `tests/fuzz/cases/TARGET/`, where `make test` runs it from then on. `--planted` puts a
bug into each target, which has to be found.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.fuzz.targets import CASES, TARGETS

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / ".fuzz"
#: One input may take so many seconds, and the process so many megabytes.
SLOWEST, LARGEST_MB = 60, 2_000
#: Seconds after its time in which a process has to have started and ended.
TO_END = 300
#: Bytes of an input at most, unless a seed is larger.
LONGEST = 4_096


@dataclass(frozen=True)
class Outcome:
    """What one target came to."""

    target: str
    executions: int
    coverage: int
    corpus: int
    #: The error; None: nothing was found.
    error: str | None = None
    #: The input that it came from; None where the process ended without one.
    data: bytes | None = None


def fuzz(name: str, seconds: int, *, planted: bool) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus" if planted else CORPUS / name
        corpus.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(TARGETS[name].seeds()):
            (corpus / f"seed{number}").write_bytes(seed)
        for case in (CASES / name).glob("*"):
            (corpus / case.name).write_bytes(case.read_bytes())
        found = Path(folder) / "found"
        said = _driven(name, corpus, found, seconds, planted=planted)
        last = re.findall(r"^#(\d+)\t.*cov: (\d+) .*corp: (\d+)/", said, re.MULTILINE)
        executions, coverage, size = map(int, last[-1]) if last else (0, 0, 0)
        counted = re.search(r"stat::number_of_executed_units: (\d+)", said)
        outcome = Outcome(name, int(counted[1]) if counted else executions, coverage, size)
        if found.exists():
            return replace(outcome, error=_error(said), data=found.read_bytes())
        if "Done " not in said:
            print(said[-3000:], flush=True)
            return replace(outcome, error="the process ended")
        return outcome


def _driven(name: str, corpus: Path, found: Path, seconds: int, *, planted: bool) -> str:
    """Run atheris, and return what it printed."""
    longest = max(LONGEST, *(len(seed) for seed in TARGETS[name].seeds()))
    options = [
        *(f"-max_total_time={seconds}", f"-max_len={longest}", f"-exact_artifact_path={found}", "-print_final_stats=1"),
        *(f"-timeout={SLOWEST}", f"-rss_limit_mb={LARGEST_MB}"),
    ]
    command = [sys.executable, "-m", "tests.fuzz.driven", name, str(corpus), "planted" if planted else "", *options]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, timeout=seconds + TO_END)
        said = done.stderr + done.stdout
    except subprocess.TimeoutExpired as hung:
        said = (hung.stderr or b"") + (hung.stdout or b"")
    return said.decode("utf-8", "replace")


def _error(said: str) -> str:
    """Return the last line of a traceback, or what libFuzzer says of an input that took too long or too much."""
    raised = re.search(r"Uncaught Python exception: ===\n(.*?)(?:\n|$)", said)
    libfuzzer = re.search(r"ERROR: (libFuzzer: .*)", said)
    return raised[1] if raised else libfuzzer[1] if libfuzzer else "unknown"


def kept(outcome: Outcome) -> Path:
    """Write what was found to the cases, and return where."""
    assert outcome.data is not None
    case = CASES / outcome.target / hashlib.sha256(outcome.data).hexdigest()[:12]
    case.parent.mkdir(parents=True, exist_ok=True)
    case.write_bytes(outcome.data)
    return case


def report(outcomes: Sequence[Outcome], *, planted: bool) -> int:
    """Print a table and what was found; return the exit code."""
    print(f"{'target':<22}{'executions':>12}{'coverage':>10}{'corpus':>8}  found")
    for each in outcomes:
        print(
            f"{each.target:<22}{each.executions:>12,}{each.coverage:>10}{each.corpus:>8}  {(each.error or '-')[:120]}"
        )
    if planted:
        return 0 if all(each.data for each in outcomes) else 1
    for each in outcomes:
        if each.data is not None:
            print(f"{each.target}: the input is {kept(each).relative_to(ROOT)}")
    return 1 if any(each.error for each in outcomes) else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--minutes", type=float, default=10, help="for each target")
    parser.add_argument("--planted", action="store_true", help="put a bug into each target: is it found?")
    args = parser.parse_args()
    outcomes = []
    for name in args.targets:
        print(f"{name}: {args.minutes:g} minutes at most", flush=True)
        outcomes.append(fuzz(name, max(1, round(60 * args.minutes)), planted=args.planted))
    return report(outcomes, planted=args.planted)


if __name__ == "__main__":
    sys.exit(main())
