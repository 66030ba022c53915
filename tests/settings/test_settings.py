"""Every setting, validated together: all that is wrong is said at once, and no secret is ever said."""

from __future__ import annotations

import base64
import re
import traceback
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sellerwatch.agents.limits import Limits
from sellerwatch.kernel.wording import Problem, error_text
from sellerwatch.settings.faults import InvalidSettings, rule_warnings, warnings
from sellerwatch.settings.load import load
from sellerwatch.settings.model import PREFIX, SECRETS, Settings, shown_value
from sellerwatch.settings.values import TEN_YEARS

KEY = base64.b64encode(bytes(range(32))).decode()
SECRET = "correct-horse-battery-staple-0123456789"

# As the interface's table says, typed by hand.
DEFAULTS = {
    "DATABASE_URL": "sqlite:///sellerwatch.db",
    "REDIS_URL": None,
    "QUEUE": "database",
    "SQS_QUEUE_NAME": "mustit-crawler-tasks.fifo",
    "SQS_DLQ_NAME": "mustit-crawler-tasks-dlq.fifo",
    "AWS_ENDPOINT_URL": None,
    "SCHEDULER": "embedded",
    "EVENTBRIDGE_TARGET_ARN": None,
    "EVENTBRIDGE_ROLE_ARN": None,
    "MARKETPLACE_URL": "https://m.web.mustit.co.kr",
    "PRODUCT_SERVER_URL": None,
    "PRODUCT_SERVER_SECRET": None,
    "TOKEN_KEYS": None,
    "JWT_SECRET": None,
    "INTERNAL_API_KEYS": None,
    "HOST": "127.0.0.1",
    "PORT": 8080,
    "WINDOW_LIMIT": 80,
    "WINDOW_SECONDS": 3600,
    "REQUESTS_PER_SECOND": 1,
    "MAX_CONCURRENCY": 100,
    "HOST_CONCURRENCY": 100,
    "HOST_REQUESTS_PER_SECOND": None,
    "PAGE_SIZE": 500,
    "TASK_RETRIES": 2,
    "OUTBOX_RETRIES": 5,
    "OUTBOX_INTERVAL_SECONDS": 300,
    "OUTBOX_BACKOFF_SECONDS": 30,
    "OUTBOX_BACKOFF_MAX_SECONDS": 3600,
    "AGENT_SUSPENSION_SECONDS": 3600,
    "BREAKER_MIN_AVAILABLE_PERCENT": 20,
    "BREAKER_OPEN_SECONDS": 600,
    "CIRCUIT_FAILURES": 3,
    "CIRCUIT_OPEN_SECONDS": 600,
    "VISIBILITY_SECONDS": 30,
    "TENDING_INTERVAL_SECONDS": 60,
    "MAX_RETRY_AFTER_SECONDS": 86400,
    "TIMEZONE": "UTC",
    "LANGUAGE": "en",
    "LOG_FORMAT": None,
    "LOG_LEVEL": "info",
}


def env(**values: str) -> dict[str, str]:
    return {PREFIX + name: value for name, value in values.items()}


def faults(environment: dict[str, str], overrides: dict[str, str] | None = None) -> dict[str, str]:
    """What is wrong, by name without the prefix."""
    with pytest.raises(InvalidSettings) as refused:
        load(environment, overrides)
    return {fault.name.removeprefix(PREFIX): fault.problem_text("en") for fault in refused.value.faults}


@pytest.mark.parametrize("name", DEFAULTS)
def test_the_default_is_the_one_that_is_promised(name: str) -> None:
    assert getattr(load({}).settings, name.lower()) == DEFAULTS[name]


def test_every_setting_says_what_it_is_for() -> None:
    assert [name for name, info in Settings.model_fields.items() if not info.description] == []


def test_settings_cannot_be_changed_behind_the_programs_back() -> None:
    with pytest.raises(ValidationError):
        load({}).settings.port = 1


