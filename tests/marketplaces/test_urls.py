"""Where things are asked for."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from sellerwatch.crawling.task import RequestUrl, TaskType
from sellerwatch.kernel.ids import ItemNo, SellerId
from sellerwatch.marketplaces.mustit.urls import Urls

ITEM = ItemNo(900000001)


def test_the_addresses_are_those_of_the_contract() -> None:
    urls = Urls()
    assert urls.list_page(SellerId("seller_1"), 2, 500) == (
        "/mustit-api/facade-api/v1/searchmini-shop-search?sellerId=seller_1&pageNo=2&pageSize=500&order=LATEST"
    )
    assert urls.detail(ITEM) == "/mustit-api/facade-api/v1/item/900000001/detail/top"
    assert urls.options(ITEM) == "/mustit-api/legacy-api/v1/auction_products/900000001/options"


@pytest.mark.parametrize("size", [1, 500, 1000])
def test_a_list_address_says_how_many_entries_it_asks_for(size: int) -> None:
    urls = Urls()
    assert urls.size_of(urls.list_page(SellerId("a&pageSize=7"), 3, size)) == size


@pytest.mark.parametrize("query", ["", "?pageSize=", "?pageSize=-1", "?pageSize=99999", "?pageSize=²"])
def test_an_address_that_names_no_size_asks_for_the_largest_page(query: str) -> None:
    assert Urls().size_of(f"/v1/searchmini-shop-search{query}") == 1000


@pytest.mark.parametrize("seller", ["a&order=OLDEST", "a b", "a/b?c#d", "50%", "한국", "a=b+c", "일&pageNo=9"])
def test_a_seller_id_of_any_characters_stays_one_field_of_the_query(seller: str) -> None:
    query = parse_qs(urlsplit(Urls().list_page(SellerId(seller), 0, 1)).query, strict_parsing=True)
    assert query == {"sellerId": [seller], "pageNo": ["0"], "pageSize": ["1"], "order": ["LATEST"]}


def test_the_page_base_and_the_path_are_settings() -> None:
    urls = Urls(list_path="/v1/search/mini-shop-search", first_page=1)
    assert (
        urls.list_page(SellerId("s"), 0, 5) == "/v1/search/mini-shop-search?sellerId=s&pageNo=1&pageSize=5&order=LATEST"
    )


@pytest.mark.parametrize("path", ["/a/v1/searchmini-shop-search", "/a/v1/search/mini-shop-search"])
def test_tasks_accept_what_is_made_here(path: str) -> None:
    urls = Urls(list_path=path)
    RequestUrl.parse(TaskType.MINISHOP, urls.list_page(SellerId("a/b?c"), 0, 500))
    RequestUrl.parse(TaskType.PRODUCT_DETAIL, urls.detail(ITEM))
    RequestUrl.parse(TaskType.PRODUCT_OPTION, urls.options(ITEM))
