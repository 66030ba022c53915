"""AWS clients, opened on first use. Every foreign error becomes one sentence.

Region and credentials come from the usual AWS_* variables, files and roles; none of them is stored or shown. The
results of aiobotocore are untyped: `Any` ends at the border of this package.
"""

from __future__ import annotations

import logging
import os
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from aiohttp import ClientError as HttpError
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
)
from botocore.exceptions import (
    ConnectionError as NoConnection,
)

from sellerwatch.kernel.errors import Unavailable

#: A long poll alone takes 20 s.
READ_TIMEOUT = 25
CONNECT_TIMEOUT = 3

SERVICES = {"sqs": "SQS", "events": "EventBridge"}

_CREDENTIALS = frozenset(
    {
        "InvalidClientTokenId",
        "UnrecognizedClientException",
        "SignatureDoesNotMatch",
        "InvalidAccessKeyId",
        "IncompleteSignature",
        "MissingAuthenticationToken",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidSecurity",
    }
)
_FORBIDDEN = frozenset(
    {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AWS.SimpleQueueService.AccessDenied"}
)
MISSING = frozenset({"AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist", "ResourceNotFoundException"})
#: Will not get better by being said again.
INVALID = frozenset(
    {"ValidationException", "InvalidParameterValue", "InvalidEventPatternException", "SerializationException"}
)

FOREIGN = (BotoCoreError, ClientError, HttpError, OSError, TimeoutError)


@dataclass(eq=False)
class AwsUnavailable(Unavailable):
    """AWS did not answer, or refused. The problem says how to fix it."""

    service: str
    problem: str
    #: AWS' own word for it; empty when it did not answer.
    reason: str = ""


class Aws:
    """The clients of one process, closed together."""

    def __init__(self, endpoint_url: str | None) -> None:
        self._endpoint_url = endpoint_url
        # botocore reads only AWS_DEFAULT_REGION and the file; other SDKs read AWS_REGION too.
        self._region = os.environ.get("AWS_REGION") or None
        for name in ("aiobotocore", "botocore"):
            # Where the credentials were found is nothing to tell on every start.
            logging.getLogger(name).setLevel(logging.WARNING)
        self._session: Any = get_session()
        self._stack = AsyncExitStack()
        self._clients: dict[str, Any] = {}

    async def call(self, service: str, operation: str, **given: Any) -> dict[str, Any]:
        """Make one request; botocore repeats it at most twice. Raise `AwsUnavailable` for any failure."""
        try:
            client = await self._client(service)
            response: dict[str, Any] = await getattr(client, operation)(**given)
        except FOREIGN as error:
            raise self._said(service, operation, error) from None
        return response

    async def close(self) -> None:
        await self._stack.aclose()

    async def _client(self, service: str) -> Any:
        if service not in self._clients:
            config = AioConfig(
                connect_timeout=CONNECT_TIMEOUT,
                read_timeout=READ_TIMEOUT,
                retries={"max_attempts": 2, "mode": "standard"},
                max_pool_connections=50,
            )
            made = self._session.create_client(
                service, region_name=self._region, endpoint_url=self._endpoint_url, config=config
            )
            self._clients[service] = await self._stack.enter_async_context(made)
        return self._clients[service]

    def _said(self, service: str, operation: str, error: Exception) -> AwsUnavailable:
        reason = _code(error)
        problem = _why(error, reason, f"{service}:{permission(operation)}")
        return AwsUnavailable(service=SERVICES[service], problem=problem, reason=reason)


def _code(error: Exception) -> str:
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, ClientError) else ""


def permission(operation: str) -> str:
    """Return the action that a policy must allow for this operation."""
    plain = operation.removesuffix("_batch") if operation != "send_message_batch" else "send_message"
    return "".join(word.capitalize() for word in plain.split("_"))


def _why(error: Exception, reason: str, permission: str) -> str:
    """Return the problem and how to fix it. An error of AWS may repeat a key id, so only known errors are quoted, by
    their code."""
    if isinstance(error, NoRegionError):
        return "no region is set: set AWS_REGION, such as ap-northeast-2"
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run it with a role"
    if reason in _CREDENTIALS:
        return (
            f"it refused the credentials ({reason}): see AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN"
        )
    if reason in _FORBIDDEN:
        return f"it is not allowed to us: the policy needs {permission} (docs/examples/iam-policy.json)"
    if isinstance(error, NoConnection | HTTPClientError | HttpError | OSError):
        return "no server answers there; see the network, AWS_REGION, and SELLERWATCH_AWS_ENDPOINT_URL if it is set"
    if isinstance(error, ClientError):
        message = str(error.response.get("Error", {}).get("Message", ""))[:200]
        return f"it answered {reason or 'with an error'} to {permission}: {message}".removesuffix(": ").rstrip(".")
    return f"{type(error).__name__} at {permission}"