def test_every_fault_is_listed_at_once(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('page_size = "many"\nretries = 3\n')
    broken = env(
        CONFIG=str(file), PORT="abc", WINDOW_LIMIT="0", TIMEZONE="Mars/Base", DATABASEURL="x", JWT_SECRET="short"
    )
    assert set(faults(broken)) == {
        "PAGE_SIZE",
        "RETRIES",
        "PORT",
        "WINDOW_LIMIT",
        "TIMEZONE",
        "DATABASEURL",
        "JWT_SECRET",
    }


def test_the_error_is_a_list_that_names_each_variable() -> None:
    with pytest.raises(InvalidSettings) as refused:
        load(env(PORT="abc", DATABASEURL="x"))
    assert str(refused.value).splitlines() == [
        "The settings have 2 faults:",
        "  - SELLERWATCH_DATABASEURL: unknown setting; the nearest known name is SELLERWATCH_DATABASE_URL",
        "  - SELLERWATCH_PORT: input should be a valid integer, unable to parse string as an integer (it is 'abc')",
    ]


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("DATABASEURL", "DATABASE_URL"), ("LOGLEVEL", "LOG_LEVEL"), ("JWT_SECRETS", "JWT_SECRET"), ("PROT", "PORT")],
)
def test_an_unknown_name_is_answered_with_the_nearest_known_one(name: str, nearest: str) -> None:
    assert faults(env(**{name: "x"})) == {name: f"unknown setting; the nearest known name is {PREFIX}{nearest}"}


def test_an_unknown_name_near_to_nothing_is_told_where_the_names_are() -> None:
    assert faults(env(QQQQQQ="x")) == {"QQQQQQ": "unknown setting; `sellerwatch config check` lists all"}


def test_an_unknown_name_in_the_file_says_which_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("prot = 1\n")
    assert faults(env(CONFIG=str(file))) == {
        "PROT": f"unknown setting in {file}; the nearest known name is {PREFIX}PORT"
    }


def test_names_of_others_are_none_of_our_business() -> None:
    assert load({"PATH": "/bin", "SELLERWATCHER": "x", "PORT": "abc"}).settings == load({}).settings


