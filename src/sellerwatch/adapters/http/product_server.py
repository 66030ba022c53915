"""The product server over HTTP: one POST for each event, and a receipt for every outcome."""

from __future__ import annotations

import io
from contextlib import suppress
from datetime import datetime, timedelta

import aiohttp
from yarl import URL

from sellerwatch.adapters.http.proxy import OutboundProxy, way_through
from sellerwatch.adapters.http.signing import signature_header, signing_keys
from sellerwatch.kernel.retry_after import retry_after
from sellerwatch.outbox.ports import EventBody
from sellerwatch.outbox.receipt import Receipt

#: More of an answer is not read; a longer one costs its connection, not our memory.
LONGEST_BODY = 64 * 1024
LARGE_BODY = 64 * 1024
#: Shorter than the 5 s after which common servers hang up: else a POST may meet a connection that is just closing.
_KEEP_ALIVE = 4.0


class HttpReceiver:
    """Implements `outbox.ports.EventReceiver`. The first delivery opens connections; `close` closes them.

    `secrets` is the setting: one secret, or several during a rotation, separated by spaces or commas; none: unsigned.
    Redirects are not followed: one would send the body to an address that was not configured. `read` is the longest
    pause of an answer; a slow answer is cut off after three times both limits.
    """

    def __init__(
        self,
        url: str,
        secrets: str | None = None,
        *,
        connect: float = 3.0,
        read: float = 5.0,
        longest_wait: timedelta = timedelta(days=1),
        proxy: OutboundProxy | None = None,
    ) -> None:
        # The address as given: yarl would tidy its quoting.
        self._url = URL(url, encoded=url.isascii())
        self._keys = signing_keys(secrets)
        self._through = way_through(proxy, url)
        self._connect = connect
        self._read = read
        self._longest_wait = longest_wait
        self._session: aiohttp.ClientSession | None = None

    async def deliver(self, message: EventBody, now: datetime) -> Receipt:
        try:
            return await self._post(message, now)
        except aiohttp.ConnectionTimeoutError:
            return Receipt.of_silence(f"no connection within {self._connect:g} s")
        except TimeoutError:
            return Receipt.of_silence(f"no answer within {self._read:g} s")
        except aiohttp.ClientHttpProxyError as error:
            return Receipt.of_silence(f"no connection: the proxy answered {error.status}")
        except aiohttp.ClientConnectorError as error:
            return Receipt.of_silence(f"no connection: {error}")
        except (aiohttp.ClientError, OSError) as error:
            return Receipt.of_silence(f"the connection was lost: {str(error) or type(error).__name__}", is_cut=True)
        except Exception as error:
            return Receipt.of_silence(f"the request could not be made: {type(error).__name__}: {error}")

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _post(self, message: EventBody, now: datetime) -> Receipt:
        body = message.payload
        # As a stream where it is large: aiohttp takes it in pieces only then.
        data = body if len(body) <= LARGE_BODY else io.BytesIO(body)
        async with self._opened().post(
            self._url, data=data, headers=self._headers(message, body, now), **self._through, allow_redirects=False
        ) as response:
            # The status decides: what happens to the rest of the answer changes nothing.
            beginning = b""
            with suppress(aiohttp.ClientError, TimeoutError, OSError):
                beginning = await _beginning(response)
            wait = retry_after(response.headers.get("Retry-After"), now, self._longest_wait)
            return Receipt.of_answer(response.status, beginning, wait)

    def _headers(self, message: EventBody, body: bytes, now: datetime) -> dict[str, str]:
        timestamp = int(now.timestamp())
        headers = {
            "Content-Type": "application/json; charset=utf-8",
            "Accept-Encoding": "identity",
            "User-Agent": "sellerwatch",
            "Idempotency-Key": message.outbox_id,
            "webhook-id": message.outbox_id,
            "webhook-timestamp": str(timestamp),
        }
        if self._keys:
            headers["webhook-signature"] = signature_header(self._keys, message.outbox_id, timestamp, body)
        return headers

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            limits = aiohttp.ClientTimeout(
                total=3 * (self._connect + self._read),
                connect=self._connect,  # with finding the address, which `sock_connect` leaves out
                sock_read=self._read,
            )
            self._session = aiohttp.ClientSession(
                # How many are in flight is delivery's to decide.
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE),
                timeout=limits,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        return self._session


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    parts, size = [], 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size >= LONGEST_BODY:
            response.close()
            break
    return b"".join(parts)
