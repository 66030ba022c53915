"""What is fuzzed: readers of what others send us. A target takes any bytes; an exception that leaves it is a finding.

A target does more than to see that nothing unexpected is raised: what was accepted is checked by another rule (a second
parser, the signature computed again, the bounds of a column), and a refusal has to be sayable in both languages.

`make soak` drives targets by coverage with atheris, `test_fuzz.py` for a short while with Hypothesis.
"""

from __future__ import annotations

import ast
import asyncio
import base64
import hashlib
import hmac
import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace, UnionType
from typing import Any, get_args, get_origin, get_type_hints
from urllib.parse import parse_qsl

import httptools
import orjson
from msgspec import Struct
from tests.builders import NOW, StoppedClock
from tests.fuzz import seeds
from tests.marketplaces.bodies import ITEM
from tests.simulated_service import settings_of, simulated_service, simulator_of
from tests.web.api_world import ApiWorld

from sellerwatch.adapters.http import signing
from sellerwatch.adapters.http.http1 import ReceivedResponse, read_answer
from sellerwatch.adapters.sql.engine import InvalidDatabaseUrl, make_engine
from sellerwatch.adapters.sql.store import InlineRunner, SqlStore
from sellerwatch.catalog.ports import Unparsable
from sellerwatch.compose.deployment import deployment_of
from sellerwatch.kernel.retry_after import retry_after
from sellerwatch.marketplaces.mustit import parse
from sellerwatch.marketplaces.mustit.cookies import LONGEST_LIFETIME, read_cookies
from sellerwatch.marketplaces.mustit.fields import unknown_fields
from sellerwatch.marketplaces.ports import ListPage, Reply, TransportFailed
from sellerwatch.marketplaces.robots import Robots, RobotsForbid
from sellerwatch.reports.checks import find_unsafe
from sellerwatch.settings.faults import InvalidSettings, warnings
from sellerwatch.settings.load import load
from sellerwatch.settings.model import IN_FILES, SECRETS, Settings, shown_value
from sellerwatch.simulator.events import is_signed, signature
from sellerwatch.web.api.bodies import check_body, check_form
from sellerwatch.web.api.credentials import Role
from sellerwatch.web.api.errors import InvalidRequest

ROOT = Path(__file__).parents[2]
#: Inputs that once failed, by target.
CASES = Path(__file__).with_name("cases")
LANGUAGES = ("en", "ko")
Run = Callable[[bytes], None]


@dataclass(frozen=True)
class Target:
    """One reader: how it is opened with a migrated database, good inputs to begin with, and pieces to put into them."""

    opened: Callable[[Path], AbstractContextManager[Run]]
    seeds: Callable[[], Sequence[bytes]]
    tokens: Sequence[bytes]
    #: Modules whose coverage leads the search.
    watched: tuple[str, ...]


def simple(run: Run) -> Callable[[Path], AbstractContextManager[Run]]:
    """A target without anything to open."""

    @contextmanager
    def opened(_: Path) -> Iterator[Run]:
        yield run

    return opened


LARGEST = 2_000
#: Seconds after which a request counts as never answered, however busy the machine is: no sleep here is a real one.
ANSWER_WITHIN = 120
#: Details of a failed answer that are fixed; they repeat nothing of what was received.
DETAILS = (
    "in mid-answer",
    "before an answer",
    "the answer is not HTTP",
    "the body broke off or could not be decoded",
    f"more than {LARGEST:,} bytes",
)


