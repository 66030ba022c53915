"""Compare two recordings of record_surface.py: what is gone, what is new, what has another type or value."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: A place in a recording: the case it belongs to ("" outside of cases), and the keys that lead there.
Place = tuple[str, str]
#: What a description of the API says for people only.
PROSE = re.compile(r"^described\..*(?<!\.properties)\.(description|examples|title)(\[\]|$)")
MOST_SHOWN = 160


def compare(before: Path, after: Path) -> int:
    """Print every difference; 1 where something that a caller may rely on is gone or ends otherwise, else 0."""
    old, new = files(before), files(after)
    if not old or not new:
        print(f"no recording in {before if not old else after}")
        return 2
    broken = differ = 0
    for name in sorted(old | new):
        if name not in new:
            lines, breaks = ["- missing"], True
        elif name not in old:
            lines, breaks = ["+ new"], False
        else:
            lines, breaks = differences(old[name], new[name])
        if lines:
            print("\n".join([name, *(f"  {line}" for line in lines)]))
        broken, differ = broken + breaks, differ + bool(lines)
    print(f"{len(old)} and {len(new)} commands and routes: {differ} differ, {broken} of them break callers")
    return 1 if broken else 0


def files(folder: Path) -> dict[str, Any]:
    found = sorted(folder.glob("*/*.json"))
    return {f"{path.parent.name}/{path.stem}": json.loads(path.read_text("utf-8")) for path in found}


def differences(old: Any, new: Any) -> tuple[list[str], bool]:
    """One line for each key that differs, with the cases where it does; whether a caller would break."""
    was, now = places(old), places(new)
    told: dict[str, list[str]] = defaultdict(list)
    breaks = False
    for case, path in sorted(was.keys() | now.keys()):
        before, after = was.get((case, path), set()), now.get((case, path), set())
        if not after:
            told[f"- removed {path}"].append(case)
            breaks |= not PROSE.search(path)
        elif not before:
            told[f"+ added {path}: {shown(after)}"].append(case)
        elif before != after:
            kind = "type" if {type(json.loads(v)) for v in before} != {type(json.loads(v)) for v in after} else "value"
            told[f"~ {kind} of {path}: {shown(before - after)} -> {shown(after - before)}"].append(case)
            breaks |= bool(case) and path in ("exit", "status")
    return [line + (f"  (in {in_cases(cases)})" if any(cases) else "") for line, cases in told.items()], breaks


def in_cases(cases: list[str]) -> str:
    return repr(cases[0]) + (f" and {len(cases) - 1} more" if len(cases) > 1 else "")


def shown(values: set[str]) -> str:
    text = " | ".join(sorted(values)) or "(nothing)"
    return text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + "..."


def places(recording: Any) -> dict[Place, set[str]]:
    """All values of each place as JSON. Entries of a list share a place: neither order nor number counts."""
    found: dict[Place, set[str]] = defaultdict(set)
    cases = recording.get("cases", {}) if isinstance(recording, dict) else {}
    rest = {key: value for key, value in recording.items() if key != "cases"} if cases else recording
    for case, content in (("", rest), *cases.items()):
        for path, value in leaves(content, ""):
            found[case, path].add(json.dumps(value, ensure_ascii=False))
    return found


def leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        if path:
            yield path, {}
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        yield path, []
        for inner in value:
            yield from leaves(inner, f"{path}[]")
    else:
        yield path, value
