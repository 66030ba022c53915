"""Every setting, with its default and its description."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from sellerwatch.settings.values import (
    Address,
    BaseAddress,
    ChangeKinds,
    FieldPolicies,
    Keys,
    LongSecret,
    Password,
    Positive,
    Rate,
    RedisAddress,
    Seconds,
    Zone,
)

PREFIX = "SELLERWATCH_"
_CREDENTIALS = re.compile(r"//[^/]*@")


class Settings(BaseModel):
    """Names are those of the environment without the prefix, in lower case. The description is the documentation."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    database_url: str = Field(
        "sqlite:///sellerwatch.db",
        repr=False,
        description="Where everything is kept: sqlite:///path, or mysql://user:password@host:port/database.",
    )
    sqlite_synchronous: Literal["NORMAL", "FULL"] = Field(
        "NORMAL", description="FULL survives a power cut as well as kill -9, and costs speed."
    )
    redis_url: RedisAddress | None = Field(
        None,
        repr=False,
        description="Limits and leases in Redis, redis:// or rediss://, one database of it for us; none: embedded.",
    )
    queue: Literal["database", "sqs"] = Field("database", description="Where tasks wait.")
    sqs_queue_name: str = Field("mustit-crawler-tasks.fifo", min_length=1, description="The queue, with QUEUE sqs.")
    sqs_dlq_name: str = Field(
        "mustit-crawler-tasks-dlq.fifo", min_length=1, description="Takes what the queue gave up, with QUEUE sqs."
    )
    sqs_group: Literal["seller", "product"] = Field(
        "seller",
        description="What SQS keeps in order: at most 10 in flight per seller, or per product, with QUEUE sqs.",
    )
    scheduler: Literal["embedded", "eventbridge"] = Field("embedded", description="Who starts due crawls.")
    eventbridge_target_arn: str | None = Field(None, description="What rules start, with SCHEDULER eventbridge.")
    eventbridge_role_arn: str | None = Field(None, description="As whom they do, with SCHEDULER eventbridge.")
    aws_endpoint_url: Address | None = Field(None, description="Another address of AWS, such as a local one.")
    marketplace_url: BaseAddress = Field("https://m.web.mustit.co.kr", description="The marketplace.")
    marketplace_list_path: str = Field(
        "/mustit-api/facade-api/v1/searchmini-shop-search", description="The list's path; it has changed before."
    )
    product_server_url: Address | None = Field(None, description="Receives the events; none: events wait.")
    product_server_secret: SecretStr | None = Field(None, description="Signs the events; none: they go unsigned.")
    token_keys: Keys | None = Field(
        None, description="AES-256 keys `id:base64,...`, the first encrypts; none: made once beside the database."
    )
    jwt_secret: LongSecret | None = Field(None, description="Signs API tokens; none: made once beside the database.")
    jwt_issuer: str = Field("sellerwatch", min_length=1, description="Who issues API tokens.")
    jwt_audience: str = Field("sellerwatch", min_length=1, description="Whom API tokens are for.")
    admin_password: Password | None = Field(
        None, description="Of the first user, admin, made on the first start; none: a one-time one is printed."
    )
    login_seconds: Seconds = Field(3600, le=86400, description="How long a log-in is valid.")
    internal_api_keys: SecretStr | None = Field(None, description="Keys of /api/internal, separated by commas.")
    host: str = Field("127.0.0.1", min_length=1, description="Address the API listens on.")
    port: int = Field(8080, ge=0, le=65535, description="Port the API listens on.")
    api_requests_per_minute: Positive = Field(1200, description="Requests one client of the API may make in a minute.")
    window_limit: Positive = Field(80, description="Requests of one agent in any window.")
    window_seconds: Seconds = Field(3600, description="Length of the window.")
    requests_per_second: Rate = Field(1, description="Requests of one agent in a second.")
    departure_margin_seconds: float = Field(
        0.05, ge=0, le=60, description="Added between departures of one agent, for jitter on the way."
    )
    max_concurrency: Positive = Field(100, description="Requests in flight of one worker.")
    host_concurrency: Positive = Field(100, description="Requests in flight to the marketplace.")
    host_requests_per_second: Rate | None = Field(
        None, description="Requests a second to the marketplace; none: no cap."
    )
    page_size: int = Field(500, ge=1, le=1000, description="Products of a list page.")
    max_list_total: int = Field(
        1_000_000, ge=1, le=100_000_000, description="A list that states more products than this is unreadable."
    )
    task_retries: int = Field(2, ge=0, le=10, description="Retries of a task after its own failures.")
    field_policies: FieldPolicies = Field(
        "", description="Differences not worth an event: FIELD=ignore, FIELD=5 or FIELD=5%, separated by commas."
    )
    removal_share_percent: int = Field(
        20, ge=0, le=100, description="Of a seller's products: more of them gone at once are held."
    )
    removal_products: int = Field(10, ge=0, description="Products that may be gone at once whatever their share.")
    quarantine_share_percent: int = Field(
        30, ge=0, le=100, description="Of a run's products: a field that changed in more of them is held."
    )
    quarantine_products: int = Field(20, ge=0, description="Products that may change a field whatever their share.")
    quarantine_exempt: ChangeKinds = Field("price, stock", description="Kinds of change that are never held.")
    quarantine_recheck_seconds: Seconds = Field(
        300, description="How often a run that is paused by unreadable answers reads a few of them again."
    )
    raw_body_days: Positive = Field(365, description="How long bodies that have a newer one are kept.")
    outbox_retries: int = Field(5, ge=1, le=100, description="Tries of an event in all.")
    outbox_interval_seconds: Seconds = Field(300, description="How often the outbox is swept without a nudge.")
    outbox_concurrency: Positive = Field(20, description="Events under way to the product server of one process.")
    outbox_requests_per_second: Rate | None = Field(
        None, description="Events a second to the product server, over all processes; none: no cap."
    )
    outbox_circuit_failures: Positive = Field(
        5, description="Failures in a row after which nothing is sent until one event finds out."
    )
    outbox_circuit_open_seconds: Seconds = Field(
        30, description="Wait before that one event; doubles up to OUTBOX_INTERVAL_SECONDS."
    )
    outbox_backoff_seconds: Seconds = Field(30, description="Wait after an event's first failed try; doubles.")
    outbox_backoff_max_seconds: Seconds = Field(3600, description="Longest wait between two tries of an event.")
    outbox_kept_days: int = Field(
        92, ge=1, le=3660, description="How long delivered events and tries are kept; a product's last event always is."
    )
    agent_suspension_seconds: Seconds = Field(3600, description="How long a suspended agent rests.")
    breaker_min_available_percent: int = Field(20, ge=0, le=100, description="Under it the pool's breaker opens.")
    breaker_open_seconds: Seconds = Field(600, description="How long the pool's breaker stays open.")
    circuit_failures: Positive = Field(3, description="Failures in a row that open an agent's circuit.")
    circuit_open_seconds: Seconds = Field(600, description="How long an agent's circuit stays open.")
    marketplace_circuit_failures: Positive = Field(
        5, description="Network errors or 5xx answers in a row after which an endpoint of the marketplace is not asked."
    )
    marketplace_circuit_open_seconds: Seconds = Field(
        30, description="Wait before one request finds out whether that endpoint is back; doubles up to 20 times this."
    )
    start_retry_seconds: Seconds = Field(
        30, description="Wait before a run that could not be started is tried again; doubles up to 900."
    )
    visibility_seconds: Seconds = Field(30, description="A worker silent for this long has lost its tasks.")
    tending_interval_seconds: Seconds = Field(60, description="How often agents and lost tasks are looked after.")
    max_retry_after_seconds: Seconds = Field(86400, description="Longest Retry-After that is believed.")
    usage_log_days: int = Field(92, ge=1, le=3660, description="How long the log of requests is kept.")
    robots_check: Literal["off", "warn", "obey"] = Field("warn", description="What robots.txt means to us.")
    user_agent_suffix: str = Field("", max_length=200, description="Put behind every User-Agent, e.g. a contact.")
    alert_webhook_url: Address | None = Field(None, description="Alerts go there (Slack's JSON); none: to the log.")
    run_deadline_seconds: Seconds = Field(86400, description="A run that takes longer fails.")
    timezone: Zone = Field("UTC", description="Whose midnight ends a day.")
    language: Literal["en", "ko"] = Field("en", description="Language of messages for people.")
    log_format: Literal["console", "json"] | None = Field(None, description="None: console on a terminal, else json.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="The least severe line kept.")

    @property
    def is_mysql(self) -> bool:
        """Whether everything is stored at a server that processes on other machines share."""
        return self.database_url.startswith("mysql://")


#: What `limits set` may change while it runs.
TUNABLE = (
    "window_limit",
    "window_seconds",
    "requests_per_second",
    "departure_margin_seconds",
    "max_concurrency",
    "host_concurrency",
    "host_requests_per_second",
)
SECRETS = frozenset({"product_server_secret", "token_keys", "jwt_secret", "internal_api_keys", "admin_password"})
#: Settings that can be given as the name of a file: the address of a server may hold a password.
IN_FILES = SECRETS | {"database_url", "redis_url"}


def shown_value(name: str, value: object) -> object:
    """Return a setting as it may be shown: secrets and credentials in addresses are hidden."""
    if name in SECRETS and value is not None:
        return "hidden"
    return without_credentials(name, value) if isinstance(value, str) else value


def without_credentials(name: str, value: str) -> str:
    """Return an address without user and password. A password may contain a slash, but no path contains an @."""
    pattern = r"//.*@" if name in IN_FILES else _CREDENTIALS
    return re.sub(pattern, "//hidden@", value)
