"""A resync whose service is killed three times, on a real file; `python -m tests.faults.resync` has a large one."""

from __future__ import annotations

from pathlib import Path

from tests.faults.resync import killed_resync


def test_a_receiver_that_lost_its_database_is_whole_after_a_resync_killed_three_times(
    tmp_path: Path, database_file: Path
) -> None:
    total, killed_at, _ = killed_resync(
        tmp_path, database_file, (0.1, 0.4, 0.6), sellers=2, products=150, OUTBOX_REQUESTS_PER_SECOND=50
    )
    assert total == 300
    assert 0 < killed_at[0] < killed_at[2] < total, "killed in the middle"
