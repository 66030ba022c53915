"""A request's address belongs to the type of its task."""

from __future__ import annotations

import pytest

from sellerwatch.crawling.task import InvalidRequestUrl, RequestUrl, TaskType
from sellerwatch.kernel.errors import Invalid

LIST, DETAIL, OPTION = TaskType.MINISHOP, TaskType.PRODUCT_DETAIL, TaskType.PRODUCT_OPTION

GOOD = [
    (LIST, "/mustit-api/facade-api/v1/searchmini-shop-search?sellerId=s&pageNo=0&pageSize=500&order=LATEST"),
    (LIST, "/mustit-api/facade-api/v1/search/mini-shop-search?sellerId=s&pageNo=0&pageSize=500&order=LATEST"),
    (LIST, "/searchmini-shop-search"),
    (DETAIL, "/mustit-api/facade-api/v1/item/900000001/detail/top"),
    (DETAIL, "/item/1/detail/top?lang=ko"),
    (OPTION, "/mustit-api/legacy-api/v1/auction_products/900000001/options"),
    (OPTION, "/auction_products/1/options?x=1"),
]


@pytest.mark.parametrize(("task_type", "text"), GOOD)
def test_an_address_of_its_type_is_taken_as_it_is(task_type: TaskType, text: str) -> None:
    assert RequestUrl.parse(task_type, text) == text


@pytest.mark.parametrize(("task_type", "text"), GOOD)
def test_an_address_of_another_type_is_refused(task_type: TaskType, text: str) -> None:
    for other in TaskType:
        if other is not task_type:
            with pytest.raises(InvalidRequestUrl):
                RequestUrl.parse(other, text)


@pytest.mark.parametrize(
    ("task_type", "text"),
    [
        (LIST, ""),
        (LIST, "searchmini-shop-search"),
        (LIST, "/search-mini-shop-search"),
        (LIST, "/search//mini-shop-search"),
        (DETAIL, "/item//detail/top"),
        (DETAIL, "/item/abc/detail/top"),
        (DETAIL, "/item/-1/detail/top"),
        (DETAIL, "/item/1/detail"),
        (DETAIL, "/item/1/detail/topper"),
        (DETAIL, "https://evil.example/item/1/detail/top"),
        (OPTION, "/auction_products/options"),
        (OPTION, "/auction_products/1/options/2"),
        pytest.param(DETAIL, "//evil.example/item/1/detail/top", id="another-host"),
        pytest.param(DETAIL, "/item/1/detail/top\n", id="a-line-end-behind-it"),
        pytest.param(DETAIL, "/item/١٢/detail/top", id="digits-of-another-script"),
        pytest.param(DETAIL, "/elsewhere?next=/item/1/detail/top", id="only-in-the-query"),
        pytest.param(LIST, "/elsewhere?next=/searchmini-shop-search", id="list-only-in-the-query"),
    ],
)
def test_anything_else_is_refused(task_type: TaskType, text: str) -> None:
    with pytest.raises(InvalidRequestUrl):
        RequestUrl.parse(task_type, text)


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("x=" + "1" * 3000, id="too-long"),
        pytest.param("x=\r\nEvil: 1", id="another-header"),
        pytest.param("x=a b", id="a-space"),
        pytest.param("x=\x7f", id="a-control-character"),
        pytest.param("x=가", id="not-ascii"),
    ],
)
def test_an_address_that_cannot_be_stored_or_sent_is_refused(query: str) -> None:
    with pytest.raises(InvalidRequestUrl) as refusal:
        RequestUrl.parse(DETAIL, f"/item/1/detail/top?{query}")
    assert len(refusal.value.given) <= 200


def test_the_longest_address_is_one_of_2000_characters() -> None:
    path = "/item/1/detail/top?x="
    assert len(RequestUrl.parse(DETAIL, path.ljust(2000, "1"))) == 2000
    with pytest.raises(InvalidRequestUrl):
        RequestUrl.parse(DETAIL, path.ljust(2001, "1"))


@pytest.mark.parametrize(
    ("task_type", "pattern"),
    [
        (LIST, "/searchmini-shop-search or /search/mini-shop-search"),
        (DETAIL, "/item/{digits}/detail/top"),
        (OPTION, "/auction_products/{digits}/options"),
    ],
)
def test_the_refusal_names_the_pattern(task_type: TaskType, pattern: str) -> None:
    with pytest.raises(InvalidRequestUrl) as refusal:
        RequestUrl.parse(task_type, "/wrong")
    assert isinstance(refusal.value, Invalid)
    assert refusal.value.code == "INVALID_REQUEST_URL"
    assert refusal.value.facts == {"given": "/wrong", "task_type": task_type, "pattern": pattern}
    assert str(refusal.value) == f"'/wrong' is not a request of the type {task_type}: it must contain {pattern}."
