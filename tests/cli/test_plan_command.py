"""`sellerwatch plan`: do these sellers fit into the pool's budget, and when would each run finish."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.builders import execution_id

from sellerwatch.adapters.sql.transaction import Transaction
from sellerwatch.crawling.execution import Execution
from sellerwatch.kernel.clock import stamp
from sellerwatch.kernel.failure import Failure, FailureCode
from sellerwatch.kernel.ids import SellerId
from sellerwatch.schedules.interval import CrawlingInterval

from .cli_world import SELLER, CliWorld


def test_with_no_sellers_it_says_how_to_get_one(world: CliWorld) -> None:
    assert "sellerwatch sellers add" in world.said("plan")
    empty = world.json("plan")
    assert (empty["fits"], empty["content"], empty["requestsPerDay"]) == (True, [], 0)


def test_a_small_seller_fits_and_its_run_ends_soon_after_its_start(world: CliWorld) -> None:
    world.register(interval=CrawlingInterval.of_hours(6))
    assert "say how large they may be with --products N" in world.said("plan")
    said = world.said("plan", "--products", "300")
    assert "--products N" not in said
    assert "Fits: 1 seller asks for 2,408 requests a day, of the 192,000 that 100 available agents may ask" in said
    assert "not read yet" in said
    planned = world.json("plan", "--products", "300")
    assert (planned["fits"], planned["requestsPerDay"], planned["agents"], planned["late"]) == (True, 4 * 602, 100, 0)
    (run,) = planned["content"]
    assert (run["sellerId"], run["requests"], run["isGoing"], run["isLate"]) == (SELLER, 602, False, False)
    took = datetime.fromisoformat(run["endsAt"]) - datetime.fromisoformat(run["startsAt"])
    assert timedelta(0) < took <= timedelta(minutes=10)


def test_a_run_that_waits_to_be_started_is_planned_for_its_next_try(world: CliWorld) -> None:
    world.register(interval=CrawlingInterval.of_days(1))
    # The clock is the real one.
    again = datetime.now(UTC) + timedelta(hours=12)
    failure = Failure.of(FailureCode.UNREACHABLE, again, detail="refused")

    def wait(tx: Transaction) -> None:
        schedule = tx.schedules.of_seller(SELLER)
        assert schedule is not None
        run = Execution.create(execution_id(), schedule.schedule_id, SELLER, again)
        tx.executions.add(run.wait_to_start(failure, again))

    world.do(wait)
    (run,) = world.json("plan")["content"]
    assert run["startsAt"] == stamp(again)


def test_too_many_products_for_few_agents_do_not_fit_and_it_says_how_many_it_takes(world: CliWorld) -> None:
    world.register(interval=CrawlingInterval.of_days(1))
    done = world("plan", "--products", "20000", "--agents", "10")
    assert (done.returncode, done.stderr) == (1, "")
    assert "Does not fit" in done.stdout
    assert "It takes 21 agents." in done.stdout
    assert "late" in done.stdout
    wrong = world.json("plan", "--products", "20000", "--agents", "10", code=1)
    assert (wrong["fits"], wrong["agentsNeeded"], wrong["allowedPerDay"]) == (False, 21, 19_200)
    # The clock is the real one: its run may be overdue, and then be on its way beside the next.
    assert world.json("plan", "--products", "20000", "--agents", "50")["fits"]


def test_with_no_agent_it_says_where_to_look(world: CliWorld) -> None:
    world.register()
    world.do(lambda tx: tx.db.run("UPDATE user_agent_pool SET status = 'BLOCKED'"))
    done = world("plan")
    assert done.returncode == 1
    assert "No agent is available. Look why: sellerwatch agents status" in done.stdout


def test_the_products_a_seller_has_count_and_an_inactive_one_asks_for_nothing(world: CliWorld) -> None:
    world.register()
    world.register(SellerId("z"))
    world.said("sellers", "deactivate", "z")

    world.do(lambda tx: tx.db.run("UPDATE sellers SET total_product_count = 3"))
    assert [(run["sellerId"], run["requests"]) for run in world.json("plan", "--products", "9")["content"]] == [
        (SELLER, 8)
    ]


def test_a_run_in_a_month_is_played_through_by_itself(world: CliWorld) -> None:
    world.register(interval=CrawlingInterval.of_days(30))
    (run,) = world.json("plan", "--products", "10")["content"]
    took = datetime.fromisoformat(run["endsAt"]) - datetime.fromisoformat(run["startsAt"])
    assert (took, run["isLate"]) == (timedelta(minutes=1), False)


def test_nonsense_is_bad_usage(world: CliWorld) -> None:
    for wrong in (("--agents", "0"), ("--products", "-1"), ("--agents", "x")):
        assert world("plan", *wrong).returncode == 2


def test_the_plan_speaks_the_language_of_the_setting(world: CliWorld) -> None:
    world.register(interval=CrawlingInterval.of_hours(6))
    said = world("plan", "--products", "300", LANGUAGE="ko").stdout
    assert "예산 안에 들어갑니다. 판매자 1곳이 하루 2,408건을 요청합니다." in said
    assert "아직 수집 전" in said
