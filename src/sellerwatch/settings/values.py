"""The types of settings: what a value may be, and one sentence about a value that is not allowed."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from typing import Annotated, LiteralString
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field, SecretStr
from pydantic_core import PydanticCustomError

from sellerwatch.access.users import FIRST, InvalidPassword, check_password
from sellerwatch.catalog.differences import FIELD_KINDS
from sellerwatch.catalog.policies import InvalidPolicy, parse_policies
from sellerwatch.kernel.errors import ErrorSentence, SellerwatchError


def _problem(key: LiteralString, **facts: object) -> PydanticCustomError:
    """Return what a value is refused with: a key of `problems.toml` and its facts."""
    return PydanticCustomError(key, key, facts)


def _refused(error: SellerwatchError) -> PydanticCustomError:
    """Return the refusal of a value by a rule of a feature."""
    return _problem("refused", sentence=ErrorSentence(error))


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not text.isprintable() or " " in text:
        raise _problem("http_address")
    if "@" in parts.netloc:
        raise _problem("address_with_password")
    return text


def _redis(text: str) -> str:
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("redis", "rediss") and bool(parts.hostname) and parts.port != 0
        usable = usable and (parts.path in ("", "/") or parts.path[1:].isdigit())
    except ValueError:
        usable = False
    if not usable or not text.isprintable() or " " in text:
        raise _problem("redis_address")
    return text


def _base(text: str) -> str:
    return _url(text).rstrip("/")


def _path(text: str) -> str:
    """Refuse what is no path of the marketplace's own host: a token must never be sent elsewhere."""
    usable = text.startswith("/") and not text.startswith("//") and text.isascii() and text.isprintable()
    if not usable or any(character in text for character in " ?#\\"):
        raise _problem("request_path")
    return text


def _item_path(text: str) -> str:
    if text.count("{item_no}") != 1:
        raise _problem("item_path")
    _path(text)
    return text


def headers_in(text: str) -> dict[str, str]:
    """Return the headers of a setting, in their order."""
    pairs = (entry.partition(":") for entry in text.split("|") if entry.strip())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _headers(text: str) -> str:
    if not text.isascii() or not text.isprintable():
        raise _problem("header_list")
    for entry in text.split("|"):
        name, colon, value = entry.partition(":")
        if entry.strip() and not (colon and _HEADER_NAME.fullmatch(name.strip()) and value.strip()):
            raise _problem("header_list")
        if name.strip().lower() in _OWN_HEADERS:
            raise _problem("own_header", name=name.strip())
    return text


def _token_header(text: str) -> str:
    _headers(text)
    if len(headers_in(text)) != 1 or text.count("{token}") != 1 or "{token}" in text.partition(":")[0]:
        raise _problem("token_header")
    return text


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise _problem("time_zone") from None
    return name


def _keys(secret: SecretStr) -> SecretStr:
    ids = [entry.strip().partition(":")[0] for entry in secret.get_secret_value().split(",")]
    if len(set(ids)) < len(ids):
        raise _problem("key_twice")
    for entry in secret.get_secret_value().split(","):
        key_id, colon, encoded = entry.strip().partition(":")
        try:
            size = len(base64.b64decode(encoded, validate=True))
        except (binascii.Error, ValueError):
            size = 0
        if not colon or not key_id or size != 32:
            raise _problem("key_list")
    return secret


def _long(secret: SecretStr) -> SecretStr:
    if len(secret.get_secret_value()) < 32:
        raise _problem("short_secret")
    return secret


def _password(secret: SecretStr) -> SecretStr:
    try:
        check_password(secret.get_secret_value(), FIRST)
    except InvalidPassword as invalid:
        raise _refused(invalid) from None
    return secret


def _networks(text: str) -> str:
    for each in text.split(","):
        try:
            if text.strip():
                ipaddress.ip_network(each.strip(), strict=False)
        except ValueError:
            raise _problem("network_list", given=sayable(each.strip())[:100]) from None
    return text


def sayable(text: str) -> str:
    """Return a text with `?` for bytes that are no text: an environment may contain them, and no message could."""
    return text.encode("utf-8", "replace").decode()


def _policies(text: str) -> str:
    try:
        parse_policies(text)
    except InvalidPolicy as invalid:
        raise _refused(invalid) from None
    return text


def _kinds(text: str) -> str:
    known = {str(kind) for kind in FIELD_KINDS}
    wrong = [name for each in text.split(",") if (name := each.strip()) and name not in known]
    if wrong:
        raise _problem("change_kind", given=sayable(wrong[0]), known=", ".join(sorted(known)))
    return text


_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`~-]+")
#: What the client itself says: who asks, what it was given, and what belongs to the connection.
_OWN_HEADERS = frozenset({"user-agent", "cookie", "host", "connection", "content-length", "transfer-encoding"})


def _secret_url(secret: SecretStr) -> SecretStr:
    _url(secret.get_secret_value())
    return secret


def _proxy(secret: SecretStr) -> SecretStr:
    """Return the address of a proxy; one without a scheme is an http:// one, as other programs take it."""
    given = secret.get_secret_value()
    text = given if "://" in given else f"http://{given}"
    try:
        parts = urlsplit(text)
        usable = parts.scheme == "http" and bool(parts.hostname) and parts.port != 0 and parts.path in ("", "/")
    except ValueError:
        usable = False
    if not usable or not text.isascii() or not text.isprintable() or " " in text:
        raise _problem("proxy_address")
    return SecretStr(text)


Address = Annotated[str, AfterValidator(_url)]
ProxyAddress = Annotated[SecretStr, AfterValidator(_proxy)]
SecretAddress = Annotated[SecretStr, AfterValidator(_secret_url)]
BaseAddress = Annotated[str, AfterValidator(_base)]
RequestPath = Annotated[str, AfterValidator(_path)]
ItemPath = Annotated[str, AfterValidator(_item_path)]
Headers = Annotated[str, AfterValidator(_headers)]
TokenHeader = Annotated[str, AfterValidator(_token_header)]
RedisAddress = Annotated[str, AfterValidator(_redis)]
Networks = Annotated[str, AfterValidator(_networks)]
Zone = Annotated[str, AfterValidator(_zone)]
Keys = Annotated[SecretStr, AfterValidator(_keys)]
LongSecret = Annotated[SecretStr, AfterValidator(_long)]
Password = Annotated[SecretStr, AfterValidator(_password)]
FieldPolicies = Annotated[str, AfterValidator(_policies)]
ChangeKinds = Annotated[str, AfterValidator(_kinds)]
# Bounds that no sane value meets, and inside which every sum of times and every column holds.
TEN_YEARS = 3650 * 86400
Positive = Annotated[int, Field(gt=0, le=1_000_000)]
Seconds = Annotated[float, Field(gt=0, le=TEN_YEARS, allow_inf_nan=False)]
Rate = Annotated[float, Field(ge=1 / TEN_YEARS, le=1_000_000, allow_inf_nan=False)]