def test_an_override_beats_the_environment_beats_the_file_beats_the_default(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("window_limit = 1\npage_size = 1\nTASK_RETRIES = 1\n")
    loaded = load(env(CONFIG=str(file), WINDOW_LIMIT="2", PAGE_SIZE="2"), {"window_limit": "3"})
    found = {name: (getattr(loaded.settings, name), loaded.origins[name]) for name in Settings.model_fields}
    assert found["window_limit"] == (3, "override")
    assert found["page_size"] == (2, "environment")
    assert found["task_retries"] == (1, "file")
    assert found["outbox_retries"] == (5, "default")


def test_an_empty_variable_is_one_that_is_not_set(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("port = 9\n")
    loaded = load(env(CONFIG=str(file), PORT="", REDIS_URL="", JWT_SECRET_FILE="", UNKNOWN_THING=""))
    assert (loaded.settings.port, loaded.origins["port"]) == (9, "file")
    assert loaded.settings.redis_url is None
    assert load(env(CONFIG="")).settings == load({}).settings


@pytest.mark.parametrize("name", sorted(SECRETS))
def test_a_secret_can_be_given_as_a_file(tmp_path: Path, name: str) -> None:
    own = {"alert_webhook_url": "https://hooks.example/x", "https_proxy": "http://me:pw@proxy"}
    value = (own | {"token_keys": f"k1:{KEY}"}).get(name, SECRET)
    (tmp_path / "secret").write_text(value + "\n")
    loaded = load(env(**{f"{name.upper()}_FILE": str(tmp_path / "secret")}))
    assert getattr(loaded.settings, name).get_secret_value() == value
    assert loaded.origins[name] == "environment"


def test_only_secrets_can_be_given_as_files() -> None:
    assert set(faults(env(PORT_FILE="/some/file"))) == {"PORT_FILE"}


def test_a_secrets_file_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    found = faults(
        env(
            JWT_SECRET_FILE=str(tmp_path / "missing"),
            TOKEN_KEYS_FILE=str(tmp_path / "binary"),
            INTERNAL_API_KEYS_FILE=str(tmp_path / "empty"),
            PRODUCT_SERVER_SECRET_FILE=str(tmp_path),
        )
    )
    assert found == {
        "JWT_SECRET_FILE": f"{tmp_path}/missing cannot be read: No such file or directory",
        "TOKEN_KEYS_FILE": f"{tmp_path}/binary cannot be read: it is not UTF-8 text",
        "INTERNAL_API_KEYS_FILE": f"{tmp_path}/empty is empty",
        "PRODUCT_SERVER_SECRET_FILE": f"{tmp_path} cannot be read: Is a directory",
    }


def test_a_secret_given_twice_is_a_fault_because_nobody_knows_which_is_meant(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    found = faults(env(JWT_SECRET=SECRET, JWT_SECRET_FILE=str(tmp_path / "secret")))
    assert found == {"JWT_SECRET_FILE": f"{PREFIX}JWT_SECRET is given too; leave one of them"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"port = = 3", "is not TOML"),
        (b"port = 3\nport = 4", "is not TOML"),
        (b"\xff\xfe", "is not TOML"),
    ],
)
def test_a_malformed_file_is_one_fault_beside_the_others(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_bytes(content)
    found = faults(env(CONFIG=str(file), PORT="abc"))
    assert set(found) == {"CONFIG", "PORT"}
    assert found["CONFIG"].startswith(f"{file} {said}")


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    missing = tmp_path / "missing.toml"
    assert faults(env(CONFIG=str(missing))) == {"CONFIG": f"{missing} cannot be read: No such file or directory"}
    assert faults(env(CONFIG=str(tmp_path))) == {"CONFIG": f"{tmp_path} cannot be read: Is a directory"}
    below = Path(__file__) / "below.toml"
    assert faults(env(CONFIG=str(below))) == {"CONFIG": f"{below} cannot be read: Not a directory"}


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("PORT", ["0", "1", "65535"], ["-1", "65536", "1.5", "http", "8080x"]),
        ("WINDOW_LIMIT", ["1", "80", "1000000"], ["0", "-1", "1.5", "1000001", "9" * 30]),
        ("WINDOW_SECONDS", ["0.5", "3600", "315360000"], ["0", "-1", "inf", "nan", "315360001", "1e300"]),
        ("REQUESTS_PER_SECOND", ["0.1", "1", "1000000"], ["0", "-1", "inf", "1e-300", "1e300"]),
        ("SQS_QUEUE_NAME", ["other.fifo"], []),
        ("SQS_DLQ_NAME", ["other-dlq.fifo"], []),
        ("EVENTBRIDGE_TARGET_ARN", ["arn:aws:sqs:ap-northeast-2:123456789012:x.fifo"], []),
        ("EVENTBRIDGE_ROLE_ARN", ["arn:aws:iam::123456789012:role/x"], []),
        ("AWS_ENDPOINT_URL", ["http://127.0.0.1:4566"], ["localstack", "http://key:secret@localhost"]),
        ("HOST_REQUESTS_PER_SECOND", ["0.1", "50"], ["0", "none"]),
        ("MAX_CONCURRENCY", ["1"], ["0"]),
        ("PAGE_SIZE", ["1", "1000"], ["0", "1001"]),
        ("TASK_RETRIES", ["0", "10"], ["-1", "11"]),
        ("OUTBOX_RETRIES", ["1", "100"], ["0", "101"]),
        ("BREAKER_MIN_AVAILABLE_PERCENT", ["0", "100"], ["-1", "101"]),
        ("CIRCUIT_FAILURES", ["1"], ["0"]),
        ("TIMEZONE", ["UTC", "Asia/Seoul"], ["Seoul", "../etc/passwd", "/etc/localtime", "Asia"]),
        ("LANGUAGE", ["en", "ko"], ["de", "EN"]),
        ("LOG_FORMAT", ["json", "console"], ["xml"]),
        ("LOG_LEVEL", ["debug", "info", "warning", "error"], ["verbose"]),
        (
            "MARKETPLACE_URL",
            ["http://127.0.0.1:9000", "https://shop.example/"],
            ["shop.example", "ftp://x", "https://"],
        ),
        (
            "PRODUCT_SERVER_URL",
            ["https://receiver.example/events", "http://[::1]:9/x"],
            ["//x", "https:///path", "http://x:99999/", "http://[::1", "http://a b/", "http://me:pw@receiver.example"],
        ),
        (
            "DATABASE_URL",
            ["sqlite:////var/lib/x.db", "sqlite://"],
            ["sqlite:x", "postgresql://a:b@c/d", "mysql+pymysql://a:b@c/d", "x", "sqlite:///x?y=1"],
        ),
        ("SQLITE_SYNCHRONOUS", ["NORMAL", "FULL"], ["OFF"]),
        ("QUEUE", ["database", "sqs"], ["redis"]),
        ("SQS_GROUP", ["seller", "product"], ["item"]),
        ("SCHEDULER", ["embedded"], ["cron"]),
        (
            "REDIS_URL",
            ["redis://cache:6379/0", "rediss://me:pw@cache", "redis://127.0.0.1"],
            ["cache:6379", "http://cache", "redis://", "redis://cache:0", "redis://cache/zero", "redis://a b"],
        ),
        ("JWT_SECRET", ["x" * 32], ["x" * 31]),
        (
            "HTTPS_PROXY",
            ["http://proxy:3128", "http://me:pw@proxy", "me:pw@proxy:3128", "http://[::1]:3128/"],
            ["https://proxy", "socks5://proxy", "http://", "http://proxy:0", "http://proxy/path", "http://a b", "é"],
        ),
        (
            "TOKEN_KEYS",
            [f"k1:{KEY}", f"k2:{KEY}, k1:{KEY}"],
            [KEY, f":{KEY}", "k1:", "k1:!!", f"k1:{KEY[:-8]}", f"k1:{KEY},"],
        ),
        ("OUTBOX_BACKOFF_SECONDS", ["3600"], ["3601"]),
        ("AGENT_SUSPENSION_SECONDS", ["86400"], ["86401"]),
    ],
)
def test_a_value_is_taken_inside_its_bounds_and_refused_outside(name: str, good: list[str], bad: list[str]) -> None:
    for value in good:
        assert load(env(**{name: value})).origins[name.lower()] == "environment"
    for value in bad:
        assert set(faults(env(**{name: value}))) == {name}, value


