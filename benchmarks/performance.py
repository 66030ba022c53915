"""How fast it is, beside others: the figures of docs/performance.md, measured anew.

    python -m benchmarks.performance                        (everything but growth)
    python -m benchmarks.performance contest [--products 5000] [--rounds 3] [--turns 3]
    python -m benchmarks.performance recrawl | volatile | large | latency | pieces
    python -m benchmarks.performance growth [--sizes 1000 10000 50000 200000]

`contest`: one seller of 5,000 products; we, Scrapy, Crawlee and a bare aiohttp loop in interleaved rounds, in each of
which there are three turns, forwards and backwards, of everybody and of the quicker ones oftener (a machine that others
share changes its speed within seconds, and a crawl takes a few); we also crawl it again. `recrawl`: again and again,
unchanged and with 1 % changed by turns; each changed one is compared with those around it, and the median of a round's
pairs counts, since two equal crawls differ by more than 1 %. `volatile`: again, with the fields varying that vary by
themselves. `large`: details of 30 KB, the contract's size. `latency`: 100 ms before every answer and 100 in flight,
beside the 1,000 requests a second that are possible then. `pieces`: limiter, store, outbox and API by themselves.
`growth`: cost and memory of ever larger sellers, all of them at once. Every product is compared with the truth. Each
part writes its figures to results.json, and the page with its picture anew from there (unless --dry). Exits with 1
where a bar is missed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event
from typing import Any

from benchmarks import contest
from benchmarks.contest import Market, Run, compete, marketplace, say
from benchmarks.page import write_page
from benchmarks.pieces import COLUMNS, pieces

KEPT = Path(__file__).parent / "results.json"
CONTESTANTS = ("sellerwatch", "Crawlee", "Scrapy", "bare aiohttp loop")
#: One turn of the contest: whoever is quicker comes oftener, so that each is seen for about as long.
TURN = (
    *("sellerwatch", "Crawlee", "sellerwatch", "Scrapy"),
    *("sellerwatch", "Crawlee", "sellerwatch", "bare aiohttp loop"),
)
#: Changed recrawls of one turn.
PAIRS = 10
LATENCY_MS, IN_FLIGHT = 100, 100

Results = dict[str, list[Run]]


@dataclass(frozen=True)
class Bar:
    """Something that must hold, by its worst round."""

    what: str
    wanted: str
    reached: float
    is_met: bool


def contested(args: argparse.Namespace) -> Results:
    with marketplace(args.products, is_steady=True) as market:

        def play(turn: int) -> Iterator[Run]:
            for who in TURN[:: -1 if turn % 2 else 1]:
                say(f"  {who} ...")
                yield from compete(who, market, phases=("first", "again") if who == "sellerwatch" else ())

        return _in_rounds("contest", args, play, contest.together)


def recrawled(args: argparse.Namespace) -> Results:
    phases = ("first", "again", *("changed", "again") * PAIRS)
    with marketplace(args.products, is_steady=True) as market:
        return _in_rounds("recrawl", args, lambda _: compete("sellerwatch", market, phases=phases)[1:], contest.middle)


def _in_rounds(
    part: str, args: argparse.Namespace, play: Callable[[int], Iterable[Run]], as_one: Callable[[Sequence[Run]], Run]
) -> Results:
    """Rounds of several turns, each contestant's in a round taken as one run."""
    runs = []
    for number in range(args.rounds):
        turns: list[Run] = []
        for turn in range(args.turns):
            say(f"{part}, round {number + 1} of {args.rounds}, turn {turn + 1} of {args.turns} ...")
            turns += play(turn)
        runs += [as_one(mine) for mine in contest.by_name(turns).values()]
    return contest.by_name(runs)


def volatile(args: argparse.Namespace) -> Results:
    runs = []
    with marketplace(args.products) as market:
        for number in range(args.rounds):
            say(f"volatile fields, round {number + 1} of {args.rounds} ...")
            runs += compete("sellerwatch", market, phases=("first", "again"))
    return contest.by_name(runs)


