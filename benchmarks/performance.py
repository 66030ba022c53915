"""How fast and small it is, beside others: the figures of docs/performance.md and README.md, measured anew.

    python -m benchmarks.performance                        (everything but growth)
    python -m benchmarks.performance contest [--products 5000] [--rounds 5]
    python -m benchmarks.performance small | large | huge | recrawl | volatile | latency | mariadb | pieces
    python -m benchmarks.performance growth [--sizes 1000 10000 50000 200000]

`contest`: one seller of 5,000 products with details of 14 KB; we, Scrapy, Crawlee and a bare aiohttp loop in rounds, in
each of which everybody comes once, forwards and backwards by turns, since a machine that others share changes its speed
within seconds. We crawl it again unchanged, with 1 % and with 10 % changed, deliver the events that are left, and do it
all once more with a receiver from the start. `small`, `large`, `huge`: the same with 4, 30 and 100 KB, and fewer
products where they are large. `recrawl`: ten times unchanged in a row, five times 1 % changed and unchanged by turns,
then every price changed: bytes written and how the file grows. `volatile`: again, with the fields varying that vary by
themselves. `latency`: 100 ms before every answer and 100 in flight, beside the 1,000 requests a second that are
possible then. `mariadb`: beside SQLite, with 1, 2 and 4 workers. `pieces`: limiter, store and API by themselves.
`growth`: cost and memory of ever larger sellers, all of them at once.

Descriptions are random text that does not repeat between products. Every product and event is compared with the truth.
A bar holds for the median of the rounds, each of them taken by itself; where the median misses it and a round does not,
the miss is within their spread. Each part writes its figures to results.json, and the pages anew from there (unless
--dry). Exits with 1 where a bar is missed by more than the spread.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

from benchmarks import contest, pieces, scale
from benchmarks.contest import BARE, DELIVERING, US, Market, Run, compete, marketplace, say
from benchmarks.page import write_pages

KEPT = Path(__file__).parent / "results.json"
CONTESTANTS = ("Scrapy", US, "Crawlee", DELIVERING, BARE)
#: Details of so many KB, and of how many of the products there are so many.
SIZES = {"contest": (14, 1.0), "small": (4, 1.0), "large": (30, 0.4), "huge": (100, 0.16)}
CHANGES = ("first", "again", "changed", "changed-10")
IN_A_ROW, PAIRS = 10, 5
LATENCY_MS, IN_FLIGHT = 100, 100
ROUNDS = {"contest": 5, "latency": 1}

AGAIN, DELIVERY = (f"{US}, {contest.PHASES[phase].label}" for phase in ("again", "delivery"))
FIRST_AGAIN, LAST_AGAIN = f"{US}, unchanged the first time", f"{US}, unchanged the tenth time"
IN_ROW, CHANGED = f"{US}, unchanged ten times", f"{US}, {contest.PHASES['changed'].label}"
REPRICED, REPRICED_DELIVERING = (f"{who}, {contest.PHASES['repriced'].label}" for who in (US, DELIVERING))

Results = dict[str, list[Run]]


@dataclass(frozen=True)
class Bar:
    """Something that must hold, by the median of the rounds."""

    what: str
    wanted: str
    reached: float
    low: float
    high: float
    met: str

    @classmethod
    def of(cls, what: str, is_least: bool, wanted: float, rounds: Sequence[float]) -> Bar:
        def holds(value: float) -> bool:
            return value >= wanted if is_least else value <= wanted

        median = statistics.median(rounds)
        met = "yes" if holds(median) else "within the spread" if any(map(holds, rounds)) else "no"
        return cls(what, f"at {'least' if is_least else 'most'} {wanted:.3g}", median, min(rounds), max(rounds), met)


def contested(part: str, args: argparse.Namespace) -> Results:
    detail_kb, share = SIZES[part]
    runs = []
    with marketplace(max(10, round(share * args.products)), detail_kb) as market:
        for number in range(args.rounds):
            for who in CONTESTANTS[:: -1 if number % 2 else 1]:
                say(f"{part}, {detail_kb} KB, round {number + 1} of {args.rounds}: {who} ...")
                if who == DELIVERING:
                    runs += compete(US, market, phases=CHANGES, is_delivering=True)
                else:
                    runs += compete(who, market, phases=(*CHANGES, "delivery"))
    return dict(sorted(contest.by_name(runs).items(), key=_place))


def _place(named: tuple[str, object]) -> int:
    """Ours first, then the others as they are known."""
    who = named[0]
    order = (US, DELIVERING, "Crawlee", "Scrapy", BARE)
    return max(at for at, name in enumerate(order) if who.startswith(name))


def recrawled(args: argparse.Namespace) -> Results:
    runs: list[Run] = []
    many = ("first", *("again",) * IN_A_ROW, *("changed", "again") * PAIRS, "repriced")
    with marketplace(max(100, round(0.4 * args.products)), SIZES["contest"][0]) as market:
        for number in range(args.rounds):
            say(f"recrawl, round {number + 1} of {args.rounds}: {len(many)} crawls ...")
            found = compete(US, market, phases=many)
            row = found[1 : IN_A_ROW + 1]
            changed = [run for run in found if run.beside is not None]
            runs += [replace(row[0], who=FIRST_AGAIN), replace(row[-1], who=LAST_AGAIN)]
            runs += [replace(contest.together(row), who=IN_ROW), contest.middle(changed), found[-1]]
            say(f"recrawl, round {number + 1} of {args.rounds}: events delivered too ...")
            runs += compete(US, market, phases=("first", "again", "repriced"), is_delivering=True)[1:]
    return contest.by_name(runs)


def volatile(args: argparse.Namespace) -> Results:
    runs = []
    with marketplace(args.products, SIZES["contest"][0], is_steady=False) as market:
        for number in range(args.rounds):
            say(f"volatile fields, round {number + 1} of {args.rounds} ...")
            runs += compete(US, market, phases=("first", "again"))
    return contest.by_name(runs)


def latency(args: argparse.Namespace) -> Results:
    say(f"{LATENCY_MS} ms latency ...")
    with marketplace(4 * args.products, SIZES["small"][0], latency_ms=LATENCY_MS, is_steady=False) as market:
        return contest.by_name([run for _ in range(args.rounds) for run in compete(US, market)])


def growth(args: argparse.Namespace) -> Results:
    """All sizes at once on one core, the smaller ones again and again until the largest is through: a busy minute of
    the machine is the same for all, which crawls of a second and of minutes, one after the other, never have."""
    largest, is_through = max(args.sizes), Event()

    def crawl(market: Market) -> Run:
        runs: list[Run] = []
        try:
            while not runs or (market.products < largest and not is_through.is_set()):
                say(f"growth: {market.products:,} products, crawl {len(runs) + 1} ...")
                runs += compete(US, market)
        finally:
            is_through.set()
        return contest.together(runs)

    with ExitStack() as opened, ThreadPoolExecutor(len(args.sizes)) as at_once:
        markets = [opened.enter_context(marketplace(size, SIZES["small"][0])) for size in args.sizes]
        return {f"{size:,}": [run] for size, run in zip(args.sizes, at_once.map(crawl, markets), strict=True)}


PARTS: Mapping[str, Callable[[argparse.Namespace], Results]] = {
    **{part: partial(contested, part) for part in SIZES},
    "recrawl": recrawled,
    "volatile": volatile,
    "latency": latency,
    "growth": growth,
}


def engines(args: argparse.Namespace) -> list[tuple[str, ...]]:
    given = {"sellers": 4, "products": max(5, args.products // 20), "latency_ms": 0, "concurrency": 50}
    return scale.engines(argparse.Namespace(**given))


#: Parts that are a table.
TABLES: Mapping[str, tuple[Sequence[str], Callable[[argparse.Namespace], Sequence[Sequence[str]]]]] = {
    "mariadb": (scale.ENGINE_COLUMNS, engines),
    "pieces": (pieces.COLUMNS, lambda _: pieces.pieces()),
}


def bars(part: str, results: Results, kept: Mapping[str, Any]) -> Iterator[Bar]:
    """What this part must reach."""

    def each(who: str, of: Callable[[Run], float]) -> list[float]:
        return [of(run) for run in results[who]]

    def beside(one: str, other: str, of: Callable[[Run], float]) -> list[float]:
        return [mine / theirs for mine, theirs in zip(each(one, of), each(other, of), strict=True)]

    if part == "contest":
        yield least("req/s beside Scrapy", 2.5, beside(US, "Scrapy", _rate))
        yield most("CPU per request beside Scrapy", 0.35, beside(US, "Scrapy", _cpu))
        yield least("req/s beside Crawlee", 1.5, beside(US, "Crawlee", _rate))
        yield most("CPU per request beside Crawlee", 0.6, beside(US, "Crawlee", _cpu))
        yield most("peak memory beside Scrapy", 1.2, beside(US, "Scrapy", lambda run: run.peak_mb))
        yield most("unchanged recrawl, CPU beside the first", 0.85, beside(AGAIN, US, _cpu))
        yield most("KB on disk a product", 12, each(US, _grown))
        yield most("KB written a product", 60, each(US, _written))
        yield most("unchanged recrawl, KB written a product", 15, each(AGAIN, _written))
        yield most("unchanged recrawl, KB by which the file grows a product", 2, each(AGAIN, _grown))
        yield most("delivery, CPU s / 1k events", 0.25, each(DELIVERY, _cpu))
    elif part == "small" and "earlier" in kept:
        before = earlier(kept)
        for what, to, of in (("req/s", least, _rate), ("CPU per request", most, _cpu)):
            for whom in ("Scrapy", "Crawlee", BARE):
                ratio = statistics.median(map(of, before[US])) / statistics.median(map(of, before[whom]))
                yield to(f"{what} beside {whom}, as earlier", ratio, beside(US, whom, of))
        ratio = statistics.median(map(_cpu, before[AGAIN])) / statistics.median(map(_cpu, before[US]))
        yield most("unchanged recrawl, CPU beside the first, as earlier", ratio, beside(AGAIN, US, _cpu))
    elif part == "recrawl":
        yield most("tenth in a row, bytes written beside the first", 1, beside(LAST_AGAIN, FIRST_AGAIN, _written))
        yield most("ten in a row, KB written a product", 15, each(IN_ROW, _written))
        yield most("ten in a row, KB by which the file grows a product", 2, each(IN_ROW, _grown))
        for who, what in ((REPRICED, "its event waiting"), (REPRICED_DELIVERING, "its events delivered")):
            yield most(f"price change, {what}: KB by which the file grows", 2, each(who, _grown))
        besides = [run.beside or 0.0 for run in results[CHANGED]]
        yield most("1 % changed, CPU beside unchanged before and after", 1.05, besides)
    elif part == "volatile":
        yield most("unchanged but for volatile fields, CPU beside the first", 1, beside(AGAIN, US, _cpu))
    elif part == "latency":
        possible = IN_FLIGHT * 1000 / LATENCY_MS
        yield least("of the rate that latency allows", 0.95, each(US, lambda run: run.rate / possible))
    elif part == "growth":
        costs = [runs[0].cpu_per_1k for runs in results.values()]
        peaks = [runs[0].peak_mb for runs in results.values()]
        yield most("dearest product beside the cheapest", 1.15, [max(costs) / min(costs)])
        beside_smaller = peaks[-1] / peaks[min(1, len(peaks) - 1)]
        yield most("memory of the largest seller beside the second smallest", 1.15, [beside_smaller])


def least(what: str, wanted: float, rounds: Sequence[float]) -> Bar:
    return Bar.of(what, True, wanted, rounds)


def most(what: str, wanted: float, rounds: Sequence[float]) -> Bar:
    return Bar.of(what, False, wanted, rounds)


def earlier(kept: Mapping[str, Any]) -> Results:
    """The contest with 4 KB details as it was measured before details were 14 KB and their text unlike others'."""
    return {who: [Run(**run) for run in runs] for who, runs in kept["earlier"]["runs"].items()}