def test_the_proxy_of_all_programs_is_ours_unless_we_have_one() -> None:
    common = {"HTTPS_PROXY": "proxy.test:3128", "no_proxy": "a.test"}
    loaded = load(common)
    assert loaded.settings.https_proxy is not None
    assert loaded.settings.https_proxy.get_secret_value() == "http://proxy.test:3128"
    assert (loaded.settings.no_proxy, loaded.origins["https_proxy"]) == ("a.test", "environment")
    ours = load(common | env(HTTPS_PROXY="http://ours.test", NO_PROXY="*")).settings
    assert ours.https_proxy is not None
    assert (ours.https_proxy.get_secret_value(), ours.no_proxy) == ("http://ours.test", "*")


@pytest.mark.parametrize("given", ["http://me:hunter2@proxy:3128", "me:hunter2@proxy", "ftp://me:hunter2@proxy"])
def test_the_password_of_a_proxy_is_never_shown(given: str) -> None:
    try:
        loaded = load(env(HTTPS_PROXY=given))
    except InvalidSettings as invalid:
        said = str(invalid)
    else:
        said = f"{loaded!r} {shown_value('https_proxy', loaded.settings.https_proxy)}"
    assert "hunter2" not in said


@pytest.mark.parametrize("name", [name for name in Settings.model_fields if name.endswith("_seconds")])
def test_the_longest_time_of_every_setting_is_one_that_can_be_counted_with(name: str) -> None:
    # A number that overflows when it is first added to a time would stop the service in the middle of its work.
    longest = TEN_YEARS if name != "departure_margin_seconds" else 60
    together = {"MAX_RETRY_AFTER_SECONDS": str(TEN_YEARS), "OUTBOX_BACKOFF_MAX_SECONDS": str(TEN_YEARS)}
    settings = load(env(**{**together, name.upper(): str(longest)})).settings
    length = timedelta(seconds=getattr(settings, name))
    assert datetime.now(UTC) + length > datetime.now(UTC) - length
    assert set(faults(env(**{**together, name.upper(): str(longest + 1)}))) == {name.upper()}


def test_the_slowest_rate_has_a_time_between_two_requests() -> None:
    settings = load(env(REQUESTS_PER_SECOND=str(1 / TEN_YEARS))).settings
    assert Limits(per_second=settings.requests_per_second).spacing_us < (TEN_YEARS + 1) * 1_000_000


def test_what_the_servers_at_scale_need_is_said_together() -> None:
    assert set(faults(env(SCHEDULER="eventbridge"))) == {"EVENTBRIDGE_TARGET_ARN"}
    assert set(faults(env(QUEUE="sqs", SQS_QUEUE_NAME="tasks", SQS_DLQ_NAME="a b.fifo"))) == {
        "SQS_QUEUE_NAME",
        "SQS_DLQ_NAME",
    }
    assert set(faults(env(QUEUE="sqs", SQS_QUEUE_NAME="x.fifo", SQS_DLQ_NAME="x.fifo"))) == {"SQS_DLQ_NAME"}
    both = load(env(QUEUE="sqs", SCHEDULER="eventbridge", EVENTBRIDGE_TARGET_ARN="arn:aws:events:x")).settings
    assert (both.queue, both.scheduler) == ("sqs", "eventbridge")


