"""A receiver that fails for some events, as processes; `python -m tests.faults.delivery` has it in full."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.faults.delivery import (
    QUICK,
    delivery_processes,
    every_tenth_fails,
    first_answers_lost,
    hanging_for_a_seller,
    refused_seller,
)


def test_one_sellers_trouble_stops_no_other_and_costs_no_try(tmp_path: Path, database_file: Path) -> None:
    with delivery_processes(tmp_path, database_file, **QUICK) as world, world.start() as service:
        refused_seller(world, 150)
        first_answers_lost(world, 20)
        every_tenth_fails(world, 100)
        hanging_for_a_seller(world, 20)
        assert service.end(signal.SIGTERM) == 0
