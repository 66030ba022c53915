"""`sellerwatch sellers`: registering, looking, changing; each change on the audit trail with before and after."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.agents.outages import answer_503
from tests.builders import a_complete_product, a_product
from tests.world import due_messages

from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.agents.marketplace_circuit import Endpoint
from sellerwatch.crawling.execution import ExecutionStatus
from sellerwatch.crawling.task import TaskStatus
from sellerwatch.kernel.ids import SellerId
from sellerwatch.outbox.message import OutboxKind
from sellerwatch.schedules.interval import CrawlingInterval
from sellerwatch.schedules.next_run import tick
from sellerwatch.schedules.schedule import Schedule

from .cli_world import NAME, NOW, SELLER, CliWorld, execution_id, task_id, task_number
from .conftest import Run, clean_environment, refused


def schedule_of(world: CliWorld, seller_id: SellerId = SELLER) -> Schedule:
    found = world.see(lambda tx: tx.schedules.of_seller(seller_id))
    assert found is not None
    return found


def test_with_no_sellers_the_list_says_how_to_register_one(world: CliWorld) -> None:
    assert "sellerwatch sellers add SELLER_ID --name NAME" in world.said("sellers", "list")
    assert world.json("sellers", "list") == {
        "content": [],
        "page": 0,
        "size": 20,
        "totalElements": 0,
        "totalPages": 0,
    }


def test_a_seller_is_registered_under_its_korean_name_and_first_runs_one_interval_later(world: CliWorld) -> None:
    before = datetime.now(UTC)
    said = world.said("sellers", "add", SELLER, "--name", NAME, "--every", "6h")
    assert f"Registered {SELLER} ({NAME}), crawled every 6 hours." in said
    assert f"sellerwatch crawl {SELLER}" in said
    seller = world.see(lambda tx: tx.sellers.get(SELLER))
    assert seller is not None
    assert (seller.name, seller.interval) == (NAME, CrawlingInterval.of_hours(6))
    next_run_at = schedule_of(world).next_run_at
    assert next_run_at is not None
    assert timedelta(hours=6) <= next_run_at - before < timedelta(hours=6, minutes=1)


def test_the_answer_is_the_sellers_as_the_api_gives_it(world: CliWorld) -> None:
    answer = world.json("sellers", "add", SELLER, "--name", NAME)
    assert answer["createdAt"] == answer["updatedAt"]
    assert datetime.strptime(answer.pop("createdAt"), "%Y-%m-%dT%H:%M:%S.%f%z").tzinfo is not None
    assert answer.pop("updatedAt").endswith("Z")
    assert answer.pop("nextRunAt").endswith("Z")
    assert answer == {
        "sellerId": SELLER,
        "name": NAME,
        "status": "ACTIVE",
        "crawlingIntervalDays": 1,
        "interval": {"amount": 1, "unit": "DAYS"},
        "totalProductCount": 0,
        "dryRun": False,
    }


def test_registering_tells_the_scheduler_and_is_on_the_trail(world: CliWorld) -> None:
    world.said("sellers", "add", SELLER, "--name", NAME)
    (entry,) = world.trail()
    assert (entry.action, entry.subject_type, entry.subject_id) == ("seller.register", "seller", SELLER)
    assert entry.before is None
    assert entry.after == {"name": NAME, "status": "ACTIVE", "interval": "rate(1 day)"}
    due = world.see(lambda tx: due_messages(tx, OutboxKind.SCHEDULER, datetime.now(UTC), 10))
    assert [message.event_type for message in due] == ["SCHEDULE_REGISTERED"]


@pytest.mark.parametrize("number", range(5))
def test_crawl_now_is_due_at_the_schedulers_very_next_turn_whatever_the_sellers_spread(
    world: CliWorld, number: int
) -> None:
    seller_id = SellerId(f"seller_{number}")
    said = world.said("sellers", "add", seller_id, "--name", NAME, "--every", "30d", "--crawl-now")
    assert "a running `sellerwatch serve` starts it" in said
    assert f"`sellerwatch crawl {seller_id}` runs it here" in said
    schedule, now = schedule_of(world, seller_id), datetime.now(UTC)
    assert [found.seller_id for found in world.see(lambda tx: tx.schedules.due(now))] == [seller_id]
    turn = tick(schedule, now)
    assert turn is not None
    assert turn.skipped == 0
    assert turn.next_run_at > now + timedelta(days=29)
    now_entry, register_entry = world.trail()
    assert (register_entry.action, now_entry.action) == ("seller.register", "schedule.run_now")
    assert now_entry.before is not None
    assert now_entry.before != now_entry.after


def test_a_seller_that_is_registered_already_is_refused_and_nothing_changes(world: CliWorld) -> None:
    world.register()
    before = world.everything()
    done = world("sellers", "add", SELLER, "--name", "another", "--every", "2d", "--crawl-now")
    assert refused(done, 1) == f"The seller {SELLER} is already registered."
    assert world.everything() == before


@pytest.mark.parametrize("every", ["0d", "31d", "24h", "0h", "999999999d"])
def test_an_interval_out_of_range_is_bad_usage_and_names_the_range(world: CliWorld, every: str) -> None:
    said = refused(world("sellers", "add", SELLER, "--name", NAME, "--every", every), 2)
    assert "from 1 to" in said
    assert world.see(lambda tx: tx.sellers.get(SELLER)) is None


@pytest.mark.parametrize("every", ["", "d", "6", "-1d", "1.5d", "4w", "1d2h", "٣d", "9" * 5000 + "d"])
def test_an_interval_that_cannot_be_read_is_bad_usage_and_shows_how_to_write_one(world: CliWorld, every: str) -> None:
    world.register()
    before = world.everything()
    assert "such as 1d or 6h" in refused(world("sellers", "interval", SELLER, f"--every={every}"), 2)
    assert world.everything() == before


@pytest.mark.parametrize("every", ["6h", "6H", "6 hours", " 6hour "])
def test_an_interval_may_be_written_as_people_write_it(world: CliWorld, every: str) -> None:
    answer = world.json("sellers", "add", SELLER, "--name", NAME, "--every", every)
    assert answer["interval"] == {"amount": 6, "unit": "HOURS"}
    assert answer["crawlingIntervalDays"] is None


@pytest.mark.parametrize("name", ["", "   ", "가" * 201])
def test_a_name_that_is_none_is_bad_usage(world: CliWorld, name: str) -> None:
    refused(world("sellers", "add", SELLER, "--name", name), 2)
    assert world.see(lambda tx: tx.sellers.page(status=None, offset=0, limit=1))[1] == 0


def test_a_name_that_is_no_text_is_bad_usage_in_one_sentence(database_file: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sellerwatch", "sellers", "add", "s1", "--name", b"\xff\xfe"],
        cwd=tmp_path,
        env=clean_environment(DATABASE_URL=f"sqlite:///{database_file}"),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert refused(done, 2).endswith("is not UTF-8 text.")


@pytest.mark.parametrize(
    "arguments",
    [("show",), ("interval", "--every", "6h"), ("activate",), ("deactivate",)],
    ids=lambda arguments: str(arguments[0]),
)
def test_an_unknown_seller_is_one_sentence(world: CliWorld, arguments: tuple[str, ...]) -> None:
    command, *options = arguments
    said = refused(world("sellers", command, "없는판매자", *options), 1)
    assert said == "There is no seller 없는판매자. `sellerwatch sellers list` lists all sellers."


def test_the_list_shows_names_as_they_are_and_can_be_narrowed_to_a_state(world: CliWorld) -> None:
    world.register()
    world.register(SellerId("seller_2"), "Shop 2")
    world.said("sellers", "deactivate", "seller_2")
    shown = world.said("sellers", "list")
    assert NAME in shown
    assert "Shop 2" in shown
    (active,) = world.json("sellers", "list", "--status", "active")["content"]
    assert (active["sellerId"], active["name"]) == (SELLER, NAME)
    (inactive,) = world.json("sellers", "list", "--status", "INACTIVE")["content"]
    assert (inactive["sellerId"], inactive["status"]) == ("seller_2", "INACTIVE")


def test_the_list_comes_in_pages(world: CliWorld) -> None:
    for number in range(5):
        world.register(SellerId(f"s{number}"))
    page = world.json("sellers", "list", "--page", "1", "--size", "2")
    assert [seller["sellerId"] for seller in page["content"]] == ["s2", "s3"]
    assert (page["page"], page["size"], page["totalElements"], page["totalPages"]) == (1, 2, 5, 3)
    assert "--page 2" in world.said("sellers", "list", "--page", "1", "--size", "2")
    assert "there are 5 sellers" in world.said("sellers", "list", "--page", "9")


@pytest.mark.parametrize("options", [("--size", "0"), ("--size", "101"), ("--page", "-1"), ("--status", "GONE")])
def test_a_list_option_out_of_range_is_bad_usage(world: CliWorld, options: tuple[str, str]) -> None:
    assert world("sellers", "list", *options).returncode == 2


def test_show_tells_of_schedule_products_progress_and_the_last_runs(world: CliWorld) -> None:
    world.register()
    world.run_of(done=3, failed=1)

    def crawl(tx: Transaction) -> None:
        tx.products.add([a_complete_product(1), a_complete_product(2, deleted_at=NOW), a_product(3)])
        seller = tx.sellers.get(SELLER)
        assert seller is not None
        tx.sellers.save(seller.update_total_product_count(4, NOW))

    world.do(crawl)
    shown = world.json("sellers", "show", SELLER)
    assert shown["name"] == NAME
    assert shown["totalProductCount"] == 4
    assert shown["products"] == {"present": 2, "complete": 1, "deleted": 1}
    assert shown["progressRate"] == 25.0
    assert shown["schedule"]["scheduleExpression"] == "rate(1 day)"
    (execution,) = shown["executions"]
    assert (execution["status"], execution["completedTasks"], execution["failedTasks"]) == ("COMPLETED", 3, 1)
    said = world.said("sellers", "show", SELLER)
    for part in (NAME, "2 (1 complete), 1 deleted", "25.0 %", execution_id()):
        assert part in said


def test_show_of_a_seller_never_crawled_says_how_to_crawl_it(world: CliWorld) -> None:
    world.register()
    assert f"sellerwatch crawl {SELLER}" in world.said("sellers", "show", SELLER)
    assert world.json("sellers", "show", SELLER)["progressRate"] == 0


def test_a_new_interval_counts_from_now_and_is_on_the_trail(world: CliWorld) -> None:
    world.register()
    before = datetime.now(UTC)
    assert "every 6 hours" in world.said("sellers", "interval", SELLER, "--every", "6h")
    next_run_at = schedule_of(world).next_run_at
    assert next_run_at is not None
    assert timedelta(hours=6) <= next_run_at - before < timedelta(hours=6, minutes=1)
    (entry,) = world.trail()
    assert entry.action == "seller.update_interval"
    assert entry.before == {"name": NAME, "status": "ACTIVE", "interval": "rate(1 day)"}
    assert entry.after == {"name": NAME, "status": "ACTIVE", "interval": "rate(6 hours)"}


def test_a_seller_is_deactivated_and_activated_again_each_on_the_trail(world: CliWorld) -> None:
    world.register()
    answer = world.json("sellers", "deactivate", SELLER)
    assert (answer["status"], answer["endedExecution"]) == ("INACTIVE", None)
    assert schedule_of(world).next_run_at is None
    assert world.json("sellers", "activate", SELLER)["status"] == "ACTIVE"
    assert schedule_of(world).next_run_at is not None
    activated, deactivated = world.trail()
    assert (deactivated.action, activated.action) == ("seller.deactivate", "seller.activate")
    for entry, states in ((deactivated, ("ACTIVE", "INACTIVE")), (activated, ("INACTIVE", "ACTIVE"))):
        assert entry.before is not None
        assert entry.after is not None
        assert (entry.before["status"], entry.after["status"]) == states


@pytest.mark.parametrize("command", ["activate", "deactivate"])
def test_what_is_so_already_is_refused_and_nothing_changes(world: CliWorld, command: str) -> None:
    world.register()
    if command == "deactivate":
        world.said("sellers", "deactivate", SELLER)
    before = world.everything()
    assert SELLER in refused(world("sellers", command, SELLER), 1)
    assert world.everything() == before


def test_the_interval_of_an_inactive_seller_cannot_be_changed(world: CliWorld) -> None:
    world.register()
    world.said("sellers", "deactivate", SELLER)
    before = world.everything()
    assert "INACTIVE" in refused(world("sellers", "interval", SELLER, "--every", "6h"), 1)
    assert world.everything() == before


def test_deactivating_ends_the_run_that_is_going_what_waits_is_cancelled_what_is_in_flight_finishes(
    world: CliWorld,
) -> None:
    world.register()
    world.run_of(done=1, waiting=2, going=1)
    said = world.said("sellers", "deactivate", SELLER)
    assert "2 waiting tasks cancelled, 1 in flight finish" in said
    run = world.see(lambda tx: tx.executions.get(execution_id()))
    assert run is not None
    assert (run.status, run.completed_tasks, run.failed_tasks) == (ExecutionStatus.FAILED, 1, 2)
    first = task_number()
    assert world.tasks() == {
        task_id(first): TaskStatus.COMPLETED,
        task_id(first + 1): TaskStatus.FAILED,
        task_id(first + 2): TaskStatus.FAILED,
        task_id(first + 3): TaskStatus.IN_PROGRESS,
    }
    assert {entry.action for entry in world.trail()} == {"seller.deactivate", "execution.cancel"}


@pytest.mark.parametrize(
    ("command", "options"),
    [("add", ("--name", NAME, "--crawl-now")), ("interval", ("--every", "6h")), ("deactivate", ())],
)
def test_a_dry_run_shows_what_would_be_done_and_changes_nothing(
    world: CliWorld, command: str, options: tuple[str, ...]
) -> None:
    seller = "seller_new" if command == "add" else SELLER
    world.register()
    world.run_of(waiting=2, going=1)
    before = world.everything()
    shown = world.json("sellers", command, seller, *options, "--dry-run")
    assert (shown["sellerId"], shown["dryRun"]) == (seller, True)
    if command == "deactivate":
        ended = shown["endedExecution"]
        assert (ended["executionId"], ended["cancelledTasks"], ended["tasksInFlight"]) == (execution_id(), 2, 1)
    assert "Nothing was changed." in world.said("sellers", command, seller, *options, "--dry-run")
    assert world.everything() == before
    assert world("sellers", "activate", SELLER, "--dry-run").returncode == 1


def test_the_list_is_narrowed_by_a_part_of_the_name_and_by_freshness(world: CliWorld) -> None:
    world.register()
    world.register(SellerId("seller_2"), "Shop 2")
    world.said("sellers", "deactivate", "seller_2")
    for options, found in (
        (("--search", "shop"), ["seller_2"]),
        (("--freshness", "off"), ["seller_2"]),
        (("--freshness", "fresh"), []),
    ):
        page = world.json("sellers", "list", *options)
        assert [seller["sellerId"] for seller in page["content"]] == found
        assert page["totalElements"] == len(found)
    assert "No seller matches" in world.said("sellers", "list", "--freshness", "fresh")


def test_show_says_what_waits_for_a_person(world: CliWorld) -> None:
    world.register()
    world.said("marketplace", "pause", "--seller", SELLER)
    shown = world.json("sellers", "show", SELLER)
    assert (shown["pause"]["sellerId"], shown["isEverythingPaused"]) == (SELLER, False)
    assert (shown["openCases"], shown["heldRemovalId"]) == (0, None)
    assert f"by {shown['pause']['pausedBy']}" in world.said("sellers", "show", SELLER)


def test_sellers_are_shown_in_korean(world: CliWorld) -> None:
    assert "판매자를 등록했습니다" in world("sellers", "add", SELLER, "--name", NAME, LANGUAGE="ko").stdout
    shown = world("sellers", "show", SELLER, LANGUAGE="ko").stdout
    for words in ("다음 실행", "1일마다", "아직 수집하지 않았습니다"):
        assert words in shown
    assert "더는 수집하지 않습니다" in world("sellers", "deactivate", SELLER, LANGUAGE="ko").stdout


def test_the_database_is_made_on_the_way(run: Run, tmp_path: Path) -> None:
    done = run("sellers", "add", SELLER, "--name", NAME, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["name"] == NAME
    assert (tmp_path / "sellerwatch.db").exists()


def test_bad_settings_are_said_before_anything_is_touched(run: Run, tmp_path: Path) -> None:
    assert run("sellers", "list", PORT="abc").returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_a_database_of_a_newer_schema_is_refused_in_one_sentence(world: CliWorld) -> None:
    world.do(lambda tx: tx.db.run("UPDATE alembic_version SET version_num = '9999'"))
    assert "9999" in refused(world("sellers", "add", SELLER, "--name", NAME), 1)
    assert world.see(lambda tx: tx.sellers.get(SELLER)) is None


def test_the_list_says_how_far_an_open_run_is_and_what_it_waits_for(world: CliWorld) -> None:
    world.register()
    world.run_of(done=1, waiting=1)
    assert "RUNNING 50 %" in world.said("sellers", "list")
    world.do(lambda tx: answer_503(tx, Endpoint.DETAIL, NOW))
    for command in (("sellers", "list"), ("executions", "list"), ("executions", "show", execution_id())):
        assert "detail endpoint does not answer" in " ".join(world.said(*command).split()), command
    (listed,) = world.json("sellers", "list")["content"]
    shown = world.json("executions", "show", execution_id())
    assert listed["openExecution"]["waiting"] == shown["waiting"]
    assert (shown["waiting"]["code"], shown["failure"]) == ("CIRCUIT_OPEN", None)
    korean = world("sellers", "list", LANGUAGE="ko").stdout
    assert "detail 엔드포인트가 응답하지 않아" in korean


def test_the_list_says_that_a_pause_keeps_a_run_waiting(world: CliWorld) -> None:
    world.register()
    world.run_of(waiting=1)
    world.said("marketplace", "pause")
    assert "Requests to the marketplace are paused." in " ".join(world.said("sellers", "list").split())
    assert world.json("sellers", "list")["content"][0]["openExecution"]["waiting"]["code"] == "MARKETPLACE_PAUSED"


def test_a_seller_is_removed_after_a_look_at_the_numbers(world: CliWorld) -> None:
    world.register()
    before = world.everything()
    would = world.json("sellers", "remove", SELLER, "--tell-receiver", "--dry-run")
    assert (would["status"], would["removed"], would["events"], would["dryRun"]) == ("ARCHIVED", 0, 0, True)
    assert world.everything() == before
    assert "ARCHIVED" in world.said("sellers", "remove", SELLER)
    assert world.json("sellers", "list")["content"] == []
    assert world.trail()[0].action == "seller.remove"
    assert world("sellers", "remove", SELLER).returncode == 1
    assert world.json("sellers", "activate", SELLER)["status"] == "ACTIVE"


def test_sellers_are_imported_from_a_file(world: CliWorld, tmp_path: Path) -> None:
    file = tmp_path / "sellers.csv"
    file.write_bytes("\ufeffsellerId,name,interval\r\none,하나,6h\r\na b,x,1d\r\n".encode())
    done = world("sellers", "import", str(file), "--dry-run", "--json")
    assert (done.returncode, json.loads(done.stdout)["added"]) == (3, ["one"])
    assert world.json("sellers", "list")["content"] == []
    done = world("sellers", "import", str(file))
    assert (done.returncode, "line 3" in done.stderr) == (3, True)
    assert [each["sellerId"] for each in world.json("sellers", "list")["content"]] == ["one"]
    assert world("sellers", "import", str(tmp_path / "none.csv")).returncode == 2