def http_answers(wire: bytes) -> None:
    """The reader of HTTP answers: the pieces make no difference, the body is bounded, and another parser agrees."""
    whole, _ = _read(wire, [wire])
    if isinstance(whole, TransportFailed):
        assert whole.detail in DETAILS, whole.detail
    for size in (1, 7):
        edges = [*range(0, len(wire), size), len(wire)]
        pieces, taken = _read(wire, [wire[a:b] for a, b in pairwise(edges)])
        if taken == len(wire):
            assert _outcome(pieces) == _outcome(whole)
        else:
            # It was whole before all of it had come: what comes afterwards would be the next answer's.
            assert isinstance(whole, TransportFailed), "bytes behind an answer were taken for a part of it"
            assert _outcome(pieces) == _outcome(_read(wire[:taken], [wire[:taken]])[0])
    if isinstance(whole, ReceivedResponse):
        assert len(whole.reply.body) <= LARGEST
        _agree_with_httptools(wire, whole)


def _read(wire: bytes, pieces: Sequence[bytes]) -> tuple[ReceivedResponse | TransportFailed, int]:
    """Return the outcome, and how many bytes had been given by then."""
    reader, given = read_answer(LARGEST), 0
    next(reader)
    try:
        for piece in pieces:
            if piece:
                given += len(piece)
                reader.send(piece)
        reader.send(b"")
    except StopIteration as done:
        received: ReceivedResponse = done.value
        return received, given
    except TransportFailed as failed:
        return failed, given
    raise AssertionError("it waits for more after the end")


def _outcome(received: ReceivedResponse | TransportFailed) -> object:
    if isinstance(received, TransportFailed):
        return received.problem
    return received


#: What httptools refuses and the standard allows: the same length twice, most of what may follow a chunk's size,
#: trailers with names that would matter in a head, and an answer behind 100 Continue of HTTP/1.0. What is
#: harmful among them is refused by tests of the transport.
STRICTER = (
    "Data after `Connection: close`",
    "Duplicate Content-Length",
    "Invalid character in chunk extensions",
    # Some servers pad the size with spaces; RFC 9112 lets a reader ignore them.
    "Invalid character in chunk size",
    "Content-Length can't be present with Transfer-Encoding",
    "Empty Transfer-Encoding",
)


class _Heard:
    """What httptools says of the last answer in some bytes."""

    def __init__(self, wire: bytes) -> None:
        self.body, self.status, self.refused = b"", 0, ""
        parser = httptools.HttpResponseParser(self)
        self._parser = parser
        try:
            parser.feed_data(wire)
        except httptools.HttpParserError as error:
            self.refused = str(error)

    def on_message_begin(self) -> None:
        self.body = b""

    def on_status(self, _: bytes) -> None:
        self.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self.body += body


def _agree_with_httptools(wire: bytes, received: ReceivedResponse) -> None:
    heard = _Heard(wire)
    is_packed = received.reply.header("content-encoding") is not None
    assert not heard.refused or heard.refused.startswith(STRICTER), f"httptools refuses it: {heard.refused}"
    if not heard.refused and not is_packed:
        assert heard.body == received.reply.body, (heard.body, received.reply.body)


def settings(data: bytes) -> None:
    """Environment and file: settings in force, or faults that can be said and show no secret."""
    with tempfile.TemporaryDirectory(dir=_memory()) as folder:
        environment, secrets = _environment(data, Path(folder))
        try:
            loaded = load(environment).settings
        except InvalidSettings as invalid:
            for language in LANGUAGES:
                said = "\n".join(fault.text(language) for fault in invalid.faults)
                said.encode()
                _hides(said, secrets)
            return
        shown = {name: shown_value(name, getattr(loaded, name)) for name in Settings.model_fields}
        _hides(repr(loaded) + str(shown), secrets)
        for fault in warnings(loaded):
            fault.text("ko").encode()
        # The last word on a database's address is the engine's.
        with suppress(InvalidDatabaseUrl):
            for finding in find_unsafe(deployment_of(loaded, environment)):
                finding.problem.text("ko").encode()


@cache
def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108


