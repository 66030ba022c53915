"""A bounded share of what `make soak` does for minutes: inputs that once failed, some made-up ones, and for each target
a planted bug that it has to find."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.fuzz.mutation import edited
from tests.fuzz.plants import PLANTS, planted
from tests.fuzz.targets import CASES, TARGETS, Run

EXAMPLES = 60
#: A planted bug is found within so many inputs.
MOST = 2_000


@pytest.fixture(scope="module", params=TARGETS)
def target(
    request: pytest.FixtureRequest, migrated_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Run]]:
    database = shutil.copyfile(migrated_template, tmp_path_factory.mktemp("fuzz") / "fuzz.db")
    with TARGETS[request.param].opened(database) as run:
        yield request.param, run


def try_made_up(name: str, run: Run, examples: int, *, same: bool) -> None:
    """Run the target on this many inputs made from its seeds; `same`: the same ones each time."""

    @settings(
        max_examples=examples,
        database=None,
        derandomize=same,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(edited(TARGETS[name].seeds(), TARGETS[name].tokens))
    def attempt(data: bytes) -> None:
        run(data)

    attempt()


def test_inputs_that_once_failed_do_not_fail_again(target: tuple[str, Run]) -> None:
    name, run = target
    for case in sorted((CASES / name).glob("*")):
        run(case.read_bytes())


def test_made_up_inputs_are_taken_or_refused(target: tuple[str, Run]) -> None:
    name, run = target
    for seed in TARGETS[name].seeds():
        run(seed)
    try_made_up(name, run, EXAMPLES, same=False)


def test_a_planted_bug_is_found(target: tuple[str, Run]) -> None:
    name, run = target
    last = [b""]

    def remembering(data: bytes) -> None:
        last[0] = data
        run(data)

    # Whatever a bug may raise.
    with planted(PLANTS[name]), pytest.raises(Exception):  # noqa: B017, PT011
        try_made_up(name, remembering, MOST, same=True)
    # It was the bug that was found, not something else.
    run(last[0])


def test_every_target_has_its_planted_bug() -> None:
    assert PLANTS.keys() == TARGETS.keys()
