"""The endpoints of the marketplace that can fail independently of each other."""

from __future__ import annotations

from enum import StrEnum


class Endpoint(StrEnum):
    """LIST: a seller's products. DETAIL and OPTIONS: of one product. TOKEN: the page that gives an agent its token."""

    LIST = "list"
    DETAIL = "detail"
    OPTIONS = "options"
    TOKEN = "token"  # noqa: S105