def _environment(data: bytes, folder: Path) -> tuple[dict[str, str], list[str]]:
    """`NAME=VALUE` lines, and after a line `---` the settings' file. The value of a NAME_FILE is put into a file."""
    lines, _, toml = data.partition(b"\n---\n")
    environment: dict[str, str] = {}
    secrets = []
    for number, line in enumerate(lines.split(b"\n")):
        name, _, value = line.decode("utf-8", "surrogateescape").replace("\0", "").partition("=")
        plain = name.removesuffix("_FILE").lower()
        if name != plain.upper() and plain in IN_FILES:
            path = folder / str(number)
            path.write_bytes(value.encode("utf-8", "surrogateescape"))
            environment[f"SELLERWATCH_{name}"] = str(path)
        elif name != "CONFIG":
            environment[f"SELLERWATCH_{name}"] = value
        if plain in SECRETS:
            secrets.append(value.strip())
    if toml:
        (folder / "toml").write_bytes(toml)
        environment["SELLERWATCH_CONFIG"] = str(folder / "toml")
    shown = [value for name, value in environment.items() if name.removeprefix("SELLERWATCH_").lower() not in SECRETS]
    others = [*environment, *shown]
    return environment, [secret for secret in secrets if not any(secret in other for other in others)]


def _hides(said: str, secrets: Sequence[str]) -> None:
    """What is as short as an ordinary word may stand there by chance."""
    for secret in secrets:
        assert len(secret) < 12 or secret not in said, "a secret is shown"


def json_bodies(data: bytes) -> None:
    """JSON and forms as the API takes them: what passes reads alike everywhere."""
    for check in (check_body, check_form):
        try:
            check(data)
        except InvalidRequest as refused:
            for language in LANGUAGES:
                said = refused.problems[0].problem_text(language)
                assert len(said.encode()) < 1_000
            continue
        if check is check_form:
            assert "\0" not in "".join(name + value for name, value in parse_qsl(data.decode(), True))
            continue
        assert all(len(set(names)) == len(names) for names in _names(data)), "a name comes twice"
        json.dumps(json.loads(data), ensure_ascii=False, allow_nan=False).encode()
        assert not any("\0" in text for text in _texts(json.loads(data)))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for each in (*value, *value.values()) if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(each)


def _names(data: bytes) -> list[list[str]]:
    """The names of each object, in any order of the objects."""
    found: list[list[str]] = []
    json.loads(data, object_pairs_hook=lambda pairs: found.append([name for name, _ in pairs]))
    return found


@contextmanager
def api_requests(database: Path) -> Iterator[Run]:
    """The whole API, as an administrator sees it: nothing that is sent is our fault, and refusals have our shape."""
    engine = make_engine(f"sqlite:///{database}")
    chosen, clock = settings_of(API_REQUESTS_PER_MINUTE=1_000_000), StoppedClock(NOW)
    simulator = simulator_of(chosen, seed=1, sellers=2, products=12)
    store = SqlStore(engine, clock, InlineRunner(), InlineRunner())
    stack = AsyncExitStack()

    async def world() -> ApiWorld:
        service = await stack.enter_async_context(simulated_service(chosen, simulator, clock, store=store))
        made = ApiWorld(store, clock, service, chosen, simulator)
        await made.register_seller()
        return made

    with asyncio.Runner() as runner:
        opened = runner.run(world())
        year = timedelta(days=365)
        admin = opened.with_token(opened.credentials.issue("admin@practice", Role.ADMIN, year, NOW))

        def run(data: bytes) -> None:
            first, _, body = data.partition(b"\n")
            method, _, path = first.decode("latin-1").partition(" ")
            path, _, query = path.partition("?")
            if method not in ("GET", "POST", "PATCH", "PUT", "DELETE") or path.startswith("/api/v1/events"):
                return
            kind = {"content-type": "application/json"} if body else {}
            asked = admin.ask(method, path, raw=body, query=dict(parse_qsl(query)), headers=kind)
            reply = runner.run(asyncio.wait_for(asked, ANSWER_WITHIN))
            # 503: an embedded service has no queue of dead letters, and no receiver that could be asked.
            assert reply.status < 500 or reply.status == 503, reply.body
            if reply.status >= 400:
                assert {"errorCode", "message", "timestamp", "path"} <= set(reply.json), reply.body
                assert len(reply.body) < 20_000

        try:
            yield run
        finally:
            runner.run(stack.aclose())
            store.close()
            engine.dispose()


