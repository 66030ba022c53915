"""Reading a detail: what counts, what is blank, and what is refused, by name."""

from __future__ import annotations

from typing import Any

import pytest
from tests.marketplaces.bodies import (
    BANNERS,
    BLANKS,
    DAY,
    DETAIL_INFO,
    DROP,
    INFO,
    ITEM,
    SHIPPING,
    SHIPPING_DATA,
    a_detail,
    changed,
    encoded,
    why_not,
)

from sellerwatch.catalog.facts import Brand, Category, Prices, Shipping
from sellerwatch.catalog.ports import Unparsable
from sellerwatch.marketplaces.mustit.parse import read_detail


def detail_with(path: tuple[str | int, ...], new: Any) -> Any:
    return read_detail(encoded(changed(a_detail(), path, new)), ITEM)


def test_a_detail_gives_every_fact_of_the_contract() -> None:
    facts = read_detail(encoded(a_detail()), ITEM)
    assert (facts.item_no, facts.seller_id, facts.name) == (ITEM, "seller_12345", "반팔 티셔츠")
    assert facts.brand == Brand(133, "STONE ISLAND", "스톤아일랜드")
    assert facts.categories == (
        Category("header", "M", "남성"),
        Category("large", "15", "의류"),
        Category("medium", "15r02", "상의"),
        Category("small", "15r02s01", "티셔츠"),
    )
    assert facts.prices == Prices(normal=1075000, selling=600000, discount=545600, rate=49)
    assert (facts.stock, facts.sold_out) == (3, False)
    assert (facts.item_status, facts.origin_country) == ("새상품", "이탈리아")
    assert facts.shipping == Shipping("DOMESTIC", 0, "FREE", 1)
    assert (facts.images, facts.description_html) == (("https://img.example/1.jpg",), "<p>cotton</p>")


def test_the_order_of_the_modules_means_nothing() -> None:
    detail = a_detail()
    expected = read_detail(encoded(detail), ITEM)
    detail["moduleList"].reverse()
    assert read_detail(encoded(detail), ITEM) == expected


@pytest.mark.parametrize("blank", BLANKS)
@pytest.mark.parametrize(
    ("module", "field", "fact"),
    [(DETAIL_INFO, "itemStatus", "item_status"), (DETAIL_INFO, "originCountry", "origin_country")],
)
def test_optional_text_that_is_null_empty_or_absent_is_none(module: Any, field: str, fact: str, blank: Any) -> None:
    assert getattr(detail_with((*module, field), blank), fact) is None


@pytest.mark.parametrize("blank", BLANKS)
def test_a_korean_brand_name_that_is_null_empty_or_absent_is_none(blank: Any) -> None:
    assert detail_with((*INFO, "brandNameKr"), blank).brand.name_kr is None


@pytest.mark.parametrize("blank", BLANKS)
def test_text_that_is_always_there_is_empty_when_null_empty_or_absent(blank: Any) -> None:
    assert detail_with((*INFO, "brandName"), blank).brand.name == ""
    assert detail_with((*DETAIL_INFO, "descriptionMarkUp"), blank).description_html == ""
    assert detail_with((*SHIPPING_DATA, "shippingType"), blank).shipping.type == ""
    assert detail_with((*SHIPPING_DATA, "shippingFeeType"), blank).shipping.fee_type == ""


@pytest.mark.parametrize("blank", [None, ""])
def test_a_name_may_be_blank_but_not_missing(blank: Any) -> None:
    """A field that is gone is a redesign: an empty name sent on would wipe a good one."""
    assert detail_with((*INFO, "itemName"), blank).name == ""
    assert why_not(detail_with, (*INFO, "itemName"), DROP) == "detail: ProductInfoModule.itemName: missing"


@pytest.mark.parametrize("blank", [None, DROP])
def test_a_brand_may_have_no_code(blank: Any) -> None:
    assert detail_with((*INFO, "brandCode"), blank).brand.code is None


@pytest.mark.parametrize("blank", BLANKS)
def test_a_category_level_without_code_and_name_is_left_out(blank: Any) -> None:
    detail = changed(changed(a_detail(), (*INFO, "smallCategory"), blank), (*INFO, "smallCategoryCode"), blank)
    assert [c.level for c in read_detail(encoded(detail), ITEM).categories] == ["header", "large", "medium"]


