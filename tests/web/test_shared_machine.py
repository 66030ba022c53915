"""What others on the machine, and callers together, get of what is not theirs."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest
from tests.builders import NOW, SECOND

from sellerwatch.access.users import InvalidPassword, check_password
from sellerwatch.adapters.keyfile import KeyFileExposed, internal_key_beside, jwt_secret_beside, token_keys_beside
from sellerwatch.adapters.sql.engine import check_reachable, make_engine
from sellerwatch.adapters.sql.migrate import upgrade
from sellerwatch.compose.deployment import BESIDE
from sellerwatch.compose.keys import internal_api_keys
from sellerwatch.settings.load import load
from sellerwatch.web.api import events
from sellerwatch.web.api.app import make_app
from sellerwatch.web.api.health import OUTSIDE_SECONDS

from .api_world import ApiWorld
from .caller import Api


def test_the_embedded_database_is_for_its_owner_alone(tmp_path: Path) -> None:
    engine = make_engine(f"sqlite:///{tmp_path}/x.db")
    check_reachable(engine)
    upgrade(engine, NOW)
    with engine.connect():
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    engine.dispose()
    assert "x.db-wal" in modes
    assert set(modes.values()) == {0o600}


@pytest.mark.parametrize("make", [token_keys_beside, jwt_secret_beside, internal_key_beside])
def test_a_key_file_that_others_can_read_is_refused(tmp_path: Path, make: object) -> None:
    assert callable(make)
    database = tmp_path / "x.db"
    made = make(database)
    (file,) = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert make(database) == made
    file.chmod(0o604)
    with pytest.raises(KeyFileExposed) as refusal:
        make(database)
    assert str(file) in str(refusal.value)
    assert made not in str(refusal.value)


def test_the_internal_key_is_made_once_and_configured_ones_replace_it(tmp_path: Path) -> None:
    environment = {"SELLERWATCH_DATABASE_URL": f"sqlite:///{tmp_path}/x.db"}
    (made,) = internal_api_keys(load(environment).settings)
    assert len(made) >= 32
    assert internal_api_keys(load(environment).settings) == (made,)
    configured = load({**environment, "SELLERWATCH_INTERNAL_API_KEYS": "new, old"}).settings
    assert internal_api_keys(configured) == ("new", "old")


GUESSED_FIRST = (
    "password1234",
    "passwordpassword",
    "qwertyuiop123",
    "123456789012",
    "zyxwvutsrqponm",
    "1qaz2wsx3edc4rfv",
    "abcabcabcabc",
    "aaaaaaaaaaaa",
    "iloveyou20261119",
    "minjiminji2026",
    "Minjiminji12",
    "!!Sunshine!!2026",
    "startfinding",
    "liverpool-1892",
    "--minji-MINJI--",
)


@pytest.mark.parametrize("password", GUESSED_FIRST)
def test_a_password_that_is_tried_first_is_refused(password: str) -> None:
    with pytest.raises(InvalidPassword) as refusal:
        check_password(password, "minji")
    assert password not in str(refusal.value.facts)


@pytest.mark.parametrize(
    "password", ["correct horse battery", "a password 4 minji", "말과 건전지와 스테이플러", "x9K-admin-2b!q"]
)
def test_a_long_password_of_several_words_is_fine(password: str) -> None:
    assert check_password(password, "minji") == password


async def test_one_caller_does_not_take_all_streams(world: ApiWorld) -> None:
    stream = events.Stream(world.parts)
    for _ in range(events.MOST_STREAMS_OF_ONE):
        await stream.join("api:minji")
    with pytest.raises(events.TooManyStreams):
        await stream.join("api:minji")
    await stream.join("api:hana")
    stream.close()


async def test_anonymous_health_asks_other_servers_no_more_often_for_being_asked(world: ApiWorld) -> None:
    asked = 0

    async def ask() -> None:
        nonlocal asked
        asked += 1

    service = replace(world.service, outside={"queue": ask})
    app = make_app(replace(world.parts, service=service))
    nobody, viewer = Api(app), Api(app, world.viewer.token)
    for _ in range(20):
        shown = await nobody.get("/actuator/health")
        assert "queue" in shown.json["components"]
    assert asked == 1
    await viewer.get("/actuator/health")
    assert asked == 2
    world.clock.time += OUTSIDE_SECONDS * SECOND
    await nobody.get("/actuator/health")
    assert asked == 3


def test_git_ignores_the_files_beside_a_database() -> None:
    ignored = (Path(__file__).parents[2] / ".gitignore").read_text().splitlines()
    assert {"*.db", "*.db-*", "*.keys", "*.jwt", "*.api_key"} <= set(ignored)
    assert set(BESIDE) == {"", "-wal", "-shm", ".keys", ".jwt", ".api_key"}