def webhook_signatures(data: bytes) -> None:
    """A receiver's check of a signature: genuine exactly when one sent signature is that of one secret. Ours and those
    of the examples agree."""
    head, _, body = data.partition(b"\n\n")
    pairs = [line.decode("latin-1").partition(": ") for line in head.split(b"\n")]
    headers = {name: value for name, _, value in pairs if name != "secret"}
    secret = next((value for name, _, value in pairs if name == "secret"), "")
    try:
        keys = signing.signing_keys(secret)
    except signing.InvalidSigningSecret as refused:
        assert len(secret) < 12 or secret not in str(refused)
        return
    if len(keys) != 1 or not re.fullmatch(r"[!-+\--~]+", secret):
        return
    (key,) = keys
    message_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    sent = headers.get("webhook-signature", "").split(" ")
    digest = hmac.new(key, f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    expected = "v1," + base64.b64encode(digest).decode()
    is_number = timestamp.isascii() and timestamp.isdecimal()
    is_genuine = expected in sent and bool(message_id) and is_number
    assert is_signed(headers, body, [secret]) == is_genuine
    assert signature(secret, message_id, timestamp, body) == expected
    is_fresh = is_number and len(timestamp) < 20 and abs(seeds.SIGNED_AT - int(timestamp)) <= 300
    for example in _examples(secret):
        assert example(headers, body) == (expected in sent and is_fresh)
    # The same with a right signature, which nobody can guess.
    right = headers | {"webhook-signature": expected}
    assert is_signed(right, body, [secret]) == (bool(message_id) and is_number)
    if is_number and len(timestamp) < 20:
        ours = signing.signature_header((b"another", key), message_id, int(timestamp), body)
        assert expected in ours.split(" ") or timestamp != str(int(timestamp))


@cache
def _examples(secret: str) -> tuple[Callable[[Mapping[str, str], bytes], bool], ...]:
    """The checks of the receivers in docs/examples, at the time of the seeds."""
    found = []
    for name in ("plain_receiver.py", "fastapi_receiver.py"):
        tree = ast.parse((ROOT / "docs/examples/receivers" / name).read_text())
        tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "is_genuine"]
        clock = SimpleNamespace(time=lambda: float(seeds.SIGNED_AT))
        scope: dict[str, Any] = {"SECRET": secret, "base64": base64, "hmac": hmac, "time": clock}
        exec(compile(tree, name, "exec"), scope)  # noqa: S102
        found.append(scope["is_genuine"])
    return tuple(found)


def marketplace_bodies(data: bytes) -> None:
    """The parsers of the marketplace's answers: facts that every column can hold, whatever the order of the fields; or
    a refusal that can be said and stored."""
    readers = (
        (parse.LIST, lambda body: parse.read_list(body, 500)),
        (parse.DETAIL, lambda body: parse.read_detail(body, ITEM)),
        (parse.OPTIONS, lambda body: parse.read_options(body, ITEM)),
        (parse.LIST, parse.read_entry),
    )
    with suppress(orjson.JSONDecodeError):
        for endpoint, _ in readers[:3]:
            "".join(unknown_fields(endpoint, orjson.loads(data))).encode()
    for _, read in readers:
        facts = _facts(read, data)
        if facts is not None:
            _is_storable(facts)
            assert all(_is_of(each, type(each)) for each in _structs(facts))
            assert _facts(read, _in_another_order(data)) == facts


