"""Every setting, validated together: all that is wrong is said at once, before anything starts.

Precedence: run-time override (kept in the database), environment, file, default. A secret can be given as `NAME_FILE`.
Where each value came from is kept, so that a person who wonders can be told.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, ValidationError

from sellerwatch.catalog.differences import ChangeKind
from sellerwatch.catalog.policies import InvalidPolicy, parse_policies
from sellerwatch.kernel.errors import Invalid
from sellerwatch.oversight.users import FIRST, InvalidPassword, check_password

PREFIX = "SELLERWATCH_"
CONFIG = "CONFIG"
#: Rules of one EventBridge bus, by default.
MOST_RULES = 300
#: All limits that would hold with these overrides; refuses what is wrong.
InForce = Callable[[Mapping[str, str]], Mapping[str, Any]]
_CREDENTIALS = re.compile(r"//[^/]*@")
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


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not text.isprintable() or " " in text:
        raise ValueError("must be an address that begins with http:// or https://")
    if "@" in parts.netloc:
        raise ValueError("must not hold a user name or password: addresses are shown")
    return text


def _redis(text: str) -> str:
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("redis", "rediss") and bool(parts.hostname) and parts.port != 0
        usable = usable and (parts.path in ("", "/") or parts.path[1:].isdigit())
    except ValueError:
        usable = False
    if not usable or not text.isprintable() or " " in text:
        raise ValueError("must be an address such as redis://host:6379/0")
    return text


def _base(text: str) -> str:
    return _url(text).rstrip("/")


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError("must be a time zone such as UTC or Asia/Seoul") from None
    return name


def _keys(secret: SecretStr) -> SecretStr:
    ids = [entry.strip().partition(":")[0] for entry in secret.get_secret_value().split(",")]
    if len(set(ids)) < len(ids):
        raise ValueError("must not use one key id twice")
    for entry in secret.get_secret_value().split(","):
        key_id, colon, encoded = entry.strip().partition(":")
        try:
            size = len(base64.b64decode(encoded, validate=True))
        except (binascii.Error, ValueError):
            size = 0
        if not colon or not key_id or size != 32:
            raise ValueError("must be id:base64 of 32 bytes, several separated by commas")
    return secret


def _long(secret: SecretStr) -> SecretStr:
    if len(secret.get_secret_value()) < 32:
        raise ValueError("must have at least 32 characters")
    return secret


def _password(secret: SecretStr) -> SecretStr:
    try:
        check_password(secret.get_secret_value(), FIRST)
    except InvalidPassword as invalid:
        raise ValueError(str(invalid)[:-1]) from None
    return secret


def _sayable(text: str) -> str:
    """An environment may hold what is no text; whoever words the refusal cannot carry that."""
    return text.encode("utf-8", "replace").decode()


def _policies(text: str) -> str:
    try:
        parse_policies(text)
    except InvalidPolicy as invalid:
        raise ValueError(_sayable(str(invalid))) from None
    return text


def _kinds(text: str) -> str:
    known = {str(kind) for kind in ChangeKind}
    wrong = [name for each in text.split(",") if (name := each.strip()) and name not in known]
    if wrong:
        raise ValueError(_sayable(f"{wrong[0]} is no kind of change; there are: {', '.join(sorted(known))}"))
    return text


Address = Annotated[str, AfterValidator(_url)]
BaseAddress = Annotated[str, AfterValidator(_base)]
# Bounds that no sane value meets, and inside which every sum of times and every column holds.
TEN_YEARS = 3650 * 86400
Positive = Annotated[int, Field(gt=0, le=1_000_000)]
Seconds = Annotated[float, Field(gt=0, le=TEN_YEARS, allow_inf_nan=False)]
Rate = Annotated[float, Field(ge=1 / TEN_YEARS, le=1_000_000, allow_inf_nan=False)]


def shown_value(name: str, value: object) -> object:
    """A setting as it may be shown: secrets are hidden, and so is who logs in where with what."""
    if name in SECRETS and value is not None:
        return "hidden"
    return _without_credentials(name, value) if isinstance(value, str) else value


def _without_credentials(name: str, value: str) -> str:
    """A password may hold a slash, where no path of the address could hold an @."""
    pattern = r"//.*@" if name in IN_FILES else _CREDENTIALS
    return re.sub(pattern, "//hidden@", value)


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
    redis_url: Annotated[str, AfterValidator(_redis)] | None = Field(
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
    token_keys: Annotated[SecretStr, AfterValidator(_keys)] | None = Field(
        None, description="AES-256 keys `id:base64,...`, the first encrypts; none: made once beside the database."
    )
    jwt_secret: Annotated[SecretStr, AfterValidator(_long)] | None = Field(
        None, description="Signs API tokens; none: made once beside the database."
    )
    jwt_issuer: str = Field("sellerwatch", min_length=1, description="Who issues API tokens.")
    jwt_audience: str = Field("sellerwatch", min_length=1, description="Whom API tokens are for.")
    admin_password: Annotated[SecretStr, AfterValidator(_password)] | None = Field(
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
    task_retries: int = Field(2, ge=0, le=10, description="Retries of a task after its own failures.")
    field_policies: Annotated[str, AfterValidator(_policies)] = Field(
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
    quarantine_exempt: Annotated[str, AfterValidator(_kinds)] = Field(
        "price, stock", description="Kinds of change that are never held."
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
    visibility_seconds: Seconds = Field(30, description="A worker silent for this long has lost its tasks.")
    tending_interval_seconds: Seconds = Field(60, description="How often agents and lost tasks are looked after.")
    max_retry_after_seconds: Seconds = Field(86400, description="Longest Retry-After that is believed.")
    usage_log_days: int = Field(92, ge=1, le=3660, description="How long the log of requests is kept.")
    robots_check: Literal["off", "warn", "obey"] = Field("warn", description="What robots.txt means to us.")
    user_agent_suffix: str = Field("", max_length=200, description="Put behind every User-Agent, e.g. a contact.")
    alert_webhook_url: Address | None = Field(None, description="Alerts go there (Slack's JSON); none: to the log.")
    run_deadline_seconds: Seconds = Field(86400, description="A run that takes longer fails.")
    timezone: Annotated[str, AfterValidator(_zone)] = Field("UTC", description="Whose midnight ends a day.")
    language: Literal["en", "ko"] = Field("en", description="Language of messages for people.")
    log_format: Literal["console", "json"] | None = Field(None, description="None: console on a terminal, else json.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="The least severe line kept.")

    @property
    def is_mysql(self) -> bool:
        """Everything is kept on a server that other processes, on other machines, share."""
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


@dataclass(eq=False)
class UnknownLimit(Invalid):
    """No limit of that name; `known` is the nearest, or all there are."""

    given: str
    known: tuple[str, ...]


@dataclass(eq=False)
class FixedSetting(Invalid):
    """A setting that is read once, when the service starts."""

    name: str


@dataclass(eq=False)
class InvalidLimit(Invalid):
    """A value that the settings as a whole do not allow."""

    name: str
    value: str
    problem: str


SECRETS = frozenset({"product_server_secret", "token_keys", "jwt_secret", "internal_api_keys", "admin_password"})
#: Settings that can be given as the name of a file: the address of a server may hold a password.
IN_FILES = SECRETS | {"database_url", "redis_url"}


@dataclass(frozen=True)
class Loaded:
    """Settings in force and where each came from: `override`, `environment`, `file` or `default`."""

    settings: Settings
    origins: Mapping[str, str] = field(default_factory=dict)


def load(environment: Mapping[str, str], overrides: Mapping[str, str] | None = None) -> Loaded:
    """Read all sources, or raise `InvalidSettings` with every fault there is."""
    faults: list[Fault] = []
    layers = (
        ("file", _from_file(environment, faults)),
        ("environment", _from_environment(environment, faults)),
        ("override", dict(overrides or {})),
    )
    values: dict[str, Any] = {}
    origins: dict[str, str] = dict.fromkeys(Settings.model_fields, "default")
    for origin, layer in layers:
        values |= layer
        origins |= dict.fromkeys(layer, origin)
    settings = _validated(values, faults)
    if settings is not None:
        faults += _faults_together(settings)
    if settings is None or faults:
        raise InvalidSettings(faults=tuple(faults))
    return Loaded(settings, origins)


def tuned(settings: Settings, overrides: Mapping[str, str]) -> Settings:
    """The settings with limits changed at run time, or `InvalidSettings` with every fault there is."""
    faults: list[Fault] = []
    changed = _validated(settings.model_dump() | dict(overrides), faults)
    if changed is None:
        raise InvalidSettings(faults=tuple(faults))
    return changed


def limit_name(given: str) -> str:
    """A limit's name in any case, with or without the prefix of the environment."""
    name = given.strip().lower().replace("-", "_").removeprefix(PREFIX.lower())
    if name in TUNABLE:
        return name
    if name in Settings.model_fields:
        raise FixedSetting(name=name.upper())
    near = difflib.get_close_matches(name, TUNABLE, n=1) or list(TUNABLE)
    raise UnknownLimit(given=given[:100], known=tuple(one.upper() for one in near))