def test_who_logs_in_where_is_never_shown() -> None:
    assert shown_value("redis_url", "redis://me:hunter2@cache:6379/0") == "redis://hidden@cache:6379/0"
    assert shown_value("jwt_secret", "x") == "hidden"
    assert shown_value("alert_webhook_url", "https://hooks.example/hunter2") == "hidden"
    assert shown_value("host", "0.0.0.0") == "0.0.0.0"  # noqa: S104 - a value that is shown


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("https://a.example/events?key=hunter2&x=1", "https://a.example/events?hidden"),
        ("https://a.example/events#hunter2", "https://a.example/events#hidden"),
        ("http://me:hun/ter@2@a.example/x", "http://hidden@a.example/x"),
        ("http://me:hun?ter@2@a.example/x?y", "http://hidden@a.example/x?hidden"),
        ("https://a.example/events", "https://a.example/events"),
    ],
)
def test_an_address_is_shown_without_what_may_be_a_secret(given: str, shown: str) -> None:
    for name in ("product_server_url", "marketplace_url", "aws_endpoint_url"):
        assert shown_value(name, given) == shown


def test_the_alert_webhook_is_a_secret_and_can_be_given_as_a_file(tmp_path: Path) -> None:
    path = tmp_path / "webhook"
    path.write_text("https://hooks.example/hunter2\n")
    settings = load(env(ALERT_WEBHOOK_URL_FILE=str(path))).settings
    assert "hunter2" not in repr(settings)
    assert settings.alert_webhook_url is not None
    assert settings.alert_webhook_url.get_secret_value() == "https://hooks.example/hunter2"
    assert "hunter2" not in str(faults(env(ALERT_WEBHOOK_URL="hooks.example/hunter2")))
    assert "hunter2" not in str(faults(env(REDIS_URL="http://me:hunter2@cache")))
    assert "hunter2" not in str(faults(env(REDIS_URL="redis://me:hun/hunter2@cache")))
    assert "hunter2" not in repr(load(env(REDIS_URL="redis://me:hunter2@cache")))


def test_a_mysql_database_needs_the_keys_that_cannot_be_made_beside_it() -> None:
    found = faults(env(DATABASE_URL="mysql://a:hunter2@b/c"))
    assert set(found) == {"TOKEN_KEYS", "JWT_SECRET", "INTERNAL_API_KEYS"}
    assert all("must be set with a MySQL database" in problem for problem in found.values())
    keys = {"TOKEN_KEYS": f"a:{KEY}", "JWT_SECRET": "x" * 32, "INTERNAL_API_KEYS": "key"}
    settings = load(env(DATABASE_URL="mysql://a:hunter2@b/c", **keys)).settings
    assert settings.is_mysql
    assert "hunter2" not in repr(settings)


@pytest.mark.parametrize("url", ["mysql://", "mysql:///c", "mysql://a:hunter2@b", "mysql://a:hunter2@b:x/c"])
def test_a_mysql_address_without_a_host_or_a_database_is_a_fault(url: str) -> None:
    found = faults(env(DATABASE_URL=url, TOKEN_KEYS=f"a:{KEY}", JWT_SECRET="x" * 32, INTERNAL_API_KEYS="key"))
    assert found == {"DATABASE_URL": "a MySQL address is mysql://user:password@host:port/database"}