def _rate(run: Run) -> float:
    return run.rate


def _cpu(run: Run) -> float:
    return run.cpu_per_1k


def _written(run: Run) -> float:
    return run.written_kb


def _grown(run: Run) -> float:
    return run.grown_kb


def measured() -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(KEPT.read_text("utf-8")) if KEPT.exists() else {}
    return kept


def keep(part: str, **figures: object) -> None:
    kept = measured()
    kept[part] = {"machine": contest.machine(), **figures}
    KEPT.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    write_pages(kept)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS, *TABLES], help="default: all but growth")
    parser.add_argument("--products", type=int, default=5000)
    parser.add_argument("--rounds", type=int, help="default: 5 of the contest, 3 of others")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 50_000, 200_000])
    parser.add_argument("--dry", action="store_true", help="print only")
    given = parser.parse_args()
    missed, wrong = [], 0
    say(f"{contest.machine()}, in {contest.FOLDER}")
    for part in given.parts or [*(name for name in PARTS if name != "growth"), *TABLES]:
        began, args = time.monotonic(), argparse.Namespace(**vars(given))
        args.rounds = given.rounds or ROUNDS.get(part, 3)
        if part in TABLES:
            columns, make = TABLES[part]
            table = make(args)
            contest.show(part, columns, table)
            if not args.dry:
                keep(part, table=table)
        else:
            results = PARTS[part](args)
            found = list(bars(part, results, measured()))
            contest.show(f"{part}: medians of the rounds (worst in brackets)", contest.COLUMNS, contest.rows(results))
            if found:
                columns = ("bar", "wanted", "median of the rounds", "lowest", "highest", "met")
                contest.show("bars", columns, [tuple(map(_text, asdict(bar).values())) for bar in found])
            missed += [bar.what for bar in found if bar.met == "no"]
            wrong += any(run.mismatches for runs in results.values() for run in runs)
            if not args.dry and not wrong:
                runs = {who: [asdict(run) for run in runs] for who, runs in results.items()}
                keep(part, runs=runs, bars=[asdict(bar) for bar in found])
        say(f"{part}: {(time.monotonic() - began) / 60:.1f} minutes")
    if wrong:
        raise SystemExit("some products are wrong: the figures above are worth nothing")
    if missed:
        raise SystemExit(f"{len(missed)} bar(s) missed: {'; '.join(missed)}")


def _text(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
