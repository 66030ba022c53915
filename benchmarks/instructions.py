"""Python instructions for each request of a crawl, by function: the same number however busy the machine is.

    python -m benchmarks.instructions [--products 500] [--most 20]

Two checkouts are compared with `PYTHONPATH=OTHER/src:OTHER python -m benchmarks.instructions`. Work inside C (SQLite,
JSON, sockets) is not counted; CPU time is what `python -m benchmarks.crawl` measures.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, ClassVar

import uvloop
from benchmarks import contest, crawl
from benchmarks.others import job

PHASES = ("first", "again")


class Counting(job.Meter):
    """Counts instructions instead of seconds, from its making until it is read."""

    phases: ClassVar[list[tuple[int, Counter[CodeType]]]] = []
    counts: ClassVar[Counter[CodeType] | None] = None

    def __init__(self, database: Path) -> None:
        super().__init__(database)
        Counting.counts = Counter()

    def read(self, requests: int) -> dict[str, float]:
        assert Counting.counts is not None
        Counting.phases.append((requests, Counting.counts))
        Counting.counts = None
        return super().read(requests)


def trace(frame: FrameType, event: str, _: Any) -> Any:
    """Count each instruction of each function, in each thread."""
    if event == "opcode" and Counting.counts is not None:
        Counting.counts[frame.f_code] += 1
    frame.f_trace_opcodes, frame.f_trace_lines = True, False
    return trace


def count(products: int) -> None:
    with contest.marketplace(products, detail_kb=4) as market, tempfile.TemporaryDirectory() as folder:
        job.Meter = Counting  # type: ignore[misc]
        threading.settrace(trace)
        sys.settrace(trace)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(crawl.ours(market.url, Path(folder) / "count.db", PHASES))
        sys.settrace(None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--products", type=int, default=500)
    parser.add_argument("--most", type=int, default=20, help="functions to list")
    args = parser.parse_args()
    count(args.products)
    for phase, (requests, counts) in zip(PHASES, Counting.phases, strict=True):
        print(f"{phase}: {counts.total() / requests:,.0f} instructions a request")
        for code, number in counts.most_common(args.most):
            print(f"  {number / requests:8,.1f}  {Path(code.co_filename).name}:{code.co_qualname}")


if __name__ == "__main__":
    main()
