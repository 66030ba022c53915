"""What is wrong with settings, or probably not meant: each fault names its variable and how to mend it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from sellerwatch.kernel.errors import Invalid
from sellerwatch.kernel.wording import Problem, Worded
from sellerwatch.settings.model import PREFIX, Settings

#: Rules of one EventBridge bus, by default.
MOST_RULES = 300
_FIFO = re.compile(r"[A-Za-z0-9_-]{1,75}\.fifo")


@dataclass(frozen=True)
class Fault(Worded):
    """One thing that is wrong, and how to mend it. `value` is what was given, where that may be shown."""

    name: str
    problem: Problem
    value: str | None = None

    __str__ = Worded.__str__

    @classmethod
    def of(cls, setting: str, key: str, **facts: object) -> Fault:
        return cls(PREFIX + setting, Problem(key, facts))

    def problem_text(self, language: str) -> str:
        """Return what is wrong, with the value that was given."""
        text = self.problem.text(language)
        if text[1:2].islower():
            text = text[:1].lower() + text[1:]
        return text if self.value is None else Problem("given", {"problem": text, "value": self.value}).text(language)

    def text(self, language: str = "en") -> str:
        return f"{self.name}: {self.problem_text(language)}"


@dataclass(frozen=True)
class _Listed(Worded):
    """A line for each fault."""

    faults: tuple[Fault, ...]

    def text(self, language: str = "en") -> str:
        return "\n".join(f"  - {fault.text(language)}" for fault in self.faults)


@dataclass(eq=False)
class InvalidSettings(Invalid):
    """The settings as a whole; each fault names its variable."""

    faults: tuple[Fault, ...]

    @property
    def facts(self) -> dict[str, object]:
        return {"number": len(self.faults), "listed": _Listed(self.faults)}


def _faults_at_a_server(settings: Settings) -> list[Fault]:
    """There is no file beside a MySQL database in which keys could be made, and all its processes need the same."""
    faults = []
    try:
        parts = urlsplit(settings.database_url)
        usable = bool(parts.hostname) and parts.path.strip("/") != "" and parts.port != 0
        options = parse_qsl(parts.query, keep_blank_values=True)
        usable = usable and all(name.startswith("ssl") for name, _ in options)
    except ValueError:
        usable = False
    if not usable:
        faults.append(Fault.of("DATABASE_URL", "mysql_address"))
    if settings.token_keys is None:
        faults.append(Fault.of("TOKEN_KEYS", "mysql_key", command="printf 1:; openssl rand -base64 32"))
    if settings.jwt_secret is None:
        faults.append(Fault.of("JWT_SECRET", "mysql_key", command="openssl rand -base64 32"))
    if settings.internal_api_keys is None:
        faults.append(Fault.of("INTERNAL_API_KEYS", "mysql_key", command="openssl rand -hex 32"))
    return faults


def faults_together(settings: Settings) -> list[Fault]:
    """Rules between settings, and adapters that this version does not have."""
    faults = []
    url = settings.database_url
    if settings.is_mysql:
        faults += _faults_at_a_server(settings)
    elif url != "sqlite://" and (not url.startswith("sqlite:///") or "?" in url):
        faults.append(Fault.of("DATABASE_URL", "database_address"))
    if settings.queue == "sqs":
        for name, value in (("SQS_QUEUE_NAME", settings.sqs_queue_name), ("SQS_DLQ_NAME", settings.sqs_dlq_name)):
            if not _FIFO.fullmatch(value):
                faults.append(Fault(PREFIX + name, Problem("fifo_name"), value))
        if settings.sqs_queue_name == settings.sqs_dlq_name:
            faults.append(Fault.of("SQS_DLQ_NAME", "same_queue"))
    if settings.scheduler == "eventbridge" and settings.eventbridge_target_arn is None:
        faults.append(Fault.of("EVENTBRIDGE_TARGET_ARN", "target_missing"))
    if settings.outbox_backoff_seconds > settings.outbox_backoff_max_seconds:
        faults.append(Fault.of("OUTBOX_BACKOFF_SECONDS", "must_not_exceed", other="OUTBOX_BACKOFF_MAX_SECONDS"))
    if settings.agent_suspension_seconds > settings.max_retry_after_seconds:
        faults.append(Fault.of("AGENT_SUSPENSION_SECONDS", "must_not_exceed", other="MAX_RETRY_AFTER_SECONDS"))
    return faults


def warnings(settings: Settings) -> list[Fault]:
    """What works, but is probably not meant."""
    found = []
    if settings.product_server_url is None:
        found.append(Fault.of("PRODUCT_SERVER_URL", "no_receiver"))
    elif settings.product_server_secret is None:
        found.append(Fault.of("PRODUCT_SERVER_SECRET", "unsigned"))
    if settings.scheduler == "eventbridge" and settings.internal_api_keys is None:
        found.append(Fault.of("INTERNAL_API_KEYS", "no_internal_keys"))
    address = urlsplit(settings.product_server_url or "")
    if address.scheme == "http" and address.hostname not in ("127.0.0.1", "localhost", "::1"):
        found.append(Fault.of("PRODUCT_SERVER_URL", "not_https"))
    return found


def rule_warnings(settings: Settings, rules: int) -> list[Fault]:
    """Warn where EventBridge needs more rules than a bus holds by default."""
    if settings.scheduler != "eventbridge" or rules < 0.9 * MOST_RULES:
        return []
    return [Fault.of("SCHEDULER", "too_many_rules", rules=rules, most=MOST_RULES)]
