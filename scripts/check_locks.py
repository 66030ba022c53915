"""A lock names packages and hashes, never where they come from: an address would bind everybody to one registry."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ADDRESS = re.compile(r"https?://|index-url|find-links", re.IGNORECASE)
FORBIDDEN = ("uv.lock", "pylock.toml")


def problems() -> list[str]:
    found = []
    for lock in (*sorted(ROOT.glob("requirements*.lock")), *sorted(ROOT.glob("benchmarks/**/*.lock"))):
        for number, line in enumerate(lock.read_text("utf-8").splitlines(), 1):
            if ADDRESS.search(line):
                found.append(f"{lock.name}:{number}: an address: {line.strip()[:80]}")
            elif re.match(r"[a-z0-9]", line) and not line.rstrip().endswith("\\"):
                found.append(f"{lock.name}:{number}: no hash: {line.strip()[:80]}")
    ignored = (ROOT / ".gitignore").read_text("utf-8").split()
    return found + [f"{name} is not git-ignored" for name in FORBIDDEN if name not in ignored]


if __name__ == "__main__":
    listed = problems()
    print("\n".join(listed) or "locks are fine")
    sys.exit(1 if listed else 0)
