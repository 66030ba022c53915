"""What the checks of a deployment look at, read from settings, environment and files."""

from __future__ import annotations

import ipaddress
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from sellerwatch.adapters.sql.engine import database_path, make_engine
from sellerwatch.reports.deploy_checks import ConfiguredSecret, Connection, Deployment, PrivateFile
from sellerwatch.settings.load import CONFIG
from sellerwatch.settings.model import IN_FILES, PREFIX, Settings

#: Files beside an embedded database; the database's own name is the first.
BESIDE = ("", "-wal", "-shm", ".keys", ".jwt", ".api_key")
_SIGNING = ("jwt_secret", "cookie_secret", "form_secret", "product_server_secret", "internal_api_keys")


def deployment_of(settings: Settings, environment: Mapping[str, str]) -> Deployment:
    return Deployment(
        is_public=is_public(settings),
        has_trusted_proxies=bool(settings.trusted_proxies.strip()),
        is_receiver_unsigned=settings.product_server_url is not None and settings.product_server_secret is None,
        connections=tuple(_connections(settings)),
        secrets=tuple(_secrets(settings)),
        files=tuple(_files(settings, environment)),
    )


def is_public(settings: Settings) -> bool:
    """Return whether the API listens on more than this machine."""
    return not _is_here(settings.host)


def _connections(settings: Settings) -> Iterator[Connection]:
    webhook = settings.alert_webhook_url
    addresses = {
        "DATABASE_URL": settings.database_url if settings.is_mysql else None,
        "REDIS_URL": settings.redis_url,
        "MARKETPLACE_URL": settings.marketplace_url,
        "PRODUCT_SERVER_URL": settings.product_server_url,
        "ALERT_WEBHOOK_URL": None if webhook is None else webhook.get_secret_value(),
        "AWS_ENDPOINT_URL": settings.aws_endpoint_url,
    }
    for setting, address in addresses.items():
        if address is not None:
            parts = urlsplit(address)
            has_tls = parts.scheme in ("https", "rediss")
            if parts.scheme == "mysql":
                has_tls = any(name.startswith("ssl") for name, _ in parse_qsl(parts.query))
            host = parts.hostname or ""
            yield Connection(setting, host, has_tls, _is_here(host))


def _secrets(settings: Settings) -> Iterator[ConfiguredSecret]:
    for name in _SIGNING:
        given = getattr(settings, name)
        if given is not None:
            for value in given.get_secret_value().split(","):
                yield ConfiguredSecret(name.upper(), value.strip())


def _files(settings: Settings, environment: Mapping[str, str]) -> Iterator[PrivateFile]:
    database = database_path(make_engine(settings.database_url))
    if database is not None:
        for suffix in BESIDE:
            yield from _file("DATABASE_URL", database.with_name(f"{database.name}{suffix}"), is_ours=True)
    names = [CONFIG, *(f"{name.upper()}_FILE" for name in sorted(IN_FILES))]
    for name in names:
        path = environment.get(PREFIX + name)
        if path:
            yield from _file(name, Path(path), is_ours=False)


def _file(setting: str, path: Path, *, is_ours: bool) -> Iterator[PrivateFile]:
    if path.exists():
        yield PrivateFile(setting, str(path), stat.S_IMODE(path.stat().st_mode), is_ours)


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
