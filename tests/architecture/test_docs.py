"""Files that the documentation names exist: in text between backticks, and behind links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src/sellerwatch"
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "docs/decisions").glob("*.md"),
    ]
)

_CODE = re.compile(r"`([^`\n]+)`")
_FILE = re.compile(r"[\w./-]+\.(?:py|md|toml|html|sql|txt|yaml|lock)|\.importlinter|(?:[\w-]+/)+")
#: A file that the reader makes.
_SAVED = re.compile(r"Save .*as `([\w.]+)`")
_LINK = re.compile(r"\]\(([^)#\s]+)")
#: Files of an installation or of the requirement papers, and names that stand for any file.
ELSEWHERE = {"event.md", "marketplace-contract.md", "commands.py", "queries.py", "ports.py", "secrets/"}


def named_files(text: str) -> list[str]:
    """Return the files and folders between backticks. A folder ends with a slash."""
    text = _SAVED.sub("", text)
    return [name for code in _CODE.findall(text) for name in [code.strip()] if _FILE.fullmatch(name)]


def linked_files(text: str) -> list[str]:
    return [target for target in _LINK.findall(text) if "://" not in target and not target.startswith("mailto:")]


def exists(name: str, page: Path) -> bool:
    if name in ELSEWHERE or any((base / name).exists() for base in (ROOT, PACKAGE, page.parent)):
        return True
    # A bare file name, or the end of a path, stands for a file of the package or of the repository.
    ends = [path for folder in ("src", "tests", "scripts", "benchmarks", "docs") for path in (ROOT / folder).rglob("*")]
    return any(path.as_posix().endswith(f"/{name.rstrip('/')}") for path in ends)


def missing(text: str, page: Path) -> list[str]:
    named = [name for name in named_files(text) if not exists(name, page)]
    return named + [target for target in linked_files(text) if not (page.parent / target).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    assert missing(page.read_text("utf-8"), page) == []


_TEST = re.compile(r"`([\w/]+\.py)(?:::(\w+))?`")


def rows_without_tests(text: str) -> list[str]:
    """Return the rows of the table of threats that name no test, or one that does not exist."""
    table = text.partition("## Threats")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    return [row for row in rows[2:] if not all(map(_is_test, _TEST.findall(row) or [("", "")]))]


def _is_test(named: tuple[str, str]) -> bool:
    file, function = ROOT / "tests" / named[0], named[1]
    return file.is_file() and (not function or f"def {function}(" in file.read_text("utf-8"))


def test_every_threat_names_tests_that_exist() -> None:
    text = (ROOT / "docs/security.md").read_text("utf-8")
    assert rows_without_tests(text) == []
    assert len(_TEST.findall(text)) > 60
    plants = "| who | wants | stops | `web/test_forged.py::test_nothing` |\n| who | wants | stops | |\n"
    assert len(rows_without_tests(text.replace("\n## Keys", f"{plants}\n## Keys"))) == 2


def test_the_tour_names_the_files_of_a_crawl() -> None:
    named = [name for name in named_files((ROOT / "docs/architecture.md").read_text("utf-8")) if name.endswith(".py")]
    assert len(set(named)) >= 35


@pytest.mark.parametrize(
    "plant",
    [
        "see `crawling/telling.py`",
        "see `cli/desk.py`",
        "in `pockets/`",
        "[the way](crawl.md)",
        "`tests/nowhere/test_x.py`",
    ],
)
def test_a_planted_name_is_caught(plant: str) -> None:
    assert missing(plant, ROOT / "docs/architecture.md") != []


@pytest.mark.parametrize("fine", ["`kernel/clock.py`", "`http1.py`", "`make docs`", "`/health`", "[the API](api.md)"])
def test_what_exists_passes(fine: str) -> None:
    assert missing(fine, ROOT / "docs/architecture.md") == []