def _facts(read: Callable[[bytes], Any], body: bytes) -> Any:
    try:
        facts = read(body)
        if isinstance(facts, ListPage):
            assert all(parse.read_entry(entry.raw) == entry.facts for entry in facts.entries)
            return facts.total, [entry.facts for entry in facts.entries]
        return facts
    except Unparsable as refused:
        for language in LANGUAGES:
            refused.problem.text(language).encode()
        assert type(refused.problem).read(refused.problem.stored) is not None
        refused.problem.general.stored.encode("ascii")
        return None


def _is_storable(value: Any) -> None:
    if isinstance(value, str):
        value.encode()
    elif isinstance(value, int):
        assert -(2**63) <= value < 2**63, value
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            _is_storable(getattr(value, name))
    elif isinstance(value, tuple | list):
        for each in value:
            _is_storable(each)


def _structs(value: Any) -> Iterator[Any]:
    if isinstance(value, Struct):
        yield value
    for each in value if isinstance(value, tuple | list) else ():
        yield from _structs(each)


def _is_of(value: Any, hint: Any) -> bool:
    """Return whether a value is of the type it is declared to have; `True` is no number."""
    while hasattr(hint, "__supertype__"):
        hint = hint.__supertype__
    if isinstance(hint, UnionType):
        return any(_is_of(value, each) for each in get_args(hint))
    if get_origin(hint) is tuple:
        return type(value) is tuple and all(_is_of(each, get_args(hint)[0]) for each in value)
    if not issubclass(hint, Struct):
        # Ids may be plain numbers and texts at run time.
        return type(value) is hint or (hint is not bool and issubclass(hint, type(value)))
    hints = _hints(hint)
    return type(value) is hint and all(_is_of(getattr(value, name), hints[name]) for name in hint.__struct_fields__)


@cache
def _hints(of: type) -> Mapping[str, Any]:
    return get_type_hints(of)


def _in_another_order(data: bytes) -> bytes:
    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: turned(inner) for name, inner in reversed(value.items())}
        return [turned(inner) for inner in value] if isinstance(value, list) else value

    try:
        return orjson.dumps(turned(orjson.loads(data)))
    except (TypeError, RecursionError):
        return data  # too deep to be written


def marketplace_headers(data: bytes) -> None:
    """Cookies, Retry-After and robots.txt: usable values within bounds, nothing raised."""
    head, _, robots = data.partition(b"\n\n")
    lines = head.decode("latin-1").split("\n")
    for cookie in read_cookies((line.removeprefix("set-cookie: ") for line in lines), NOW).values():
        assert cookie.value.isascii()
        assert cookie.value.isprintable()
        assert not set(cookie.value) & set(' ",;\\')
        assert timedelta(0) <= cookie.lifetime <= LONGEST_LIFETIME
    longest = timedelta(hours=1)
    for line in lines:
        wait = retry_after(line.removeprefix("retry-after: "), NOW, longest)
        assert wait is None or timedelta(0) < wait <= longest
    checked = Robots(_Robots(robots), "https://shop.example", ("/list", "/item/1"), "obey")
    with suppress(RobotsForbid):
        _now(checked.allow(NOW))


