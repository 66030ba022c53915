"""`sellerwatch limits`: what is in force and where from, and changing it while the service runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.builders import NOW

from sellerwatch.compose.rules import tuning_in_force
from sellerwatch.settings.load import load
from sellerwatch.settings.model import TUNABLE

from .cli_world import CliWorld
from .conftest import refused


def kept(world: CliWorld) -> dict[str, str]:
    return world.see(lambda tx: tx.overrides.all())


def test_each_limit_is_shown_with_its_value_where_it_is_from_and_what_it_means(world: CliWorld, tmp_path: Path) -> None:
    file = tmp_path / "sellerwatch.toml"
    file.write_text("max_concurrency = 50\nwindow_limit = 70\n")
    world.said("limits", "set", "WINDOW_LIMIT", "60")
    done = world("limits", "show", CONFIG=str(file), HOST_CONCURRENCY="40")
    assert done.returncode == 0
    rows = {line.split()[0]: line.split()[1:3] for line in done.stdout.splitlines()[2:]}
    assert rows == {
        "WINDOW_LIMIT": ["60", "override"],
        "WINDOW_SECONDS": ["3600", "default"],
        "REQUESTS_PER_SECOND": ["1", "default"],
        "DEPARTURE_MARGIN_SECONDS": ["0.05", "default"],
        "MAX_CONCURRENCY": ["50", "file"],
        "HOST_CONCURRENCY": ["40", "environment"],
        "HOST_REQUESTS_PER_SECOND": ["-", "default"],
    }
    shown = world.json("limits", "show")
    assert list(shown["limits"]) == [name.upper() for name in TUNABLE]
    assert shown["limits"]["WINDOW_LIMIT"]["value"] == 60
    assert '"value": 3600,' in world.said("limits", "show", "--json"), "as it was written, not 3600.0"
    world.said("limits", "set", "WINDOW_SECONDS", "1800")
    assert '"value": 1800,' in world.said("limits", "show", "--json"), "as it was written, not 1800.0"
    assert shown["faults"] == []


def test_a_changed_limit_is_kept_audited_and_taken_over_by_a_running_service(world: CliWorld) -> None:
    said = world.said("limits", "set", "window-limit", "60")
    assert "WINDOW_LIMIT is 60 now; it was 80." in said
    assert "A running service applies it within 30 s" in said
    assert kept(world) == {"window_limit": "60"}
    assert tuning_in_force(load({}).settings, kept(world)).limits.window_limit == 60
    answer = world.json("limits", "set", "SELLERWATCH_WINDOW_LIMIT", " 40 ")
    changed = {"name": "WINDOW_LIMIT", "before": 60, "after": 40, "takenOverWithinSeconds": 30.0}
    assert answer == changed | {"dryRun": False}
    newest, first = world.trail()
    assert (first.action, first.subject_type, first.subject_id) == ("limit.set", "setting", "WINDOW_LIMIT")
    assert (first.before, first.after) == ({"value": 80}, {"value": 60})
    assert (newest.before, newest.after) == ({"value": 60}, {"value": 40})
    assert "value 60 -> 40" in world.said("audit", "list", "--subject", "setting:WINDOW_LIMIT")


def test_a_dry_run_says_what_a_limit_would_be_and_changes_nothing(world: CliWorld) -> None:
    assert "WINDOW_LIMIT would be 60; it is 80." in world.said("limits", "set", "WINDOW_LIMIT", "60", "--dry-run")
    assert kept(world) == {}


def test_a_limit_that_was_none_becomes_one_and_none_again(world: CliWorld) -> None:
    assert "is 20 now; it was not limited" in world.said("limits", "set", "HOST_REQUESTS_PER_SECOND", "20")
    assert "is not limited now; it was 20" in world.said("limits", "unset", "HOST_REQUESTS_PER_SECOND")
    assert kept(world) == {}
    assert "nothing to undo" in refused(world("limits", "unset", "HOST_REQUESTS_PER_SECOND"), 1)


def test_a_longer_window_says_that_it_counts_as_full_for_a_while(world: CliWorld) -> None:
    assert "windows count as full for 3600 s" in world.said("limits", "set", "WINDOW_SECONDS", "7200")
    assert "count as full" not in world.said("limits", "set", "WINDOW_SECONDS", "60")


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("WINDOW_LIMT", "60", "There is no limit 'WINDOW_LIMT'; the limits are WINDOW_LIMIT."),
        ("zzz", "60", "There is no limit 'zzz'; the limits are WINDOW_LIMIT, "),
        ("PORT", "60", "PORT cannot be changed at run time: set SELLERWATCH_PORT and restart the service."),
        ("TOKEN_KEYS", "x", "TOKEN_KEYS cannot be changed at run time"),
        ("WINDOW_LIMIT", "0", "WINDOW_LIMIT cannot be '0': input should be greater than 0."),
        ("WINDOW_LIMIT", "many", "WINDOW_LIMIT cannot be 'many': input should be a valid integer"),
        ("WINDOW_LIMIT", "", "WINDOW_LIMIT cannot be ''"),
        ("WINDOW_SECONDS", "inf", "WINDOW_SECONDS cannot be 'inf'"),
        ("REQUESTS_PER_SECOND", "nan", "REQUESTS_PER_SECOND cannot be 'nan'"),
        ("HOST_REQUESTS_PER_SECOND", "none", "HOST_REQUESTS_PER_SECOND cannot be 'none'"),
    ],
)
def test_a_wrong_name_or_value_is_one_sentence_and_changes_nothing(
    world: CliWorld, name: str, value: str, sentence: str
) -> None:
    before = world.everything()
    assert refused(world("limits", "set", name, value), 2).startswith(sentence)
    assert world.everything() == before


def test_what_has_become_wrong_is_left_out_said_and_can_be_taken_back(world: CliWorld) -> None:
    world.do(lambda tx: tx.overrides.set("window_limit", "-5", "cli:someone", NOW))
    done = world("limits", "show")
    assert done.returncode == 0
    assert "WINDOW_LIMIT" in done.stderr
    assert "it is wrong by now" in done.stderr
    shown = world.json("limits", "show")
    assert shown["limits"]["WINDOW_LIMIT"] | {"meaning": ""} == {"value": 80, "from": "default", "meaning": ""}
    assert [fault["name"] for fault in shown["faults"]] == ["SELLERWATCH_WINDOW_LIMIT"]
    assert "SELLERWATCH_WINDOW_LIMIT" in world("limits", "set", "MAX_CONCURRENCY", "5").stderr
    world.said("limits", "unset", "WINDOW_LIMIT")
    assert kept(world) == {}


def test_agents_show_the_budget_of_the_limits_in_force(world: CliWorld) -> None:
    world.said("limits", "set", "WINDOW_SECONDS", "1800")
    assert world.json("agents", "status")["budget"]["windowSeconds"] == 1800.0