def limit_checked(name: str, value: str, in_force: InForce) -> InForce:
    """`in_force`, with a refusal in one sentence where the new value alone is at fault."""

    def check(overrides: Mapping[str, str]) -> Mapping[str, Any]:
        try:
            return in_force(overrides)
        except InvalidSettings as invalid:
            if [fault.name for fault in invalid.faults] != [PREFIX + name.upper()]:
                raise
            problem = invalid.faults[0].problem.partition(" (it is")[0]
            raise InvalidLimit(name=name.upper(), value=value[:100], problem=problem) from None

    return check


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


def _from_file(environment: Mapping[str, str], faults: list[Fault]) -> dict[str, Any]:
    path = environment.get(PREFIX + CONFIG)
    if not path:
        return {}
    try:
        with Path(path).open("rb") as opened:
            table = tomllib.load(opened)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        faults.append(Fault(PREFIX + CONFIG, f"{path} is not TOML: {error}"))
        return {}
    except (OSError, ValueError) as error:
        faults.append(Fault(PREFIX + CONFIG, f"{path} cannot be read: {_why(error)}"))
        return {}
    return _known({name.lower(): value for name, value in table.items()}, faults, f"in {path}")


def _from_environment(environment: Mapping[str, str], faults: list[Fault]) -> dict[str, Any]:
    given = {
        name.removeprefix(PREFIX).lower(): value
        for name, value in environment.items()
        # An empty variable is how shells and compose files say "not set".
        if name.startswith(PREFIX) and name != PREFIX + CONFIG and value != ""
    }
    for name in [n for n in given if n.endswith("_file") and n.removesuffix("_file") in IN_FILES]:
        path, plain = given.pop(name), name.removesuffix("_file")
        if plain in given:
            faults.append(Fault(PREFIX + name.upper(), f"{PREFIX}{plain.upper()} is given too; leave one of them"))
            continue
        try:
            secret = Path(path).read_text("utf-8").strip()
        except (OSError, ValueError) as error:
            faults.append(Fault(PREFIX + name.upper(), f"{path} cannot be read: {_why(error)}"))
            continue
        if not secret:
            faults.append(Fault(PREFIX + name.upper(), f"{path} is empty"))
            continue
        given[plain] = secret
    return _known(given, faults, "")


