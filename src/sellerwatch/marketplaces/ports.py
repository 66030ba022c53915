"""What a crawl needs of a marketplace, and what a marketplace's client needs of the network.

A second marketplace is one more package beside `mustit/` that implements `Marketplace`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from sellerwatch.agents.answers import Client
from sellerwatch.catalog.facts import DetailFacts, ListFacts, OptionFacts
from sellerwatch.catalog.product import PartType
from sellerwatch.kernel.errors import Failed
from sellerwatch.kernel.ids import ItemNo, SellerId


class Reply(Struct, frozen=True):
    """An answer as it was received. Header names are lower case; a name may occur more than once (`set-cookie`)."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)


class TransportProblem(StrEnum):
    """Why there is no reply."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timed out"
    DROPPED = "connection dropped"
    TOO_LARGE = "answer too large"


@dataclass(eq=False)
class TransportFailed(Failed):
    """There is no whole answer. `detail` is for the log and the operator; it never contains a header."""

    problem: TransportProblem
    detail: str = ""


class Transport(Protocol):
    """Makes one GET, bounded in time and size, without retry or redirect. Every failure is a `TransportFailed`."""

    async def get(self, url: str, headers: Mapping[str, str]) -> Reply: ...


class ListEntry(Struct, frozen=True):
    """One product on a list page: its facts, and the entry as it came."""

    facts: ListFacts
    raw: bytes


class ListPage(Struct, frozen=True):
    """A page of a list. `total` is the number of products that the marketplace lists for the seller."""

    total: int
    entries: tuple[ListEntry, ...]


class Marketplace(Client, Protocol):
    """Addresses, requests and parsers of one marketplace. Parsers are pure and raise `Unparsable`."""

    def list_url(self, seller_id: SellerId, page: int, size: int) -> str: ...

    def detail_url(self, item_no: ItemNo) -> str: ...

    def option_url(self, item_no: ItemNo) -> str: ...

    def read_list(self, body: bytes, url: str) -> ListPage:
        """Read the answer to `url`, which says how many entries were requested: more of them are unreadable."""

    def read_detail(self, body: bytes, item_no: ItemNo) -> DetailFacts: ...

    def read_options(self, body: bytes, item_no: ItemNo) -> OptionFacts: ...

    def read_entry(self, raw: bytes) -> ListFacts: ...

    def unknown_fields(self, part: PartType, body: bytes) -> tuple[str, ...]:
        """Return the fields of a good answer that the contract does not have, for the drift report."""
