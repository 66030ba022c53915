"""Writes the 100 user-agent strings that the migration 0004 seeds the agent pool with.

    python scripts/make_user_agents.py            write the file
    python scripts/make_user_agents.py --check    exit 1 if the file is not what this script makes

The mix is that of visitors to a Korean shop: mostly phones sold in Korea, then desktops. The same script makes the same
file; nothing is drawn by lot. Once released the list belongs to its migration and stays as it is: fresher strings are a
new file for a new migration.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

TARGET = Path(__file__).parents[1] / "src/sellerwatch/adapters/sql/migrations/user_agents.txt"
WANTED = 100

WINDOWS = "Windows NT 10.0; Win64; x64"
MAC = "Macintosh; Intel Mac OS X 10_15_7"
CHROME = range(148, 154)
WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)"
APPLE_WEBKIT = "AppleWebKit/605.1.15 (KHTML, like Gecko)"

# (model, Android version): Galaxy S, Z Flip, Z Fold, A, Note and Tab as sold in Korea (the N at the end).
PHONES = (
    ("SM-S938N", 16),
    ("SM-S936N", 16),
    ("SM-S931N", 16),
    ("SM-S928N", 16),
    ("SM-S926N", 16),
    ("SM-S921N", 16),
    ("SM-S918N", 15),
    ("SM-S911N", 15),
    ("SM-S908N", 15),
    ("SM-S901N", 15),
    ("SM-G998N", 15),
    ("SM-G991N", 14),
    ("SM-F741N", 16),
    ("SM-F731N", 15),
    ("SM-F956N", 16),
    ("SM-A556S", 15),
    ("SM-A546S", 15),
    ("SM-N986N", 13),
)
# (version in the operating system's part, version of Safari); from 26 on the former is frozen.
IPHONES = (
    ("18_6", "18.6"),
    ("18_7", "18.7"),
    ("18_7", "26.1"),
    ("18_7", "26.2"),
    ("18_7", "26.3"),
    ("18_7", "26.4"),
    ("18_7", "26.5"),
)
MAC_SAFARI = ("18.6", "26.1", "26.2", "26.3", "26.4", "26.5")
FIREFOX = range(150, 156)


def desktops() -> Iterator[str]:
    """Chrome, Edge, Safari and Firefox on Windows and macOS."""
    for version in CHROME:
        for system in (WINDOWS, MAC):
            yield f"Mozilla/5.0 ({system}) {WEBKIT} Chrome/{version}.0.0.0 Safari/537.36"
        yield f"Mozilla/5.0 ({WINDOWS}) {WEBKIT} Chrome/{version}.0.0.0 Safari/537.36 Edg/{version}.0.0.0"
    for version in CHROME[-2:]:
        yield f"Mozilla/5.0 ({MAC}) {WEBKIT} Chrome/{version}.0.0.0 Safari/537.36 Edg/{version}.0.0.0"
    for safari in MAC_SAFARI:
        yield f"Mozilla/5.0 ({MAC}) {APPLE_WEBKIT} Version/{safari} Safari/605.1.15"
    for version in FIREFOX:
        yield f"Mozilla/5.0 ({WINDOWS}; rv:{version}.0) Gecko/20100101 Firefox/{version}.0"
    for version in FIREFOX[-2:]:
        yield f"Mozilla/5.0 (Macintosh; Intel Mac OS X 10.15; rv:{version}.0) Gecko/20100101 Firefox/{version}.0"


def iphones() -> Iterator[str]:
    """Safari and Chrome on the iPhone."""
    for system, safari in IPHONES:
        phone = f"iPhone; CPU iPhone OS {system} like Mac OS X"
        yield f"Mozilla/5.0 ({phone}) {APPLE_WEBKIT} Version/{safari} Mobile/15E148 Safari/604.1"
    for version in CHROME[-5:]:
        phone = "iPhone; CPU iPhone OS 18_7 like Mac OS X"
        yield f"Mozilla/5.0 ({phone}) {APPLE_WEBKIT} CriOS/{version}.0.0.0 Mobile/15E148 Safari/604.1"


def androids() -> Iterator[str]:
    """Chrome in two versions and Samsung Internet on the phones; the version differs from model to model."""
    for place, (model, android) in enumerate(PHONES):
        phone = f"Linux; Android {android}; {model}"
        for version in (CHROME[place % 3], CHROME[3 + place % 3]):
            yield f"Mozilla/5.0 ({phone}) {WEBKIT} Chrome/{version}.0.0.0 Mobile Safari/537.36"
        samsung, chromium = ((29, 136), (30, 142))[place % 2]
        yield (
            f"Mozilla/5.0 ({phone}) {WEBKIT} SamsungBrowser/{samsung}.0 Chrome/{chromium}.0.0.0 Mobile Safari/537.36"
        )


def user_agents() -> list[str]:
    """All of them, interleaved by kind, so that the first few of the pool already are a mix."""
    kinds = [list(desktops()), list(iphones()), list(androids())]
    placed = [(place / len(kind), rank, text) for rank, kind in enumerate(kinds) for place, text in enumerate(kind)]
    found = [text for _, _, text in sorted(placed)]
    if len(set(found)) != WANTED or len(found) != WANTED:
        raise AssertionError(
            f"{WANTED} distinct strings are wanted, these are {len(found)}, {len(set(found))} distinct"
        )
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Makes the user-agent strings the agent pool is seeded with.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the file differs")
    parser.add_argument("--target", type=Path, default=TARGET, help="the file to write or check")
    options = parser.parse_args(arguments)
    target: Path = options.target
    made = "\n".join(user_agents()) + "\n"
    if not options.check:
        target.write_text(made, encoding="ascii")
        return 0
    if target.is_file() and target.read_text(encoding="ascii") == made:
        return 0
    print(f"{target} differs from what the script makes; run: python scripts/make_user_agents.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