def test_the_address_of_a_database_can_be_in_a_file_as_it_may_hold_a_password(tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text("sqlite:///x.db\n")
    assert load(env(DATABASE_URL_FILE=str(file))).settings.database_url == "sqlite:///x.db"


def test_an_unknown_override_is_a_fault_too() -> None:
    assert set(faults({}, {"prot": "1"})) == {"PROT"}


def test_the_marketplaces_address_loses_its_last_slash() -> None:
    assert load(env(MARKETPLACE_URL="https://shop.example/")).settings.marketplace_url == "https://shop.example"


def test_secrets_appear_in_no_form_of_the_settings() -> None:
    given = env(
        JWT_SECRET=SECRET, PRODUCT_SERVER_SECRET=SECRET, INTERNAL_API_KEYS=SECRET, TOKEN_KEYS=f"k1:{KEY}", PORT="1"
    )
    loaded = load(given)
    for form in (repr(loaded), str(loaded), loaded.settings.model_dump_json(), f"{loaded.settings}"):
        assert SECRET not in form
        assert KEY not in form


def test_secrets_appear_in_no_error(tmp_path: Path) -> None:
    short = "hunter2-too-short"
    file = tmp_path / "settings.toml"
    file.write_text(f'product_server_secret = ["{SECRET}"]\ninternal_api_keys = {{ key = "{SECRET}" }}\n')
    given = env(
        CONFIG=str(file),
        JWT_SECRET=short,
        TOKEN_KEYS=f"k1:{KEY},bad",
        JWT_SECRTE=SECRET,
        PRODUCT_SERVER_URL=f"https://shop:{SECRET}@receiver.example/",
        MARKETPLACE_URL=f"ftp://shop:{SECRET}@x",
        DATABASE_URL=f"mysql://shop:{SECRET}@db/x",
    )
    with pytest.raises(InvalidSettings) as refused:
        load(given)
    assert len(refused.value.faults) == 7
    for form in (str(refused.value), repr(refused.value), "".join(traceback.format_exception(refused.value))):
        assert SECRET not in form
        assert KEY not in form
        assert short not in form


@pytest.mark.parametrize(
    ("given", "warned"),
    [
        ({}, ["PRODUCT_SERVER_URL: not set: events are kept and wait"]),
        (
            {"PRODUCT_SERVER_URL": "https://receiver.example"},
            ["PRODUCT_SERVER_SECRET: not set: events go out unsigned"],
        ),
        ({"PRODUCT_SERVER_URL": "https://receiver.example", "PRODUCT_SERVER_SECRET": SECRET}, []),
        (
            {"PRODUCT_SERVER_URL": "http://receiver.example:80/x", "PRODUCT_SERVER_SECRET": SECRET},
            ["PRODUCT_SERVER_URL: http, not https: events can be read on the way"],
        ),
        (
            {"PRODUCT_SERVER_URL": "http://localhost.evil.example", "PRODUCT_SERVER_SECRET": SECRET},
            ["PRODUCT_SERVER_URL: http, not https: events can be read on the way"],
        ),
        ({"PRODUCT_SERVER_URL": "http://127.0.0.1:9000/x", "PRODUCT_SERVER_SECRET": SECRET}, []),
        ({"PRODUCT_SERVER_URL": "http://localhost/x", "PRODUCT_SERVER_SECRET": SECRET}, []),
        ({"PRODUCT_SERVER_URL": "http://[::1]:9000", "PRODUCT_SERVER_SECRET": SECRET}, []),
    ],
)
def test_what_works_but_is_probably_not_meant_is_a_warning(given: dict[str, str], warned: list[str]) -> None:
    assert [str(w).removeprefix(PREFIX) for w in warnings(load(env(**given)).settings)] == warned


names = st.one_of(
    st.sampled_from([name.upper() for name in Settings.model_fields]),
    st.sampled_from([f"{name.upper()}_FILE" for name in sorted(SECRETS)]),
    st.sampled_from(["CONFIG", "", "_", "_FILE"]),
    st.text(max_size=12),
)
values = st.one_of(
    st.text(max_size=30),
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(["/", "/dev/null", "/proc/self/mem", "\0", "x" * 300, "9" * 5000, "1e999", "http://[", "k:\udcff"]),
)


def said(environment: dict[str, str], overrides: dict[str, str] | None = None) -> str | None:
    """The refusal, if it is one; anything else that is raised goes through."""
    try:
        load(environment, overrides)
    except InvalidSettings as invalid:
        return str(invalid)
    return None


@profile(max_examples=150)
@given(st.dictionaries(st.one_of(names.map(lambda name: PREFIX + name), st.text(max_size=5)), values, max_size=6))
def test_no_environment_makes_loading_fail_in_any_other_way(environment: dict[str, str]) -> None:
    refusal = said(environment)
    assert refusal is None or refusal.startswith("The settings have ")


@profile(max_examples=100)
@given(st.dictionaries(st.sampled_from(sorted(Settings.model_fields)), st.text(max_size=20), max_size=5))
def test_no_override_does_either(overrides: dict[str, str]) -> None:
    refusal = said({}, overrides)
    assert refusal is None or refusal.startswith("The settings have ")


@pytest.mark.parametrize("name", ["FIELD_POLICIES", "QUARANTINE_EXEMPT"])
def test_what_is_no_text_is_refused_as_well_as_said(name: str) -> None:
    refusal = said({PREFIX + name: "\ud800"})
    assert refusal is not None
    assert name in refusal


def test_near_the_rules_a_bus_holds_there_is_a_warning() -> None:
    bridge = load(env(SCHEDULER="eventbridge", EVENTBRIDGE_TARGET_ARN="arn:aws:events:x")).settings
    assert rule_warnings(bridge, 269) == []
    assert [fault.name for fault in rule_warnings(bridge, 270)] == [f"{PREFIX}SCHEDULER"]
    assert rule_warnings(load({}).settings, 1000) == []


def test_faults_are_said_in_the_readers_language() -> None:
    with pytest.raises(InvalidSettings) as refused:
        load(env(PORT="abc", DATABASEURL="x", JWT_SECRET="short", ADMIN_PASSWORD="x"))
    said = error_text(refused.value.code, refused.value.facts, "ko").splitlines()
    assert said[:4] == [
        "설정에 잘못된 항목이 4개 있습니다.",
        "  - SELLERWATCH_DATABASEURL: 알 수 없는 설정입니다. 가장 비슷한 이름: SELLERWATCH_DATABASE_URL",
        "  - SELLERWATCH_JWT_SECRET: 32자 이상이어야 합니다",
        (
            "  - SELLERWATCH_ADMIN_PASSWORD: 비밀번호는 출력 가능한 문자 12~200자여야 하고, "
            "흔히 쓰이는 비밀번호이거나 흔한 단어, 사용자 이름, 반복만으로 만든 것은 쓸 수 없습니다"
        ),
    ]


def test_the_english_of_common_problems_is_pydantics_own() -> None:
    class Sample(BaseModel):
        model_config = ConfigDict(extra="forbid")

        amount: Annotated[int, Field(gt=0, le=9)]
        name: Annotated[str, Field(min_length=2, max_length=3)]
        unit: Literal["DAYS", "HOURS"]
        at: datetime
        ids: Annotated[list[str], Field(max_length=1)]
        ok: bool
        ratio: Annotated[float, Field(allow_inf_nan=False)]

    texts = {"name": 1, "unit": "x", "at": "x", "ids": ["a", "b"], "ok": "x", "ratio": "inf", "other": 1}
    numbers = {"amount": "x", "name": "long!", "at": 1, "ids": 1, "ratio": "x"}
    for given_ in (texts, numbers, {"amount": 0, "name": "a"}, {"amount": 10}, {"amount": 1.5}):
        with pytest.raises(ValidationError) as refused:
            Sample.model_validate(given_)
        for error in refused.value.errors():
            problem = Problem.of(**error)
            assert problem.key == error["type"], error
            assert problem.text("en") == error["msg"]
            assert re.search(r"[가-힣]", problem.text("ko"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MARKETPLACE_DETAIL_PATH", "/item/detail"),
        ("MARKETPLACE_DETAIL_PATH", "//elsewhere/{item_no}"),
        ("MARKETPLACE_OPTIONS_PATH", "/{item_no}/{item_no}"),
        ("MARKETPLACE_LIST_PATH", "list"),
        ("MARKETPLACE_LIST_PATH", "/list?sellerId=1"),
        ("MARKETPLACE_TOKEN_PATH", "https://elsewhere.example/"),
        ("MARKETPLACE_HEADERS", "Accept"),
        ("MARKETPLACE_HEADERS", "User-Agent: mine"),
        ("MARKETPLACE_PAGE_HEADERS", "Cookie: a=b"),
        ("MARKETPLACE_TOKEN_HEADER", "Authorization: Bearer"),
        ("MARKETPLACE_TOKEN_HEADER", "A: {token} | B: {token}"),
    ],
)
def test_a_path_or_header_that_could_send_a_token_astray_is_refused(name: str, value: str) -> None:
    with pytest.raises(InvalidSettings) as refused:
        load({f"SELLERWATCH_{name}": value})
    assert name in str(refused.value)