def large(args: argparse.Namespace) -> Results:
    runs = []
    with marketplace(args.products // 4, detail_kb=30, is_steady=True) as market:
        for number in range(args.rounds):
            for who in CONTESTANTS:
                say(f"30 KB details, round {number + 1} of {args.rounds}: {who} ...")
                runs += compete(who, market, phases=("first",) if who == "sellerwatch" else ())
    return contest.by_name(runs)


def latency(args: argparse.Namespace) -> Results:
    say("100 ms latency ...")
    with marketplace(4 * args.products, latency_ms=LATENCY_MS) as market:
        return contest.by_name(compete("sellerwatch", market, phases=("first",)))


def growth(args: argparse.Namespace) -> Results:
    """All sizes at once on one core, the smaller ones again and again until the largest is through: a busy minute of
    the machine is the same for all, which crawls of a second and of minutes, one after the other, never have."""
    largest, is_through = max(args.sizes), Event()

    def crawl(market: Market) -> Run:
        runs: list[Run] = []
        try:
            while not runs or (market.products < largest and not is_through.is_set()):
                say(f"growth: {market.products:,} products, crawl {len(runs) + 1} ...")
                runs += compete("sellerwatch", market, phases=("first",))
        finally:
            is_through.set()
        return contest.together(runs)

    with ExitStack() as opened, ThreadPoolExecutor(len(args.sizes)) as at_once:
        markets = [opened.enter_context(marketplace(size, is_steady=True)) for size in args.sizes]
        return {f"{size:,}": [run] for size, run in zip(args.sizes, at_once.map(crawl, markets), strict=True)}


PARTS: Mapping[str, Callable[[argparse.Namespace], Results]] = {
    "contest": contested,
    "recrawl": recrawled,
    "volatile": volatile,
    "large": large,
    "latency": latency,
    "growth": growth,
}


def bars(part: str, results: Results) -> list[Bar]:
    """What this part must reach."""
    if part == "contest":
        return [
            *_ahead(results, "Scrapy", 2.5, 0.40),
            *_ahead(results, "Crawlee", 1.6, 0.60),
            _most("peak memory beside Scrapy", 1.3, _ratios(results, "sellerwatch", "Scrapy", _peak)),
            _most(
                "unchanged recrawl, CPU beside the first",
                0.85,
                _ratios(results, "sellerwatch, unchanged again", "sellerwatch", _cpu),
            ),
        ]
    if part == "recrawl":
        besides = [run.beside or 0.0 for run in results["sellerwatch, 1 % changed"]]
        return [_most("1 % changed, CPU beside unchanged before and after", 1.05, besides)]
    if part == "volatile":
        ratios = _ratios(results, "sellerwatch, unchanged again", "sellerwatch", _cpu)
        return [_most("unchanged but for volatile fields, CPU beside the first", 1.0, ratios)]
    if part == "latency":
        possible = IN_FLIGHT * 1000 / LATENCY_MS
        return [_least("of the rate that latency allows", 0.95, [r.rate / possible for r in results["sellerwatch"]])]
    if part == "growth":
        costs = [runs[0].cpu_per_1k for runs in results.values()]
        peaks = [runs[0].peak_mb for runs in results.values()]
        return [
            _most("dearest product beside the cheapest", 1.15, [max(costs) / min(costs)]),
            _most(
                "memory of the largest seller beside the second smallest",
                1.15,
                [peaks[-1] / peaks[min(1, len(peaks) - 1)]],
            ),
        ]
    return []


def _ahead(results: Results, whom: str, faster: float, cheaper: float) -> list[Bar]:
    return [
        _least(f"req/s beside {whom}", faster, _ratios(results, "sellerwatch", whom, lambda run: run.rate)),
        _most(f"CPU per request beside {whom}", cheaper, _ratios(results, "sellerwatch", whom, _cpu)),
    ]


def _cpu(run: Run) -> float:
    return run.cpu_per_1k


def _peak(run: Run) -> float:
    return run.peak_mb


def _ratios(results: Results, one: str, other: str, of: Callable[[Run], float]) -> list[float]:
    return [of(a) / of(b) for a, b in zip(results[one], results[other], strict=True)]


def _least(what: str, wanted: float, rounds: Sequence[float]) -> Bar:
    return Bar(what, f"at least {wanted:g}", min(rounds), min(rounds) >= wanted)


def _most(what: str, wanted: float, rounds: Sequence[float]) -> Bar:
    return Bar(what, f"at most {wanted:g}", max(rounds), max(rounds) <= wanted)


def keep(part: str, **figures: object) -> None:
    kept: dict[str, Any] = json.loads(KEPT.read_text("utf-8")) if KEPT.exists() else {}
    kept[part] = {"machine": contest.machine(), **figures}
    KEPT.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    write_page(kept)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS, "pieces"], help="default: all but growth")
    parser.add_argument("--products", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=3, help="of each contestant in a round")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 50_000, 200_000])
    parser.add_argument("--dry", action="store_true", help="print only")
    args = parser.parse_args()
    missed = wrong = 0
    for part in args.parts or [*(name for name in PARTS if name != "growth"), "pieces"]:
        if part == "pieces":
            table = pieces()
            contest.show(part, COLUMNS, table)
            if not args.dry:
                keep(part, pieces=table)
            continue
        results = PARTS[part](args)
        found = bars(part, results)
        contest.show(f"{part}: medians of the rounds (worst in brackets)", contest.COLUMNS, contest.rows(results))
        lines = [(bar.what, bar.wanted, f"{bar.reached:.2f}", "yes" if bar.is_met else "NO") for bar in found]
        if lines:
            contest.show("bars, by the worst round", ("bar", "wanted", "reached", "met"), lines)
        missed += sum(not bar.is_met for bar in found)
        wrong += any(run.mismatches for runs in results.values() for run in runs)
        if not args.dry and not wrong:
            runs = {who: [asdict(run) for run in runs] for who, runs in results.items()}
            keep(part, runs=runs, bars=[asdict(bar) for bar in found])
    if wrong:
        raise SystemExit("some products are wrong: the figures above are worth nothing")
    if missed:
        raise SystemExit(f"{missed} bar(s) missed")


if __name__ == "__main__":
    main()
