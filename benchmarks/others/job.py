"""The job that the others do, the same for each: what is asked, what is kept, how it is timed.

One seller: its list pages, then the detail and the options of every product. Every answer is parsed as JSON and hashed
(md5 over the sorted fields) part by part; products, raw bodies and an outbox row each go to SQLite, 100 products a
transaction. No limiter, leases, retries, history or resume: that is what the others do not have.

Only the standard library and orjson in here: it runs in the environment of the others as well as in ours.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import sqlite3
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

SELLER = "seller_0001"
PAGE_SIZE = 500
PARTS = ("MINISHOP", "DETAIL", "OPTION")
GROUP = 100
API = "/mustit-api"

SCHEMA = """
PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;
CREATE TABLE products (item_no INTEGER PRIMARY KEY, minishop TEXT, detail TEXT, options TEXT);
CREATE TABLE raw (item_no INTEGER, part TEXT, hash TEXT, body BLOB, PRIMARY KEY (item_no, part));
CREATE TABLE outbox (id INTEGER PRIMARY KEY, item_no INTEGER, payload BLOB, sent INTEGER DEFAULT 0);
"""


def list_path(page: int) -> str:
    query = f"sellerId={SELLER}&pageNo={page}&pageSize={PAGE_SIZE}&order=LATEST"
    return f"{API}/facade-api/v1/searchmini-shop-search?{query}"


def detail_path(item_no: int) -> str:
    return f"{API}/facade-api/v1/item/{item_no}/detail/top"


def options_path(item_no: int) -> str:
    return f"{API}/legacy-api/v1/auction_products/{item_no}/options"


def sign_in(url: str) -> dict[str, str]:
    """The headers of a guest session; before the clock runs."""
    request = urllib.request.Request(url + "/", headers={"User-Agent": "bench"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        set_cookies = answer.headers.get_all("set-cookie")
    jar = dict(line.partition(";")[0].split("=", 1) for line in set_cookies)
    cookie = f"nid={jar['nid']}; mustit_uid={jar['mustit_uid']}"
    return {"User-Agent": "bench", "Authorization": f"Bearer {jar['token']}", "Cookie": cookie}


@dataclass
class Shop:
    """What was seen of the seller so far, and its tables."""

    path: Path
    requests: int = 0
    items: int = 0
    _seen: dict[int, dict[str, tuple[str, bytes]]] = field(default_factory=dict)
    _whole: list[tuple[int, dict[str, tuple[str, bytes]]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._database = sqlite3.connect(self.path, isolation_level=None)
        self._database.executescript(SCHEMA)

    def page(self, body: bytes) -> list[int]:
        """The items of a list page; none: that was the last."""
        self.requests += 1
        entries = orjson.loads(body)["items"]
        for entry in entries:
            self._seen[entry["itemNo"]] = {"MINISHOP": _part(entry, orjson.dumps(entry))}
        self.items += len(entries)
        return [entry["itemNo"] for entry in entries]

    def part(self, item_no: int, part: str, body: bytes) -> None:
        self.requests += 1
        parts = self._seen[item_no]
        parts[part] = _part(orjson.loads(body), body)
        if len(parts) == len(PARTS):
            self._whole.append((item_no, self._seen.pop(item_no)))
            if len(self._whole) >= GROUP:
                self.flush()

    def flush(self) -> None:
        run, whole = self._database, self._whole
        run.execute("BEGIN IMMEDIATE")
        run.executemany("INSERT INTO products VALUES (?, ?, ?, ?)", [(i, *(p[n][0] for n in PARTS)) for i, p in whole])
        run.executemany("INSERT INTO raw VALUES (?, ?, ?, ?)", [(i, n, *p[n]) for i, p in whole for n in PARTS])
        run.executemany(
            "INSERT INTO outbox (item_no, payload) VALUES (?, ?)",
            [(i, orjson.dumps({"itemNo": i, "event": "CREATED", **{n: p[n][0] for n in PARTS}})) for i, p in whole],
        )
        run.execute("COMMIT")
        whole.clear()


def _part(value: Any, body: bytes) -> tuple[str, bytes]:
    ordered = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return hashlib.md5(ordered, usedforsecurity=False).hexdigest(), body


class Meter:
    """CPU of this process, its threads and its children, and the time on the wall, since it was made; bytes that it
    wrote to disk, and the size of its database."""

    def __init__(self, database: Path) -> None:
        self._database, self._written = database, _written()
        self._cpu, self._began = _cpu(), time.perf_counter()

    def read(self, requests: int) -> dict[str, float]:
        seconds, cpu, peak_mb = time.perf_counter() - self._began, _cpu() - self._cpu, _peak_mb()
        disk = _whole_size(self._database)
        written = _written() - self._written
        return {
            "requests": requests,
            "seconds": seconds,
            "cpu": cpu,
            "peak_mb": peak_mb,
            "disk": disk,
            "written": written,
        }


def _written() -> int:
    """Bytes that this process made the kernel write: a page that is written again before it is on disk counts once."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes"))


def _whole_size(database: Path) -> int:
    """Bytes of a database once all of its write-ahead log is in the file; this process writes it there."""
    if not database.exists():
        return 0
    opened = sqlite3.connect(database)
    try:
        opened.execute("PRAGMA wal_checkpoint(PASSIVE)")
        ((pages,),) = opened.execute("PRAGMA page_count")
        ((size,),) = opened.execute("PRAGMA page_size")
    finally:
        opened.close()
    return int(pages * size)


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _peak_mb() -> float:
    """Not from getrusage: there a child counts its parent's memory from before it became itself."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def pin(core: int) -> None:
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[core % len(cores)]})


def arguments() -> tuple[str, Shop]:
    """What a contestant is started with; from here on it is on its own core."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--database", type=Path, required=True)
    given = parser.parse_args()
    pin(1)
    return given.url, Shop(given.database)


def tell(measured: dict[str, float]) -> None:
    print(json.dumps([measured]), flush=True)
