"""Names are plain: every word of a public class or module is in the glossary or an ordinary one (`plain_words.txt`)."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src/sellerwatch"
GLOSSARY = ROOT / "docs/glossary.md"
PLAIN_WORDS = Path(__file__).with_name("plain_words.txt")
MAX_ENTRIES = 79

#: Words of the dialect this code was once written in. They name nothing that a newcomer could guess.
_DIALECT = """
anew brake charge dance deed desk door draw glance hungry ill known luck mine office one ours pocket said shelf
sitting standing story tale telling terms those told turn turnstile whoever
"""
DIALECT = frozenset(_DIALECT.split())

#: What worlds of tests were called before they were called `world`.
OLD_WORLDS = {"desk", "ground", "office", "practice", "stage"}

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")


def words_of(name: str) -> list[str]:
    """Return the words of an identifier in lower case: `SqlOutbox` and `sql_outbox` have the same two."""
    return [word.lower() for word in _WORD.findall(name)]


def public_classes(source: str) -> list[str]:
    return [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]


def parameters(source: str) -> set[str]:
    return {node.arg for node in ast.walk(ast.parse(source)) if isinstance(node, ast.arg)}


def names() -> Iterator[tuple[str, str]]:
    """Yield every module, folder and public class as `(place, name)`; migrations are named by number."""
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE)
        if "versions" in place.parts:
            continue
        for part in place.with_suffix("").parts:
            yield place.as_posix(), part.strip("_")
        for name in public_classes(path.read_text("utf-8")):
            yield place.as_posix(), name


def glossary_entries(text: str) -> list[str]:
    rows = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")]
    return [entry for entry in rows if entry != "word" and entry.strip("-: ")]


def glossary_words() -> set[str]:
    words = {word for entry in glossary_entries(GLOSSARY.read_text("utf-8")) for word in words_of(entry.lower())}
    return words | {f"{word}s" for word in words}


def plain_words() -> list[str]:
    lines = PLAIN_WORDS.read_text("utf-8").splitlines()
    return [word for line in lines if not line.startswith("#") for word in line.split()]


def unexplained(found: Iterable[tuple[str, str]]) -> list[str]:
    allowed = glossary_words() | set(plain_words())
    return [f"{place}: {name}: {word}" for place, name in found for word in words_of(name) if word not in allowed]


def shared(classes: Iterable[str]) -> list[str]:
    return sorted(name for name, number in Counter(classes).items() if number > 1)


def all_classes() -> list[str]:
    return [name for path in PACKAGE.rglob("*.py") for name in public_classes(path.read_text("utf-8"))]


def test_every_word_of_a_name_is_in_the_glossary_or_plain() -> None:
    assert unexplained(names()) == []


def test_every_public_class_has_a_name_of_its_own() -> None:
    assert shared(all_classes()) == []


def test_the_glossary_stays_short_and_names_nothing_twice() -> None:
    entries = glossary_entries(GLOSSARY.read_text("utf-8"))
    assert len(entries) <= MAX_ENTRIES
    assert len(entries) == len(set(entries))


def test_the_plain_words_are_all_in_use_and_sorted() -> None:
    words = plain_words()
    assert words == sorted(set(words))
    used = {word for _, name in names() for word in words_of(name)}
    assert sorted(set(words) - used) == []
    assert sorted(set(words) & glossary_words()) == []


def test_no_word_of_the_dialect_is_a_plain_word() -> None:
    assert sorted(set(plain_words()) & DIALECT) == []


def test_a_test_takes_a_world_by_that_name() -> None:
    paths = (ROOT / "tests").rglob("*.py")
    assert [(path.name, name) for path in paths for name in parameters(path.read_text("utf-8")) & OLD_WORLDS] == []


@pytest.mark.parametrize(
    "name", ["crawling/pocket.py", "KnownShelf", "SqlTale", "turn", "glances", "ProductsTold", "TheHungry"]
)
def test_a_planted_name_is_caught(name: str) -> None:
    assert unexplained([("a plant", name)]) != []


def test_a_planted_world_of_another_name_is_caught() -> None:
    assert parameters("async def test_it(office: ApiWorld) -> None: ...") & OLD_WORLDS == {"office"}


def test_a_planted_second_class_of_a_name_is_caught() -> None:
    assert shared([*all_classes(), *public_classes("class Seller: ...\nclass _Seller: ...")]) == ["Seller"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("SqlOutbox", ["sql", "outbox"]),
        ("AWSUnavailable", ["aws", "unavailable"]),
        ("http1", ["http"]),
        ("x_of", ["x", "of"]),
    ],
)
def test_a_name_is_split_into_its_words(name: str, words: list[str]) -> None:
    assert words_of(name) == words
