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
    Headers,
    ItemPath,
    Keys,
    LongSecret,
    Networks,
    Password,
    Positive,
    ProxyAddress,
    Rate,
    RedisAddress,
    RequestPath,
    Seconds,
    SecretAddress,
    TokenHeader,
    Zone,
)

PREFIX = "SELLERWATCH_"
_CREDENTIALS = re.compile(r"//.*@", re.DOTALL)
_QUERY = re.compile(r"([?#]).*", re.DOTALL)


class Settings(BaseModel):
    """Names are those of the environment without the prefix, in lower case. The description is the documentation."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    database_url: str = Field(
        "sqlite:///sellerwatch.db",
        repr=False,
        description="The database: sqlite:///path, or mysql://user:password@host:port/database.",
    )
    sqlite_synchronous: Literal["NORMAL", "FULL"] = Field(
        "NORMAL", description="FULL survives a power cut as well as kill -9, but is slower."
    )
    redis_url: RedisAddress | None = Field(
        None,
        repr=False,
        description="Redis for limits and leases (redis:// or rediss://), with a database of its own; none: embedded.",
    )
    queue: Literal["database", "sqs"] = Field("database", description="Queue of tasks.")
    sqs_queue_name: str = Field(
        "mustit-crawler-tasks.fifo", min_length=1, description="Queue of tasks, with QUEUE sqs."
    )
    sqs_dlq_name: str = Field(
        "mustit-crawler-tasks-dlq.fifo", min_length=1, description="Dead-letter queue, with QUEUE sqs."
    )
    sqs_group: Literal["seller", "product"] = Field(
        "seller",
        description="Message group of SQS: at most 10 in flight per seller, or per product, with QUEUE sqs.",
    )
    scheduler: Literal["embedded", "eventbridge"] = Field("embedded", description="What starts due runs.")
    eventbridge_target_arn: str | None = Field(None, description="Target that rules call, with SCHEDULER eventbridge.")
    eventbridge_role_arn: str | None = Field(None, description="Role that rules use, with SCHEDULER eventbridge.")
    aws_endpoint_url: Address | None = Field(None, description="Another endpoint for AWS, such as a local one.")
    marketplace_url: BaseAddress = Field("https://m.web.mustit.co.kr", description="Address of the marketplace.")
    marketplace_list_path: RequestPath = Field(
        "/mustit-api/facade-api/v1/searchmini-shop-search",
        description="Path of the product list; it has changed before.",
    )
    marketplace_detail_path: ItemPath = Field(
        "/mustit-api/facade-api/v1/item/{item_no}/detail/top",
        description="Path of a product's detail; {item_no} stands for its number.",
    )
    marketplace_options_path: ItemPath = Field(
        "/mustit-api/legacy-api/v1/auction_products/{item_no}/options",
        description="Path of a product's options; {item_no} stands for its number.",
    )
    marketplace_token_path: RequestPath = Field("/", description="Path of the page that gives out tokens.")
    marketplace_first_page: int = Field(0, ge=0, le=1, description="Number of the first page of a product list.")
    marketplace_headers: Headers = Field(
        "Accept: application/json | Accept-Language: ko-KR,ko;q=0.9",
        description="Headers of an API request beside identity and token, as NAME: VALUE, separated by |.",
    )
    marketplace_page_headers: Headers = Field(
        "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8 | Accept-Language: ko-KR,ko;q=0.9",
        description="Headers of a request of the token page beside the identity, as NAME: VALUE, separated by |.",
    )
    marketplace_token_header: TokenHeader = Field(
        "Authorization: Bearer {token}",
        description="Header that carries the token; {token} stands for it.",
    )
    product_server_url: Address | None = Field(None, description="Address that receives the events; none: events wait.")
    product_server_secret: SecretStr | None = Field(None, description="Signs the events; none: events are not signed.")
    token_keys: Keys | None = Field(
        None,
        description="AES-256 keys `id:base64,...`; the first encrypts; none: created once beside the database.",
    )
    jwt_secret: LongSecret | None = Field(
        None,
        description="Signs API tokens; of several, separated by commas, the first; none: created beside the database.",
    )
    cookie_secret: LongSecret | None = Field(
        None,
        description="Signs cookies of the console; of several, separated by commas, the first; none: by JWT_SECRET.",
    )
    form_secret: LongSecret | None = Field(
        None,
        description="Signs form tokens of the console; of several, separated by commas, the first; none: by"
        " JWT_SECRET.",
    )
    jwt_issuer: str = Field("sellerwatch", min_length=1, description="Issuer of API tokens.")
    jwt_audience: str = Field("sellerwatch", min_length=1, description="Audience of API tokens.")
    admin_password: Password | None = Field(
        None,
        description="Password of admin, the user created at the first start; none: a one-time password is printed.",
    )
    login_seconds: Seconds = Field(3600, le=86400, description="How long a token of POST /api/v1/auth/login is valid.")
    session_idle_seconds: Seconds = Field(3600, description="A log-in of the console that is not used ends after this.")
    session_seconds: Seconds = Field(43200, description="A log-in of the console ends after this, used or not.")
    internal_api_keys: SecretStr | None = Field(
        None, description="Keys of /api/internal, separated by commas; none: one created once beside the database."
    )
    host: str = Field("127.0.0.1", min_length=1, description="Address that the API listens on.")
    port: int = Field(8080, ge=0, le=65535, description="Port that the API listens on.")
    api_requests_per_minute: Positive = Field(
        1200, description="Requests that one client of the API may make in a minute."
    )
    api_connections: int = Field(
        1000,
        ge=1,
        le=100_000,
        description="Connections to the API at a time; beyond them only health and metrics answer.",
    )
    api_connections_per_address: int = Field(
        200, ge=1, le=100_000, description="Connections from one address, except from TRUSTED_PROXIES."
    )
    trusted_proxies: Networks = Field(
        "",
        description="Addresses and networks of proxies, separated by commas: only their X-Forwarded-For and"
        " X-Forwarded-Proto are believed.",
    )
    window_limit: Positive = Field(80, description="Requests of one agent in any window.")
    window_seconds: Seconds = Field(3600, description="Length of the window.")
    requests_per_second: Rate = Field(1, description="Requests a second of one agent.")
    departure_margin_seconds: float = Field(
        0.05, ge=0, le=60, description="Added between two requests of one agent, for network jitter."
    )
    max_concurrency: Positive = Field(100, description="Requests in flight of one worker.")
    host_concurrency: Positive = Field(100, description="Requests in flight to the marketplace, over all agents.")
    host_requests_per_second: Rate | None = Field(
        None, description="Requests a second to the marketplace; none: no limit."
    )
    page_size: int = Field(500, ge=1, le=1000, description="Products on a list page.")
    max_list_total: int = Field(
        1_000_000, ge=1, le=100_000_000, description="A list with a higher total than this is unreadable."
    )
    task_retries: int = Field(2, ge=0, le=10, description="Retries of a task after its own failures.")
    field_policies: FieldPolicies = Field(
        "", description="Differences not worth an event: FIELD=ignore, FIELD=5 or FIELD=5%, separated by commas."
    )
    removal_share_percent: int = Field(
        20,
        ge=0,
        le=100,
        description="If more of a seller's products than this disappear at once, their removal is held.",
    )
    removal_products: int = Field(10, ge=0, description="Products that may disappear at once, whatever their share.")
    quarantine_share_percent: int = Field(
        30, ge=0, le=100, description="A field that changes in more of a run's products than this is quarantined."
    )
    quarantine_products: int = Field(
        20, ge=0, description="Products in which a field may change, whatever their share."
    )
    quarantine_exempt: ChangeKinds = Field("price, stock", description="Kinds of change that are never quarantined.")
    quarantine_recheck_seconds: Seconds = Field(
        300, description="How often a run that unreadable answers paused checks a few of them again."
    )
    raw_body_days: Positive = Field(365, description="How long stored bodies are kept that have a newer one.")
    outbox_retries: int = Field(5, ge=1, le=100, description="Attempts of an event in all.")
    outbox_interval_seconds: Seconds = Field(300, description="How often the outbox is read when nothing wakes it.")
    outbox_concurrency: Positive = Field(20, description="Events in flight to the product server, of one process.")
    outbox_requests_per_second: Rate | None = Field(
        None, description="Events a second to the product server, over all processes; none: no limit."
    )
    outbox_circuit_failures: Positive = Field(
        5, description="Failures in a row that stop sending, or one seller's events, until a probe succeeds."
    )
    outbox_circuit_open_seconds: Seconds = Field(
        30, description="Wait before those probes; doubles up to OUTBOX_INTERVAL_SECONDS."
    )
    outbox_probes: Positive = Field(
        5, description="Events, of different sellers and products, that are sent at once as probes."
    )
    outbox_backoff_seconds: Seconds = Field(
        30, description="Wait after the first failed attempt of an event; doubles with each."
    )
    outbox_backoff_max_seconds: Seconds = Field(3600, description="Longest wait between two attempts of an event.")
    outbox_kept_days: int = Field(
        92,
        ge=1,
        le=3660,
        description="How long delivered events and attempts are kept; the last event of a product is always kept.",
    )
    token_refresh_seconds: Seconds = Field(
        3600, description="How old a token gets before it is renewed; one that lives for less is renewed earlier."
    )
    agent_suspension_seconds: Seconds = Field(3600, description="How long an agent is suspended.")
    breaker_min_available_percent: int = Field(
        20, ge=0, le=100, description="The pool's breaker opens when fewer agents than this are available."
    )
    breaker_open_seconds: Seconds = Field(600, description="How long the pool's breaker stays open.")
    circuit_failures: Positive = Field(3, description="Failures in a row that open an agent's circuit.")
    circuit_open_seconds: Seconds = Field(600, description="How long an agent's circuit stays open.")
    marketplace_circuit_failures: Positive = Field(
        5, description="Network errors or 5xx answers in a row that open the circuit of an endpoint."
    )
    marketplace_circuit_open_seconds: Seconds = Field(
        30, description="Wait before a probe of that endpoint; doubles up to 20 times this."
    )
    start_retry_seconds: Seconds = Field(
        30, description="Wait before a run that could not be started is tried again; doubles up to 900."
    )
    visibility_seconds: Seconds = Field(30, description="A worker without a heartbeat for this long loses its tasks.")
    tending_interval_seconds: Seconds = Field(60, description="How often agents and lost tasks are checked.")
    max_retry_after_seconds: Seconds = Field(86400, description="Longest Retry-After that is obeyed.")
    usage_log_days: int = Field(92, ge=1, le=3660, description="How long the log of requests is kept.")
    task_retention_days: int = Field(
        30, ge=1, le=3660, description="How long tasks of ended runs are kept; runs and days are kept for ever."
    )
    token_retention_days: int = Field(
        92, ge=1, le=3660, description="How long rows of tokens are kept that expired and are not used any more."
    )
    circuit_event_retention_days: int = Field(
        92, ge=1, le=3660, description="How long the history of the agents' circuits is kept."
    )
    audit_retention_days: int = Field(730, ge=1, le=36600, description="How long the audit trail is kept.")
    robots_check: Literal["off", "warn", "obey"] = Field("warn", description="How robots.txt is treated.")
    user_agent_suffix: str = Field(
        "", max_length=200, description="Appended to every User-Agent, for example a contact."
    )
    alert_webhook_url: SecretAddress | None = Field(
        None, description="Address for alerts (Slack's JSON); none: alerts go to the log."
    )
    https_proxy: ProxyAddress | None = Field(
        None,
        description="Proxy for https:// addresses of marketplace, receiver and alerts, as"
        " http://[user:password@]host:port; none: HTTPS_PROXY of the environment.",
    )
    no_proxy: str = Field(
        "",
        description="Hosts that are asked without the proxy, separated by commas, or * for all; none: NO_PROXY of the"
        " environment.",
    )
    run_deadline_seconds: Seconds = Field(86400, description="A run that takes longer fails.")
    backup_max_age_days: int = Field(
        8,
        ge=1,
        le=3660,
        description="With `db backup` in use: the age at which its last good backup needs attention.",
    )
    timezone: Zone = Field("UTC", description="Time zone of days in statistics and of times in the console.")
    language: Literal["en", "ko"] = Field("en", description="Language of messages.")
    log_format: Literal["console", "json"] | None = Field(
        None, description="None: console on a terminal, otherwise json."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least severe level that is logged."
    )

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
SECRETS = frozenset(
    {
        "product_server_secret",
        "token_keys",
        "jwt_secret",
        "cookie_secret",
        "form_secret",
        "internal_api_keys",
        "admin_password",
        # Anybody who knows such an address can post there.
        "alert_webhook_url",
        # It may hold a password, also where it is not written as an address should be.
        "https_proxy",
    }
)
#: Settings that can be given as the name of a file: the address of a server may hold a password.
IN_FILES = SECRETS | {"database_url", "redis_url"}


def shown_value(name: str, value: object) -> object:
    """Return a setting as it may be shown: secrets and credentials in addresses are hidden."""
    if name in SECRETS and value is not None:
        return "hidden"
    return without_credentials(value) if isinstance(value, str) else value


def without_credentials(value: str) -> str:
    """Return an address without user, password and query. A password may contain a slash, an @ and a question mark, so
    everything up to the last @ is hidden."""
    if "//" not in value:
        return value
    return _QUERY.sub(r"\1hidden", _CREDENTIALS.sub("//hidden@", value))
