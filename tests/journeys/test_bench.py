"""`make bench`: it runs, checks what it measures, and prints figures. How large they are is no test's business."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from dataclasses import asdict, replace
from http.client import HTTPConnection
from pathlib import Path

import orjson
from benchmarks.contest import BARE, DELIVERING, US, Market, Run, together, wrong_in_received
from benchmarks.page import _section
from benchmarks.performance import AGAIN, DELIVERY, PARTS, TABLES, Bar, bars
from benchmarks.receiver import receiver
from benchmarks.run import PARTS as BY_THEMSELVES

ROOT = Path(__file__).resolve().parents[2]


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "benchmarks" / "run.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def test_every_part_of_the_figures_may_be_asked_for_by_itself() -> None:
    assert set(BY_THEMSELVES) == {*PARTS, *TABLES}


def test_crawls_and_a_delivery_are_measured_beside_a_bare_loop_and_every_product_and_event_is_checked() -> None:
    phases = ("first", "again", "repriced", "delivery")
    done = bench("crawl", "--products", "30", "--rounds", "1", "--json", "--phases", *phases)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    assert list(results) == [
        "sellerwatch",
        "sellerwatch, unchanged again",
        "sellerwatch, every price changed",
        "sellerwatch, waiting events delivered",
        "bare aiohttp loop, the same events",
        "bare aiohttp loop",
    ]
    for who, (run,) in results.items():
        assert run["requests"] >= (30 if "events" in who else 61)
        assert run["mismatches"] == 0
        assert min(run["seconds"], run["cpu"], run["peak_mb"]) > 0
    # The database of a first crawl is new; bodies are far larger than what an unchanged one leaves.
    assert results["sellerwatch"][0]["grown"] > 30 * 4096 > results["sellerwatch, unchanged again"][0]["grown"] > 0


def test_a_crawl_that_delivers_is_over_when_its_events_are_delivered() -> None:
    done = bench("crawl", "--products", "20", "--rounds", "1", "--json", "--phases", "first", "--delivering")
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    assert list(results) == ["sellerwatch, events delivered too", "bare aiohttp loop"]
    assert [run["mismatches"] for (run,) in results.values()] == [0, 0]


def test_events_that_did_not_come_or_came_with_other_data_are_wrong() -> None:
    options = {"sellers": 1, "detail_kb": 4, "random_text": True, "volatile": False}
    with receiver() as url:
        market = Market("", url, 0, 3, options)
        truths = [market.truth.world.truth(item) for item in market.truth.world.listing("seller_0001")]
        for number, version, changed in ((0, 1, {}), (1, 1, {"stock": -1})):
            event = {"itemNo": truths[number]["itemNo"], "version": version, "productData": truths[number] | changed}
            with closing(HTTPConnection(url.removeprefix("http://"))) as connection:
                connection.request("POST", "/events", orjson.dumps(event))
                assert connection.getresponse().read() == b"ok"
        assert wrong_in_received(market) == 2


def test_a_bar_holds_by_the_median_and_a_miss_within_the_spread_is_marked() -> None:
    assert Bar.of("", True, 2.5, [2.4, 2.6, 2.7]).met == "yes"
    assert Bar.of("", True, 2.5, [2.4, 2.4, 2.7]).met == "within the spread"
    assert Bar.of("", True, 2.5, [2.3, 2.4, 2.4]).met == "no"
    assert Bar.of("", False, 12, [11, 13, 14]).met == "within the spread"
    assert Bar.of("", False, 12, [13, 13, 14]).met == "no"


def test_several_turns_as_one_have_the_mean_of_what_is_for_each_product() -> None:
    turn = Run("", requests=20, seconds=1, cpu=0.5, peak_mb=90, products=10, written=100 * 1024, grown=20 * 1024)
    both = together([turn, replace(turn, seconds=3, written=300 * 1024, grown=0)])
    assert (both.requests, both.rate, both.written_kb, both.grown_kb) == (40, 10, 20, 1)


def test_the_headline_and_the_bars_of_the_contest_are_made_of_its_rounds() -> None:
    names = (US, AGAIN, DELIVERY, DELIVERING, "Crawlee", "Scrapy", BARE)
    ours = Run(
        US, requests=1000, seconds=1, cpu=0.5, peak_mb=100, products=500, written=500 * 60 * 1024, grown=500 * 9000
    )
    results = {who: [replace(ours, who=who, cpu=cpu) for cpu in (0.4, 0.6, 0.5)] for who in names}
    results["Scrapy"] = [replace(run, seconds=3.0, cpu=2.0) for run in results["Scrapy"]]
    found = {bar.what: bar for bar in bars("contest", results, {})}
    assert found["req/s beside Scrapy"].met == "yes"
    assert found["CPU per request beside Scrapy"].reached == 0.25
    assert found["req/s beside Crawlee"].met == "no"
    assert found["KB on disk a product"].met == found["KB written a product"].met == "yes"
    part = {
        "machine": "a machine",
        "runs": {who: [asdict(run) for run in runs] for who, runs in results.items()},
        "bars": [asdict(bar) for bar in found.values()],
    }
    section = _section("contest", part)
    assert "| Scrapy | 1,000 | 333 (333) | 2.000 (2.000) | 67% | 100 | 8.8 | 60.0 |" in section
    assert "| req/s beside Crawlee | at least 1.5 | 1.00 | 1.00 to 1.00 | **no** |" in section


def test_the_instructions_of_each_request_of_a_crawl_are_counted() -> None:
    done = bench("instructions", "--products", "30", "--most", "1")
    assert done.returncode == 0, done.stderr
    first, _, again, _ = done.stdout.splitlines()[-4:]
    assert first.startswith("first: ")
    assert again.startswith("again: ")
    assert int(again.split()[1].replace(",", "")) > 1_000


def test_the_store_is_measured_beside_sqlite3_and_every_row_is_counted() -> None:
    done = bench("store", "--products", "150", "--rounds", "1", "--json")
    assert done.returncode == 0, done.stderr
    runs = json.loads(done.stdout.splitlines()[-1])
    assert [run["who"] for run in runs] == ["sqlite3 itself", "our store"]
    for run in runs:
        assert (run["products"], run["wrong"]) == (150, 0)
        assert min(run["seconds"], run["cpu"]) > 0


def test_the_lists_of_the_api_the_pages_and_the_readers_are_measured() -> None:
    done = bench("api", "--small", "--json")
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    assert {one["name"].partition(" ")[0] for one in results["lists"]} >= {"tasks", "products", "executions", "audit"}
    assert all(one["plans"] and one["cpu_ms"] > 0 for one in results["lists"])
    assert len(results["pages"]) >= 25
    assert all(page["cpu_ms"] > 0 and page["kilobytes"] > 4 for page in results["pages"])
    assert [run["readers"] for run in results["readers"]] == [0, 5]
    for run in results["readers"]:
        assert (run["tasks"], run["wrong"]) == (121, 0)


def test_a_benchmark_that_is_not_there_is_refused_with_those_that_are() -> None:
    done = bench("nothing")
    assert done.returncode == 2
    assert "crawl" in done.stderr


def test_freshness_is_measured_over_one_large_seller_and_many_small_ones() -> None:
    done = bench("freshness", "--products", "200", "--rounds", "1", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert {each["shape"] for each in found} == {"1 of 200", "2 of 100"}
    assert len(found) == 10
    assert min(each["best_ms"] for each in found) >= 0
