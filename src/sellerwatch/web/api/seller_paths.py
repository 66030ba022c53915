"""Seller ids in paths. Old ids may have slashes: the whole rest of a path is an id, unless it ends in an action."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from starlette.convertors import Convertor, register_url_convertor

from sellerwatch.crawling.views import A_SELLER_ID
from sellerwatch.kernel.ids import SellerId

_ACTIONS = "activate|crawl|deactivate|interval|remove|retry|run-now"


class SellerConvertor(Convertor[str]):
    """`{sellerId:seller}` in the path of a route that shows or removes one seller."""

    regex = rf"(?!.*/(?:{_ACTIONS})$).+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


SellerPath = Annotated[str, Path(alias="sellerId", min_length=1, max_length=SellerId.LONGEST, examples=[A_SELLER_ID])]

register_url_convertor("seller", SellerConvertor())