def _why(error: OSError | ValueError) -> str:
    """Never the text of the file: it may be a secret."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8 text"
    return (error.strerror if isinstance(error, OSError) else None) or "it is not a path"


def _known(given: dict[str, Any], faults: list[Fault], where: str) -> dict[str, Any]:
    known = Settings.model_fields
    for name in [n for n in given if n not in known]:
        del given[name]
        near = difflib.get_close_matches(name, known, n=1)
        hint = (
            f"; the nearest known name is {PREFIX}{near[0].upper()}"
            if near
            else "; `sellerwatch config check` lists all"
        )
        faults.append(Fault(PREFIX + name.upper(), f"unknown setting {where}".rstrip() + hint))
    return given


def _validated(values: dict[str, Any], faults: list[Fault]) -> Settings | None:
    try:
        return Settings.model_validate(values)
    except ValidationError as invalid:
        for error in invalid.errors(include_input=False, include_url=False):
            name = PREFIX + str(error["loc"][0]).upper()
            problem = error["msg"].removeprefix("Value error, ")
            value = _without_credentials(str(error["loc"][0]), str(values.get(str(error["loc"][0]))))
            shown = "" if str(error["loc"][0]) in SECRETS else f" (it is '{value}')"
            faults.append(Fault(name, problem[:1].lower() + problem[1:] + shown))
        return None


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


def _faults_together(settings: Settings) -> list[Fault]:
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