def test_a_category_level_with_one_of_the_two_stays() -> None:
    assert detail_with((*INFO, "smallCategory"), None).categories[-1] == Category("small", "15r02s01", "")


@pytest.mark.parametrize(
    ("focus", "text", "days"),
    [
        ("1일", "평균 3일", 1),
        ("빠른 발송", "평균 3일", 3),
        (None, "10~14일", 10),
        (DROP, "평균 3일", 3),
        ("02일", "", 2),
        ("1.5일", "", 1),
        ("", "", None),
        ("빠른", "내일", None),
        ("１일", "", None),
    ],
)
def test_average_days_is_the_first_whole_number_in_focus_text_else_in_text(focus: Any, text: Any, days: Any) -> None:
    detail = changed(changed(a_detail(), (*DAY, "focusText"), focus), (*DAY, "text"), text)
    assert read_detail(encoded(detail), ITEM).shipping.average_days == days  # type: ignore[union-attr]


@pytest.mark.parametrize("nothing", [None, DROP])
def test_without_a_delivery_day_the_average_is_not_known(nothing: Any) -> None:
    assert detail_with(DAY, nothing).shipping.average_days is None


@pytest.mark.parametrize("at", [0, 2, 3])
def test_a_module_other_than_the_product_info_may_be_missing(at: int) -> None:
    facts = detail_with(("moduleList", at), DROP)
    assert [facts.images == (), facts.shipping is None, facts.description_html == ""] == [at == 0, at == 2, at == 3]


@pytest.mark.parametrize("items", [None, DROP, [], [{"type": "RETURN", "data": 7}]])
def test_without_an_item_of_the_type_shipping_there_is_no_shipping(items: Any) -> None:
    assert detail_with((*SHIPPING, "items"), items).shipping is None


@pytest.mark.parametrize("number", [2**63 - 1, 0, -1, -(2**63)])
def test_amounts_may_be_any_whole_number_of_64_bits(number: int) -> None:
    assert detail_with((*INFO, "stock"), number).stock == number


def test_the_sellers_id_is_trimmed_as_it_is_when_registered() -> None:
    assert detail_with((*INFO, "sellerId"), " seller_12345 ").seller_id == "seller_12345"


@pytest.mark.parametrize("data", [None, [], 7, "x", {"itemNo": "wrong", "images": 7}])
def test_modules_that_are_not_read_may_hold_anything(data: Any) -> None:
    assert detail_with(("moduleList", 4, "data"), data) == read_detail(encoded(a_detail()), ITEM)


MODULE = ("moduleList", 1)


