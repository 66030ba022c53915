"""The types of settings: what a value may be, and one sentence about a value that is not allowed."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field, SecretStr

from sellerwatch.access.users import FIRST, InvalidPassword, check_password
from sellerwatch.catalog.differences import ChangeKind
from sellerwatch.catalog.policies import InvalidPolicy, parse_policies


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
    """Refuse a value that is not text: an environment may contain bytes that no message could quote."""
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
RedisAddress = Annotated[str, AfterValidator(_redis)]
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
