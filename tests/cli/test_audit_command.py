"""`sellerwatch audit`: who did what, found again."""

from __future__ import annotations

import getpass

import pytest
from sqlalchemy import Engine
from tests import recorded
from tests.builders import NOW

from sellerwatch.kernel.ids import SellerId
from sellerwatch.oversight.audit import AuditEntry

from .cli_world import NAME, SELLER, CliWorld


def test_an_empty_trail_says_what_will_be_on_it(world: CliWorld) -> None:
    assert "every change" in world.said("audit", "list")
    assert world.json("audit", "list") == {"content": [], "next": None, "limit": 20}


def test_what_a_command_changed_is_there_with_who_did_it_and_before_and_after(world: CliWorld) -> None:
    world.register()
    world.said("sellers", "interval", SELLER, "--every", "6h")
    changed, registered = world.json("audit", "list")["content"]
    assert (registered["actor"], changed["actor"]) == ("test", f"cli:{getpass.getuser()}")
    assert registered["at"] == NOW.isoformat().replace("+00:00", "Z")
    assert (changed["action"], changed["subjectType"], changed["subjectId"]) == (
        "seller.update_interval",
        "seller",
        SELLER,
    )
    assert (changed["before"]["interval"], changed["after"]["interval"]) == ("rate(1 day)", "rate(6 hours)")
    assert registered["after"]["name"] == NAME


def test_people_see_what_differs_and_nothing_else(world: CliWorld) -> None:
    world.register()
    world.said("sellers", "interval", SELLER, "--every", "6h")
    newest = next(line for line in world.said("audit", "list").splitlines() if "update_interval" in line)
    assert "interval rate(1 day) -> rate(6 hours)" in newest
    assert "ACTIVE" not in newest


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("--subject", "seller"), ["other", SELLER]),
        (("--subject", f"seller:{SELLER}"), [SELLER]),
        (("--subject", SELLER), [SELLER]),
        (("--subject", "execution"), ["e:1"]),
        (("--subject", "execution:e:1"), ["e:1"]),
        (("--subject", "e:1"), ["e:1"]),
        (("--subject", "task:e:1"), []),
        (("--actor", "scheduler"), ["e:1"]),
        (("--actor", "test", "--limit", "1"), ["other"]),
    ],
)
def test_entries_are_found_by_what_was_changed_and_by_who_did_it(
    world: CliWorld, options: tuple[str, ...], found: list[str]
) -> None:
    world.register()
    world.register(SellerId("other"))
    world.do(lambda tx: tx.audit.record(AuditEntry(NOW, "scheduler", "crawl.start", "execution", "e:1")))
    assert [entry["subjectId"] for entry in world.json("audit", "list", *options)["content"]] == found


def test_one_entry_is_shown_by_its_number(world: CliWorld) -> None:
    world.register()
    (entry,) = world.json("audit", "list")["content"]
    number = str(entry["entryId"])
    assert world.json("audit", "show", number) == entry
    assert "seller.register" in world.said("audit", "show", number)
    refused = world("audit", "show", "99")
    assert (refused.returncode, refused.stderr) == (1, "error: There is no entry 99 in the audit trail.\n")


def test_a_search_that_finds_nothing_says_how_to_see_everything(world: CliWorld) -> None:
    assert "All of it: sellerwatch audit list" in world.said("audit", "list", "--actor", "cli:nobody")


@pytest.mark.parametrize(
    ("asked", "index"),
    [
        ({"subject_type": "seller", "subject_id": "x"}, "audit__idx_subject_type_subject_id_id"),
        ({"actor": "x"}, "audit__idx_actor_id"),
    ],
)
def test_the_trail_is_searched_by_its_indexes(engine: Engine, asked: dict[str, str], index: str) -> None:
    (statement,) = recorded.asked(engine, lambda tx: tx.audit.newest(limit=5, **asked))
    plan = recorded.plan(engine, statement)
    assert index in plan
    assert "TEMP B-TREE" not in plan
