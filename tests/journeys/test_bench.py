"""`make bench`: it runs, checks what it measures, and prints figures. How large they are is no test's business."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.performance import PARTS
from benchmarks.run import PARTS as BY_THEMSELVES

ROOT = Path(__file__).resolve().parents[2]


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "benchmarks" / "run.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def test_every_part_of_the_figures_may_be_asked_for_by_itself() -> None:
    assert set(BY_THEMSELVES) == {*PARTS, "pieces"}


def test_the_crawl_is_measured_beside_a_bare_loop_and_every_product_is_checked() -> None:
    done = bench("crawl", "--products", "30", "--rounds", "1", "--json")
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    assert list(results) == ["sellerwatch", "sellerwatch, unchanged again", "bare aiohttp loop"]
    for (run,) in results.values():
        assert run["requests"] >= 61
        assert run["mismatches"] == 0
        assert min(run["seconds"], run["cpu"], run["peak_mb"]) > 0


def test_the_instructions_of_each_request_of_a_crawl_are_counted() -> None:
    done = bench("instructions", "--products", "30", "--most", "1")
    assert done.returncode == 0, done.stderr
    first, _, again, _ = done.stdout.splitlines()[-4:]
    assert first.startswith("first: ")
    assert again.startswith("again: ")
    assert int(again.split()[1].replace(",", "")) > 1_000


def test_delivery_is_measured_beside_a_bare_loop_and_every_event_is_checked() -> None:
    done = bench("outbox", "--events", "300", "--json")
    assert done.returncode == 0, done.stderr
    runs = json.loads(done.stdout.splitlines()[-1])
    assert [run["who"] for run in runs] == ["bare aiohttp loop", "sellerwatch"]
    for run in runs:
        assert (run["events"], run["wrong"]) == (300, 0)
        assert min(run["seconds"], run["cpu"], run["peak_mb"]) > 0


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
