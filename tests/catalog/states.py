"""Any state a product can be in, for tests of properties."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from tests.builders import whole_of

from sellerwatch.catalog.facts import (
    Brand,
    Category,
    DetailFacts,
    ListFacts,
    Option,
    OptionFacts,
    Prices,
    Shipping,
)
from sellerwatch.kernel.ids import ItemNo, SellerId

# Few values of each, so that two states often agree in some fields and differ in others.
_texts = st.sampled_from(["", "코트", "a.b", "options[1]", "🧥"])
_maybe = st.none() | _texts
_numbers = st.integers(0, 3)
_lists = st.lists(_texts, max_size=3, unique=True).map(tuple)

details = st.builds(
    DetailFacts,
    item_no=st.just(ItemNo(900000001)),
    seller_id=st.sampled_from([SellerId("one"), SellerId("two")]),
    name=_texts,
    brand=st.builds(Brand, code=st.none() | _numbers, name=_texts, name_kr=_maybe),
    categories=st.lists(st.builds(Category, level=_texts, code=_texts, name=_texts), max_size=2).map(tuple),
    prices=st.builds(Prices, normal=_numbers, selling=_numbers, discount=_numbers, rate=_numbers),
    stock=_numbers,
    sold_out=st.booleans(),
    item_status=_maybe,
    origin_country=_maybe,
    shipping=st.none()
    | st.builds(Shipping, type=_texts, fee=_numbers, fee_type=_texts, average_days=st.none() | _numbers),
    images=_lists,
    description_html=_texts,
)
options = st.lists(
    st.builds(
        Option,
        option_no=st.integers(1, 5) | st.integers(4134224619, 4134224621),
        color=_texts,
        size=_texts,
        stock=_numbers,
        size_guide=_maybe,
    ),
    max_size=4,
    unique_by=lambda option: option.option_no,
).map(lambda found: OptionFacts(tuple(found)))
listed = st.builds(ListFacts, item_no=st.just(ItemNo(900000001)), images=_lists, tags=_lists)

#: productData of any product.
states: st.SearchStrategy[dict[str, Any]] = st.builds(whole_of, listed, details, options)
