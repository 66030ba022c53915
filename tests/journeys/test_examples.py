"""docs/examples as they would be copied: the secrets made by the commands of docs/scale.md, what they configure checked
for exposure, and MariaDB and Redis started with the examples' own options. Docker and Kubernetes are not run."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import text
from tests.servers import MariaDb, Redis, Server, running

from sellerwatch.adapters.redis.server import RedisServer, RedisUnavailable
from sellerwatch.adapters.sql.engine import make_engine
from sellerwatch.compose.deployment import deployment_of
from sellerwatch.reports.checks import find_unsafe
from sellerwatch.reports.severity import Severity
from sellerwatch.settings.load import load

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/scale.md").read_text("utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docs/examples/compose.yaml").read_text("utf-8"))
MANIFESTS: list[dict[str, Any]] = list(yaml.safe_load_all((ROOT / "docs/examples/kubernetes.yaml").read_text("utf-8")))
MAKE, CREATE = re.findall(
    r"```sh\n(.*?)```", PAGE.partition("## Secrets")[2].partition("## The database")[0], re.DOTALL
)
ROLES = ("migrate", "api", "worker", "scheduler")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The secrets as the page makes them."""
    folder = tmp_path_factory.mktemp("secrets")
    subprocess.run(["bash", "-euo", "pipefail", "-c", MAKE], cwd=folder, check=True, capture_output=True)
    return folder


def mounted(value: str, folder: Path) -> str:
    """A secret's path in a container of compose.yaml as the path of its file here."""

    def file(found: re.Match[str]) -> str:
        return str(folder / COMPOSE["secrets"][found[1]]["file"])

    return re.sub(r"/run/secrets/(\w+)", file, value)


def errors(environment: Mapping[str, str]) -> list[str]:
    found = find_unsafe(deployment_of(load(environment).settings, environment))
    return [f"{each.setting}: {each.problem.text('en')}" for each in found if each.severity is Severity.ERROR]


@pytest.mark.parametrize("role", ROLES)
def test_compose_gives_each_role_settings_that_are_safe_to_expose(made: Path, role: str) -> None:
    environment = {name: mounted(str(value), made) for name, value in COMPOSE["services"][role]["environment"].items()}
    # As the Dockerfile sets it; only the API listens.
    environment |= {"SELLERWATCH_HOST": "0.0.0.0"} if role == "api" else {}  # noqa: S104
    assert errors(environment) == []


@pytest.mark.parametrize("role", ROLES)
def test_kubernetes_gives_each_role_settings_that_are_safe_to_expose(made: Path, role: str) -> None:
    (shared,) = [each["data"] for each in MANIFESTS if each["kind"] == "ConfigMap"]
    created = CREATE[CREATE.index("for role in") :]
    assert created.startswith(f"for role in {' '.join(sorted(ROLES, key=created.index))}; do")
    given = re.findall(r"--from-file=(\w+)=(\S+?);?(?:\s|$)", created)
    secret = {name: (made / path).read_text("utf-8").strip() for name, path in given}
    assert errors({"SELLERWATCH_HOST": "0.0.0.0", **shared, **secret}) == []  # noqa: S104


class ExampleRedis(Redis):
    """Redis with the options of an example, on a port of its own."""

    options: tuple[str, ...] = ()

    def command(self) -> list[str]:
        usual = super().command()
        return [usual[0], *self.options, f"--tls-port {self.port}", f"--dir {self.folder}", "--bind 127.0.0.1"]


def compose_options(made: Path) -> list[str]:
    return [mounted(each, made) for each in COMPOSE["services"]["redis"]["command"]]


def kubernetes_options(made: Path) -> list[str]:
    (pod,) = [
        each["spec"]["template"]["spec"]["containers"][0]
        for each in MANIFESTS
        if each["kind"] == "Deployment" and each["metadata"]["name"] == "sellerwatch-redis"
    ]
    files = dict(re.findall(r"--from-file=([\w.]+)=(\S+)", CREATE.partition("secret generic sellerwatch-redis")[2]))
    folder = pod["volumeMounts"][0]["mountPath"]
    return [re.sub(rf"{folder}/([\w.]+)", lambda file: str(made / files[file[1]]), each) for each in pod["command"]]


@pytest.fixture(scope="module", params=[compose_options, kubernetes_options])
def redis(request: pytest.FixtureRequest, made: Path) -> Iterator[Server]:
    program, *options = request.param(made)
    assert program == "redis-server"
    kind = type("OneRedis", (ExampleRedis,), {"options": tuple(options)})
    with running(kind) as server:
        yield server


async def test_redis_of_the_examples_is_reached_by_password_and_tls_alone(made: Path, redis: Server) -> None:
    url = (made / "secrets/redis_url").read_text().replace("@redis:6379", f"@localhost:{redis.port}")
    url = mounted(url, made)
    reached = RedisServer(url)
    await reached.check()
    await reached.close()
    password = url.partition("://:")[2].partition("@")[0]
    refused = {
        "no password": url.replace(f":{password}@", ""),
        "another password": url.replace(password, "x" * 48),
        "another authority": url.partition("?")[0],
        "plain text": url.partition("?")[0].replace("rediss:", "redis:"),
    }
    for why, wrong in refused.items():
        server = RedisServer(wrong)
        with pytest.raises(RedisUnavailable) as told:
            await server.check()
        assert password not in str(told.value), why
        await server.close()


class ExampleMariaDb(MariaDb):
    """MariaDB with the options of compose.yaml."""

    options: tuple[str, ...] = ()

    def command(self) -> list[str]:
        return [*super().command(), *self.options]


def test_mariadb_of_the_examples_is_reached_by_tls(made: Path) -> None:
    options = [mounted(each, made) for each in COMPOSE["services"]["mariadb"]["command"]]
    kind = type("OneMariaDb", (ExampleMariaDb,), {"options": tuple(options)})
    with running(kind) as server:
        assert isinstance(server, MariaDb)
        database = server.database().rpartition("/")[2]
        password = (made / "secrets/mariadb_password").read_text()
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"GRANT ALL ON {database}.* TO sellerwatch@localhost IDENTIFIED BY '{password}'")
            cursor.execute(f"GRANT ALL ON {database}.* TO sellerwatch@127.0.0.1 IDENTIFIED BY '{password}'")
        url = mounted((made / "secrets/database_url").read_text(), made)
        url = url.replace("@mariadb:3306/sellerwatch", f"@localhost:{server.port}/{database}")
        engine = make_engine(url)
        with engine.connect() as connected:
            assert connected.execute(text("SHOW STATUS LIKE 'Ssl_version'")).one()[1].startswith("TLS")
        engine.dispose()
