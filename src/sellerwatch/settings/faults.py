"""What is wrong with settings, or probably not meant: each fault names its variable and how to mend it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from sellerwatch.kernel.errors import Invalid
from sellerwatch.settings.model import PREFIX, Settings

#: Rules of one EventBridge bus, by default.
MOST_RULES = 300
_FIFO = re.compile(r"[A-Za-z0-9_-]{1,75}\.fifo")


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong, and how to mend it."""

    name: str
    problem: str

    def __str__(self) -> str:
        return f"{self.name}: {self.problem}"


@dataclass(eq=False)
class InvalidSettings(Invalid):
    """The settings as a whole; each fault names its variable."""

    faults: tuple[Fault, ...]

    @property
    def facts(self) -> dict[str, object]:
        return {"number": len(self.faults), "listed": "\n".join(f"  - {fault}" for fault in self.faults)}


def _faults_at_a_server(settings: Settings) -> list[Fault]:
    """There is no file beside a MySQL database in which keys could be made, and all its processes need the same."""
    faults = []
    try:
        parts = urlsplit(settings.database_url)
        usable = bool(parts.hostname) and parts.path.strip("/") != "" and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        faults.append(Fault(f"{PREFIX}DATABASE_URL", "a MySQL address is mysql://user:password@host:port/database"))
    if settings.token_keys is None:
        how = "must be set with a MySQL database, the same for every process: `printf 1:; openssl rand -base64 32`"
        faults.append(Fault(f"{PREFIX}TOKEN_KEYS", f"{how} makes one"))
    if settings.jwt_secret is None:
        how = "must be set with a MySQL database, the same for every process: `openssl rand -base64 32` makes one"
        faults.append(Fault(f"{PREFIX}JWT_SECRET", how))
    return faults


def faults_together(settings: Settings) -> list[Fault]:
    """Rules between settings, and adapters that this version does not have."""
    faults = []
    url = settings.database_url
    if settings.is_mysql:
        faults += _faults_at_a_server(settings)
    elif url != "sqlite://" and (not url.startswith("sqlite:///") or "?" in url):
        faults.append(Fault(f"{PREFIX}DATABASE_URL", "must be sqlite:///path or mysql://user:password@host/database"))
    if settings.queue == "sqs":
        for name, value in (("SQS_QUEUE_NAME", settings.sqs_queue_name), ("SQS_DLQ_NAME", settings.sqs_dlq_name)):
            if not _FIFO.fullmatch(value):
                faults.append(
                    Fault(PREFIX + name, f"must be letters, digits, - or _ and end in .fifo (it is '{value}')")
                )
        if settings.sqs_queue_name == settings.sqs_dlq_name:
            faults.append(Fault(f"{PREFIX}SQS_DLQ_NAME", "must be another queue than SQS_QUEUE_NAME"))
    if settings.scheduler == "eventbridge" and settings.eventbridge_target_arn is None:
        faults.append(
            Fault(f"{PREFIX}EVENTBRIDGE_TARGET_ARN", "must be given with SCHEDULER eventbridge: what rules start")
        )
    if settings.outbox_backoff_seconds > settings.outbox_backoff_max_seconds:
        faults.append(Fault(f"{PREFIX}OUTBOX_BACKOFF_SECONDS", "must not exceed OUTBOX_BACKOFF_MAX_SECONDS"))
    if settings.agent_suspension_seconds > settings.max_retry_after_seconds:
        faults.append(Fault(f"{PREFIX}AGENT_SUSPENSION_SECONDS", "must not exceed MAX_RETRY_AFTER_SECONDS"))
    return faults


def warnings(settings: Settings) -> list[Fault]:
    """What works, but is probably not meant."""
    found = []
    if settings.product_server_url is None:
        found.append(Fault(f"{PREFIX}PRODUCT_SERVER_URL", "not set: events are kept and wait"))
    elif settings.product_server_secret is None:
        found.append(Fault(f"{PREFIX}PRODUCT_SERVER_SECRET", "not set: events go out unsigned"))
    if settings.scheduler == "eventbridge" and settings.internal_api_keys is None:
        found.append(Fault(f"{PREFIX}INTERNAL_API_KEYS", "not set: EventBridge cannot start anything through our API"))
    address = urlsplit(settings.product_server_url or "")
    if address.scheme == "http" and address.hostname not in ("127.0.0.1", "localhost", "::1"):
        found.append(Fault(f"{PREFIX}PRODUCT_SERVER_URL", "http, not https: events can be read on the way"))
    return found


def rule_warnings(settings: Settings, rules: int) -> list[Fault]:
    """EventBridge holds so many rules on a bus unless it was asked for more."""
    if settings.scheduler != "eventbridge" or rules < 0.9 * MOST_RULES:
        return []
    problem = f"{rules} sellers need a rule each, and a bus holds {MOST_RULES} by default: ask AWS for a higher quota"
    return [Fault(f"{PREFIX}SCHEDULER", problem)]
