"""Measure the source of one or two checkouts: files and lines by folder, ports, classes, repetition, and one crawl.

    python -m scripts.measure_house                              this checkout
    python -m scripts.measure_house --before /path/to/checkout   two columns, for docs/decisions/

The files of one crawl are those of which a function runs between the start of `sellerwatch crawl` and the delivery of
the events, settings, command line and simulator left out.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from subprocess import DEVNULL

from scripts.surface_program import PATIENCE, Checkout

ROOT = Path(__file__).resolve().parent.parent
SURFACES = ("cli", "web/api", "web/console")
#: Lines that make a run which counts as repeated.
RUN_LENGTH = 6
#: Folders that a crawl needs, but that are no step of its way.
BESIDE_THE_WAY = ("cli", "settings", "simulator", "texts", "compose", "kernel", "logs.py", "__init__.py", "__main__.py")
#: Runs `sellerwatch` and writes down the files of which a function was called.
TRACER = """
import inspect, json, os, sys, threading
seen = set()
def note(frame, event, _):
    if event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        seen.add(frame.f_code.co_filename)
sys.setprofile(note); threading.setprofile(note)
from sellerwatch.cli.main import main
try:
    main()
finally:
    with open(os.environ["TRACE_TO"], "w") as out:
        json.dump(sorted(seen), out)
"""


def python_files(source: Path) -> list[Path]:
    return sorted((source / "src/sellerwatch").rglob("*.py"))


def folder_of(path: Path, source: Path) -> str:
    parts = path.relative_to(source / "src/sellerwatch").parts
    if parts[0] in ("adapters", "web") and len(parts) > 2:
        return "/".join(parts[:2])
    return parts[0] if len(parts) > 1 else "(top)"


def sizes(source: Path) -> dict[str, tuple[int, int]]:
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for path in python_files(source):
        folder = folder_of(path, source)
        files[folder] += 1
        lines[folder] += len(path.read_text("utf-8").splitlines())
    return {folder: (files[folder], lines[folder]) for folder in sorted(files)}


def classes(source: Path) -> Iterator[tuple[Path, ast.ClassDef]]:
    for path in python_files(source):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                yield path, node


def widest_port(source: Path) -> tuple[int, str]:
    """The most methods of a protocol in a `ports.py`; the tables of a transaction are properties, no methods."""
    found = [
        (
            sum(
                isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and not each.decorator_list
                for each in node.body
            ),
            node.name,
        )
        for path, node in classes(source)
        if path.name == "ports.py" and any("Protocol" in ast.unparse(base) for base in node.bases)
    ]
    return max(found)


def largest_class(source: Path) -> tuple[int, str]:
    """The most attributes that a class sets on itself."""
    return max(
        (
            len({each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute) and _is_set_on_self(each)}),
            node.name,
        )
        for _, node in classes(source)
    )


def _is_set_on_self(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id == "self"


def shape(line: str) -> str:
    """A line without its names, texts and numbers."""
    return re.sub(r"\w+", "w", re.sub(r"\"[^\"]*\"|'[^']*'", "s", line.strip()))


def repeated_lines(source: Path) -> int:
    """Lines of the surfaces in runs of six that stand, but for names, in another surface too."""
    runs: dict[str, set[tuple[str, ...]]] = {}
    placed: list[tuple[str, Path, int, tuple[str, ...]]] = []
    for surface in SURFACES:
        runs[surface] = set()
        for path in sorted((source / "src/sellerwatch" / surface).rglob("*.py")):
            lines = [line for line in path.read_text("utf-8").splitlines() if _counts(line)]
            shapes = [shape(line) for line in lines]
            for start in range(len(shapes) - RUN_LENGTH + 1):
                run = tuple(shapes[start : start + RUN_LENGTH])
                runs[surface].add(run)
                placed.append((surface, path, start, run))
    repeated = {
        (path, start + step)
        for surface, path, start, run in placed
        if any(run in runs[other] for other in SURFACES if other != surface)
        for step in range(RUN_LENGTH)
    }
    return len(repeated)


def _counts(line: str) -> bool:
    said = line.strip()
    return bool(re.search(r"\w", said)) and not said.startswith(("#", "import ", "from "))


def glossary_entries(source: Path) -> int:
    rows = [line for line in (source / "docs/glossary.md").read_text("utf-8").splitlines() if line.startswith("| ")]
    return sum(not row.startswith(("| word", "| ---", "| name")) for row in rows)


def local_imports(source: Path) -> int:
    return sum(path.read_text("utf-8").count("noqa: PLC0415") for path in python_files(source))


def crawled_files(source: Path) -> list[str]:
    """The files that one crawl of one seller and the delivery of its events pass."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = Checkout(source, folder, {})
        with program.running("simulator", "--port", "0", "--json", "--sellers", "1", "--products", "12") as said:
            doors = json.loads(said)
            settings = {"MARKETPLACE_URL": doors["marketplace"], "PRODUCT_SERVER_URL": doors["product_server"]}
            program = replace(program, settings=settings)
            program.run(["sellers", "add", "seller_0001", "--name", "seller"])
            trace = folder / "trace.json"
            words, variables = ["crawl", "seller_0001"], {"TRACE_TO": str(trace)}
            with program.start(words, code=TRACER, variables=variables, stdout=DEVNULL) as crawl:
                crawl.wait(PATIENCE)
        seen = json.loads(trace.read_text("utf-8"))
    package = source / "src/sellerwatch"
    named = {Path(file).relative_to(package).as_posix() for file in seen if file.startswith(f"{package}/")}
    return sorted(name for name in named if not name.startswith((*BESIDE_THE_WAY, "web/")))


def measured(source: Path) -> dict[str, str]:
    by_folder = sizes(source)
    port, port_name = widest_port(source)
    attributes, class_name = largest_class(source)
    every = [
        ("files", str(sum(files for files, _ in by_folder.values()))),
        ("lines", f"{sum(lines for _, lines in by_folder.values()):,}"),
        ("files of one crawl", str(len(crawled_files(source)))),
        ("widest port, methods", f"{port} ({port_name})"),
        ("largest class, attributes", f"{attributes} ({class_name})"),
        ("lines repeated between cli, api and console", str(repeated_lines(source))),
        ("imports inside functions", str(local_imports(source))),
        ("glossary entries", str(glossary_entries(source))),
    ]
    return dict(every) | {f"`{name}`: files, lines": f"{f}, {lines:,}" for name, (f, lines) in by_folder.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, default=ROOT)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--crawl", action="store_true", help="List the files of one crawl.")
    args = parser.parse_args()
    if args.crawl:
        sys.stdout.write("\n".join(crawled_files(args.source.resolve())) + "\n")
        return
    columns = [measured(each.resolve()) for each in (args.before, args.source) if each is not None]
    names = list(dict.fromkeys(name for column in columns for name in column))
    heads = ["before", "now"] if args.before else ["now"]
    rows = [["", *heads], ["---", *("---:" for _ in heads)]]
    rows += [[name, *(column.get(name, "-") for column in columns)] for name in names]
    sys.stdout.write("".join(f"| {' | '.join(row)} |\n" for row in rows))


if __name__ == "__main__":
    main()
