"""The fleet, small: `python -m tests.faults.fleet` tells the same story for as long as one likes."""

from __future__ import annotations

from pathlib import Path

from tests.faults.fleet import telling


def test_a_fleet_whose_processes_and_servers_die_and_whose_messages_double_tells_all_there_is(tmp_path: Path) -> None:
    with telling(tmp_path, sellers=5, products=8, seed=1) as story:
        story.go(seconds=12, pause=(1.5, 3))
        story.check()
        assert story.fleet.killed.total() > 2
        assert story.faults == ["restart_redis", "restart_mariadb"]
        story.end()


def test_a_rolling_restart_in_the_middle_of_a_crawl_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    roles = ("worker", "worker", "scheduler", "api")
    slowly = {"HOST_REQUESTS_PER_SECOND": 20}
    with telling(tmp_path, sellers=2, products=60, seed=2, roles=roles, meddle=False, **slowly) as story:
        story.fire_all()
        story.until(lambda: story.simulator.requests > 40, "the crawl is going")
        assert not story.is_settled()
        for member in story.fleet.members:
            said = story.fleet.restart(member)
            assert "Traceback" not in said, said
            story.until(story.fleet.all_serve, "its successor serves")
        story.until(story.is_settled, "the runs are over and told")
        story.check()
        stats = story.simulator.ask("stats")["productServer"]
        assert (stats["events_by_type"], stats["duplicates"]) == ({"PRODUCT_CREATED": 120}, 0)
        assert story.servers.count("SELECT COUNT(*) FROM crawler_tasks WHERE lost_leases > 0") == 0
        story.end()
