"""The addresses of Mustit. Paths and the first page's number have changed before, so they are settings of the
package."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs, quote, urlsplit

from sellerwatch.kernel.ids import ItemNo, SellerId

#: The most entries that a list page is ever asked for.
LARGEST_PAGE = 1_000
#: Where a path has the number of the product.
ITEM_NO = "{item_no}"


@dataclass(frozen=True, slots=True)
class Urls:
    """Makes path and query; the host is added where the request is made. `{item_no}` is put into two of the paths."""

    list_path: str = "/mustit-api/facade-api/v1/searchmini-shop-search"
    detail_path: str = "/mustit-api/facade-api/v1/item/{item_no}/detail/top"
    options_path: str = "/mustit-api/legacy-api/v1/auction_products/{item_no}/options"
    token_path: str = "/"  # noqa: S105 - a path
    first_page: int = 0
    order: str = "LATEST"

    def list_page(self, seller_id: SellerId, page: int, size: int) -> str:
        """Return the address of page `page` of a seller, counted from 0 whatever the marketplace counts from.

        A seller id is any text, so it is quoted: one with `&` must not add a field to the query.
        """
        seller, number = quote(seller_id, safe=""), page + self.first_page
        return f"{self.list_path}?sellerId={seller}&pageNo={number}&pageSize={size}&order={self.order}"

    def size_of(self, list_url: str) -> int:
        """Return how many entries a list page was requested with: PAGE_SIZE may have changed since the task was
        made."""
        given = parse_qs(urlsplit(list_url).query).get("pageSize", [""])[-1]
        return int(given) if given.isascii() and given.isdigit() and len(given) <= 4 else LARGEST_PAGE

    def detail(self, item_no: ItemNo) -> str:
        return self.detail_path.replace(ITEM_NO, str(int(item_no)))

    def options(self, item_no: ItemNo) -> str:
        return self.options_path.replace(ITEM_NO, str(int(item_no)))
