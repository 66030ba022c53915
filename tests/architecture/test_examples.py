"""What the examples of docs/examples and the Dockerfile name exists. Their parts are run by
tests/journeys/test_examples.py."""

from __future__ import annotations

import json
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from scripts import make_sbom

from sellerwatch.cli.main import COMMANDS
from sellerwatch.settings.model import Settings

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs/examples"
PREFIX = "SELLERWATCH_"


def check_settings(names: Iterator[str]) -> None:
    known = {name.upper() for name in Settings.model_fields}
    for name in names:
        if name.startswith(PREFIX):
            assert name.removeprefix(PREFIX).removesuffix("_FILE") in known, name


def dockerfile() -> Iterator[tuple[str, str]]:
    """Its instructions, lines that go on put together."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            word, _, rest = line.partition(" ")
            yield word, rest


def test_the_image_copies_what_is_there_and_what_its_context_lets_in() -> None:
    let_in = {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"}
    for word, rest in dockerfile():
        if word == "COPY" and not rest.startswith("--from"):
            for source in shlex.split(rest)[:-1]:
                assert (ROOT / source).exists(), source
                assert source in let_in, f"{source} is kept out by .dockerignore"


def test_the_image_builds_with_the_back_end_of_its_lock() -> None:
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    locked = (ROOT / "requirements-build.lock").read_text()
    assert all(f"\n{each} " in f"\n{locked}" for each in needed)
    assert "--hash=sha256:" in locked
    installs = [rest for word, rest in dockerfile() if word == "RUN" and "pip " in rest]
    steps = [step for rest in installs for step in rest.split("&&") if "/pip " in step]
    assert all("--require-hashes" in step or "--no-deps" in step for step in steps)
    assert all("--no-build-isolation" in step or "--no-index" in step for step in steps if "--no-deps" in step)


def test_the_bill_of_materials_has_every_locked_package_with_hashes() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    listed = make_sbom.components(lock)
    assert len(listed) == sum("==" in line and not line.startswith(" ") for line in lock.splitlines())
    assert all(each["hashes"] for each in listed)


def test_the_image_runs_a_command_of_ours_as_nobody_special() -> None:
    said = dict(dockerfile())
    assert json.loads(said["ENTRYPOINT"]) == ["sellerwatch"]
    assert json.loads(said["CMD"])[0] in COMMANDS
    assert said["USER"].isdecimal()
    assert said["USER"] != "0"
    check_settings(word.partition("=")[0] for word in said["ENV"].split())


def test_compose_runs_commands_of_ours_with_settings_and_secrets_there_are() -> None:
    page = yaml.safe_load((EXAMPLES / "compose.yaml").read_text())
    ours = {name: service for name, service in page["services"].items() if "build" in service}
    assert {"api", "worker", "scheduler", "migrate"} <= ours.keys()
    for service in ours.values():
        assert service["command"][0] in COMMANDS
        check_settings(iter(service["environment"]))
        assert set(service["secrets"]) <= page["secrets"].keys()
        assert service.get("depends_on", {}).keys() <= page["services"].keys()
        for value in service["environment"].values():
            if str(value).startswith("/run/secrets/"):
                assert str(value).removeprefix("/run/secrets/") in service["secrets"]


def manifests() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((EXAMPLES / "kubernetes.yaml").read_text()))


@pytest.mark.parametrize("kind", ["Deployment", "Job"])
def test_kubernetes_runs_commands_of_ours(kind: str) -> None:
    found = [manifest for manifest in manifests() if manifest["kind"] == kind]
    assert found
    for manifest in found:
        labels = manifest["spec"].get("selector", {}).get("matchLabels", {})
        template = manifest["spec"]["template"]
        assert labels.items() <= template.get("metadata", {}).get("labels", {}).items()
        is_ours = manifest["metadata"]["name"] != "sellerwatch-redis"
        for container in template["spec"]["containers"]:
            if is_ours:
                assert container["args"][0] in COMMANDS
                shared, own = [next(iter(source.values()))["name"] for source in container["envFrom"]]
                assert (shared, own) == ("sellerwatch", f"sellerwatch-{container['name']}")
            mounts = {mount["name"] for mount in container["volumeMounts"]}
            assert mounts == {volume["name"] for volume in template["spec"]["volumes"]}
            limits = container["securityContext"]
            assert limits == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
        pod = template["spec"]
        assert pod["automountServiceAccountToken"] is False
        user = 10001 if is_ours else 999
        assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, user)


def test_kubernetes_lets_the_ingress_alone_reach_the_api_and_nothing_reach_the_others() -> None:
    policies = {each["metadata"]["name"]: each["spec"] for each in manifests() if each["kind"] == "NetworkPolicy"}
    (expression,) = policies["sellerwatch"]["podSelector"]["matchExpressions"]
    deployed = {each["metadata"]["name"] for each in manifests() if each["kind"] == "Deployment"}
    assert set(expression["values"]) == deployed - {"sellerwatch-redis"}
    assert policies["sellerwatch"]["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in policies["sellerwatch"]
    (rule,) = policies["sellerwatch-api"]["ingress"]
    assert [port["port"] for port in rule["ports"]] == [8080]
    redis = policies["sellerwatch-redis"]
    assert redis["policyTypes"] == ["Ingress", "Egress"]
    assert "egress" not in redis
    (rule,) = redis["ingress"]
    assert rule["from"][0]["podSelector"]["matchExpressions"] == [expression]


def test_compose_publishes_the_front_alone() -> None:
    services = yaml.safe_load((EXAMPLES / "compose.yaml").read_text())["services"]
    assert [name for name, service in services.items() if "ports" in service] == ["front"]
    assert all(
        service["read_only"] and service["cap_drop"] == ["ALL"]
        for name, service in services.items()
        if name != "mariadb"
    )


def test_kubernetes_scales_workers_at_seventy_percent_of_their_cpu_and_knows_its_settings() -> None:
    by_kind = {manifest["kind"]: manifest for manifest in manifests()}
    scaler = by_kind["HorizontalPodAutoscaler"]["spec"]
    names = {manifest["metadata"]["name"] for manifest in manifests() if manifest["kind"] == "Deployment"}
    assert scaler["scaleTargetRef"]["name"] in names
    assert scaler["metrics"][0]["resource"]["target"]["averageUtilization"] == 70
    check_settings(iter(by_kind["ConfigMap"]["data"]))
