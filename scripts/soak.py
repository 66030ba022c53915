"""`make soak`: what runs for long, one part after the other; SOAK_ARGS="fuzz --minutes 2" runs one with its options."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: The module of each part, and what it does.
PARTS = {
    "fuzz": ("tests.fuzz.soak", "made-up inputs for the readers of what others send us, ten minutes each"),
}


def main() -> int:
    chosen, *options = sys.argv[1:] or ["all"]
    if chosen not in (*PARTS, "all"):
        print(f"There is no part '{chosen}'; there are all, {', '.join(PARTS)}.", file=sys.stderr)
        return 2
    failed = 0
    for name, (module, what) in PARTS.items():
        if chosen in (name, "all"):
            print(f"\n== {name}: {what}", flush=True)
            failed += subprocess.run([sys.executable, "-m", module, *options], check=False, cwd=ROOT).returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
