"""Write the software bill of materials (CycloneDX 1.5, JSON) of an installation to standard output: `make sbom`.

It is made from requirements.lock, which the image installs with its hashes; so it names exactly what runs.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
_PACKAGE = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\\n]+)", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def components(lock: str) -> list[dict[str, object]]:
    """Return each locked package with its version and the hashes of its files."""
    starts = list(_PACKAGE.finditer(lock))
    ends = [found.start() for found in starts[1:]] + [len(lock)]
    return [
        {
            "type": "library",
            "name": found[1],
            "version": found[2],
            "purl": f"pkg:pypi/{found[1].lower().replace('_', '-')}@{found[2]}",
            "hashes": [{"alg": "SHA-256", "content": each} for each in _HASH.findall(lock[found.start() : end])],
        }
        for found, end in zip(starts, ends, strict=True)
    ]


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": project["name"], "version": project["version"]}},
        "components": components((ROOT / "requirements.lock").read_text("utf-8")),
    }
    json.dump(bill, sys.stdout, indent=2)


if __name__ == "__main__":
    main()