class _Robots:
    """A marketplace of which robots.txt alone is asked."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def get(self, url: str, headers: Mapping[str, str]) -> Reply:
        return Reply(200, (), self._body)


def _now(coroutine: Any) -> None:
    """Run what waits for nothing."""
    with suppress(StopIteration):
        coroutine.send(None)


_JSON_TOKENS = (
    *(b'"', b":", b",", b"{}", b"[]", b"null", b"true", b"-1", b"0", b"1e400", b"9223372036854775808", b"NaN", b"1.0"),
    *(
        b"\\u0000",
        b"\\ud800",
        b"\xff",
        b"\xed\xa0\x80",
        b'"name":',
        b'"itemNo":',
        b"{",
        b"[",
        b"]",
        b"}",
        "한".encode(),
    ),
)
TARGETS: Mapping[str, Target] = {
    "http_answers": Target(
        simple(http_answers),
        seeds.http_answers,
        (
            *(
                b"HTTP/1.1 ",
                b"HTTP/1.0 ",
                b"200 OK",
                b"100 Continue",
                b"204 ",
                b"\r\n",
                b"\r\n\r\n",
                b"\n",
                b"\r",
                b"\0",
            ),
            *(
                b"content-length: ",
                b"transfer-encoding: chunked\r\n",
                b"content-encoding: gzip\r\n",
                b"5",
                b"0\r\n\r\n",
            ),
            *(
                b"connection: close\r\n",
                b"keep-alive: timeout=9\r\n",
                b"\x1f\x8b\x08",
                b"x\x9c",
                b" ",
                b"\t",
                b",",
                b";",
            ),
            *(b"connection: keep-alive\r\n", b"content-encoding: deflate\r\n", b"chunked", b"identity", b"ffffffff"),
        ),
        ("sellerwatch.adapters.http.http1",),
    ),
    "settings": Target(
        simple(settings),
        seeds.settings,
        (
            *(
                b"_FILE=",
                b"=",
                b"\n",
                b"\n---\n",
                b"\xff",
                b"://",
                b"sqlite:///",
                b"mysql://",
                b"redis://",
                b"rediss://",
            ),
            *(
                b"@",
                b":",
                b"[",
                b"]",
                b"?",
                b"#",
                b"%",
                b"{token}",
                b"{item_no}",
                b"|",
                b",",
                b"nan",
                b"inf",
                b"-1",
                b"1e9",
            ),
            *(b"0.0.0.0", b"::1", b"/33", b"whsec_", b" = ", b'"', b"'", b"[a]", "²".encode(), "한".encode()),
        ),
        ("sellerwatch.settings", "sellerwatch.compose.deployment", "sellerwatch.reports.deploy_checks"),
    ),
    "json_bodies": Target(
        simple(json_bodies),
        seeds.json_bodies,
        (*_JSON_TOKENS, b"&", b"=", b"%00", b"%ff", b"+"),
        ("sellerwatch.web.api.bodies",),
    ),
    "api_requests": Target(
        api_requests,
        seeds.api_requests,
        (*_JSON_TOKENS, b"?size=", b"&cursor=", b"/", b"%2F", b"POST ", b"GET ", b"PATCH ", b"DELETE "),
        ("sellerwatch.web", "sellerwatch.operations", "sellerwatch.sellers", "sellerwatch.schedules"),
    ),
    "webhook_signatures": Target(
        simple(webhook_signatures),
        seeds.webhook_signatures,
        (
            b"v1,",
            b" ",
            b",",
            b"=",
            b".",
            b"whsec_",
            b"webhook-id: ",
            b"webhook-timestamp: ",
            b"\n",
            b"\xb2",
            b"0" * 400,
            b"9",
        ),
        ("sellerwatch.simulator.events", "sellerwatch.adapters.http.signing"),
    ),
    "marketplace_bodies": Target(
        simple(marketplace_bodies), seeds.marketplace_bodies, _JSON_TOKENS, ("sellerwatch.marketplaces.mustit",)
    ),
    "marketplace_headers": Target(
        simple(marketplace_headers),
        seeds.marketplace_headers,
        (
            *(
                b"set-cookie: ",
                b"retry-after: ",
                b"; Max-Age=",
                b"; Expires=",
                b'"',
                b";",
                b"=",
                b"-",
                b"9" * 20,
                b"nan",
            ),
            *(
                b"User-agent: *\n",
                b"Disallow: ",
                b"Allow: ",
                b"Crawl-delay: ",
                b"Request-rate: ",
                b"/",
                b"//[",
                b"\xc2\xb2",
            ),
            *(b"Wed, 21 Oct 2026 07:28:00 GMT", b" +9999", b"%", b"*", b"$", b"\n\n"),
        ),
        (
            "sellerwatch.marketplaces.robots",
            "sellerwatch.marketplaces.mustit.cookies",
            "sellerwatch.kernel.retry_after",
        ),
    ),
}