@pytest.mark.parametrize(
    ("path", "new", "problem"),
    [
        (("moduleList",), DROP, "moduleList: missing"),
        (("moduleList",), {}, "moduleList: an object, not an array"),
        (MODULE, DROP, "ProductInfoModule: missing"),
        (MODULE, "x", "moduleList[1]: a string, not an object"),
        ((*MODULE, "type"), DROP, "moduleList[1].type: missing"),
        ((*MODULE, "type"), None, "moduleList[1].type: null, not a string"),
        ((*MODULE, "type"), 7, "moduleList[1].type: a number, not a string"),
        ((*MODULE, "data"), DROP, "ProductInfoModule.data: missing"),
        ((*MODULE, "data"), [], "ProductInfoModule.data: an array, not an object"),
        (("moduleList", 4, "type"), "ProductInfoModule", "ProductInfoModule: comes twice"),
        ((*INFO, "itemNo"), DROP, "ProductInfoModule.itemNo: missing"),
        ((*INFO, "itemNo"), 5, "ProductInfoModule.itemNo: 5, though 900000001 was asked for"),
        ((*DETAIL_INFO, "itemNo"), 5, "ProductDetailInfoModule.itemNo: 5, though 900000001 was asked for"),
        ((*DETAIL_INFO, "itemNo"), None, "ProductDetailInfoModule.itemNo: null, not a number"),
        ((*INFO, "sellerId"), DROP, "ProductInfoModule.sellerId: missing"),
        ((*INFO, "sellerId"), " ", "ProductInfoModule.sellerId: blank, too long or not printable"),
        ((*INFO, "sellerId"), "x" * 101, "ProductInfoModule.sellerId: blank, too long or not printable"),
        ((*INFO, "itemName"), ["x"], "ProductInfoModule.itemName: an array, not a string"),
        ((*INFO, "brandCode"), "133", "ProductInfoModule.brandCode: a string, not a number"),
        ((*INFO, "headerCategoryCode"), 15, "ProductInfoModule.headerCategoryCode: a number, not a string"),
        ((*INFO, "sellingPrice"), "600,000", "ProductInfoModule.sellingPrice: a string, not a number"),
        ((*INFO, "sellingPrice"), None, "ProductInfoModule.sellingPrice: null, not a number"),
        ((*INFO, "normalPrice"), DROP, "ProductInfoModule.normalPrice: missing"),
        (
            (*INFO, "discountPrice"),
            545600.5,
            "ProductInfoModule.discountPrice: 545600.5, not a whole number of 64 bits",
        ),
        ((*INFO, "discountRate"), True, "ProductInfoModule.discountRate: true or false, not a number"),
        ((*INFO, "stock"), DROP, "ProductInfoModule.stock: missing"),
        ((*INFO, "isSoldOut"), 0, "ProductInfoModule.isSoldOut: a number, not true or false"),
        ((*INFO, "isSoldOut"), DROP, "ProductInfoModule.isSoldOut: missing"),
        ((*DETAIL_INFO, "itemStatus"), 1, "ProductDetailInfoModule.itemStatus: a number, not a string"),
        ((*BANNERS, "images"), {}, "ProductBannersModule.images: an object, not an array"),
        ((*BANNERS, "images"), [{}], "ProductBannersModule.images[0]: an object, not a string"),
        ((*SHIPPING, "items"), {}, "ShippingModule.items: an object, not an array"),
        ((*SHIPPING, "items", 0), 7, "ShippingModule.items[0]: a number, not an object"),
        (SHIPPING_DATA, DROP, "ShippingModule.items[0].data: missing"),
        ((*SHIPPING_DATA, "shippingFee"), "0", "ShippingModule.items[0].data.shippingFee: a string, not a number"),
        (DAY, "1", "ShippingModule.items[0].data.averageDeliveryDay: a string, not an object"),
        (
            (*DAY, "focusText"),
            1,
            "ShippingModule.items[0].data.averageDeliveryDay.focusText: a number, not a string",
        ),
        ((*DAY, "text"), 1, "ShippingModule.items[0].data.averageDeliveryDay.text: a number, not a string"),
        (
            (*DAY, "focusText"),
            "9" * 30,
            "ShippingModule.items[0].data.averageDeliveryDay: a number of 30 digits, which is no count of days",
        ),
    ],
)
def test_a_detail_that_is_wrong_names_module_and_field(path: Any, new: Any, problem: str) -> None:
    assert why_not(detail_with, path, new) == f"detail: {problem}"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"<html>", "not JSON (it begins with '<html>')"),
        (b"[]", "an array, not an object"),
        (b"{}", "moduleList: missing"),
    ],
)
def test_a_detail_that_is_none_says_so(body: bytes, problem: str) -> None:
    assert why_not(read_detail, body, ITEM) == f"detail: {problem}"


def test_of_several_faults_the_one_that_the_contract_has_first_is_named() -> None:
    """The kinds of problem are counted: the order of an answer must not make two of one."""
    info = {"isSoldOut": 0, "stock": "3", "itemName": None}
    for fields in (info, dict(reversed(info.items()))):
        module = {"itemNo": ITEM, "sellerId": "seller_12345", **fields}
        for price in ("normalPrice", "sellingPrice", "discountPrice", "discountRate"):
            module[price] = 0
        problem = why_not(detail_with, INFO, module)
        assert problem == "detail: ProductInfoModule.stock: a string, not a number"


@pytest.mark.parametrize("other", ["stock", "itemName"])
def test_an_answer_about_another_item_is_unrelated_whatever_else_is_wrong(other: str) -> None:
    detail = changed(changed(a_detail(), (*INFO, other), {}), (*INFO, "itemNo"), 5)
    with pytest.raises(Unparsable) as refused:
        read_detail(encoded(detail), ITEM)
    assert refused.value.is_garbled


def test_the_sentence_names_endpoint_and_field() -> None:
    with pytest.raises(Unparsable) as refused:
        detail_with((*INFO, "stock"), "3")
    assert str(refused.value) == "The detail answer cannot be read: ProductInfoModule.stock: a string, not a number."
