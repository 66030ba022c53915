"""Generate products from a seed.

The same seed and item number always give the same product, in any process and in any order: every choice comes from an
rng seeded with both.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from sellerwatch.simulator import words
from sellerwatch.simulator.product import (
    DeliveryDay,
    Description,
    SimulatedBrand,
    SimulatedCategory,
    SimulatedOption,
    SimulatedPrices,
    SimulatedProduct,
    SimulatedShipping,
)
from sellerwatch.simulator.rng import seeded_rng

FIRST_ITEM_NO = 900_000_001
OPTION_NUMBERS_PER_ITEM = 1_000
"""An option's number is its item's times this, plus a counter: far beyond 32 bits."""

_KB = 1024
_AROUND_DESCRIPTION = 2_000
"""Bytes of a detail that are not its description, on average."""
_LARGE_KB = 148
_LARGE_EVERY = 500
_EDGE_CYCLE = 40


def generate(
    seed: str, item_no: int, seller_id: str, seller_no: int, detail_kb: int | None, random_text: bool = False
) -> SimulatedProduct:
    """Return the product before any change.

    `detail_kb` fixes the size of its detail; None gives the sizes seen in practice: 14 KB and up, one in 500 near 150.
    Below 3 KB the rest of the detail leaves no room, and the description shrinks to a paragraph.
    """
    rng = seeded_rng(seed, item_no)
    ordinal = item_no - FIRST_ITEM_NO
    brand = rng.choice(words.BRANDS)
    categories = _categories(rng)
    host = f"https://img.example.test/{item_no}"
    pictures = tuple(f"{host}/{number}.jpg?w=860" for number in range(rng.randint(2, 5)))
    product = SimulatedProduct(
        item_no=item_no,
        seller_id=seller_id,
        seller_no=seller_no,
        name=_name(rng, brand, categories[-1].name),
        brand=SimulatedBrand(brand.code, brand.name, brand.name_kr),
        categories=categories,
        prices=_prices(rng),
        stock=0,
        sold_out=True,
        item_status=rng.choice(words.STATUSES),
        origin_country=rng.choice(words.COUNTRIES),
        shipping=_shipping(rng),
        list_images=(f"{host}/list.jpg", *pictures[:1]),
        detail_images=pictures,
        description=Description(f"{seed}:{item_no}:0", _description_size(rng, ordinal, detail_kb), random_text),
        options=(),
        tags=tuple(rng.sample(words.TAGS, rng.randint(0, 3))),
    )
    product = product.with_options(_options(rng, item_no, rng.randint(1, 6)))
    edge = EDGES.get(ordinal % _EDGE_CYCLE)
    return edge(product) if edge else product


def _name(rng: Random, brand: words.BrandWord, noun: str) -> str:
    color = rng.choice(words.COLORS)
    model = f"{rng.randint(100_000, 999_999)} V{rng.randint(0, 99):04d}"
    parts = (rng.choice(words.SEASONS), brand.name_kr, rng.choice(words.ADJECTIVES), noun, color, model)
    return " ".join(part for part in parts if part)


def _categories(rng: Random) -> tuple[SimulatedCategory, ...]:
    header_code, header = rng.choice(words.HEADERS)
    word = rng.choice(words.CATEGORIES)
    small = rng.randrange(len(word.smalls))
    return (
        SimulatedCategory("header", header_code, header),
        SimulatedCategory("large", word.large_code, word.large),
        SimulatedCategory("medium", word.medium_code, word.medium),
        SimulatedCategory("small", f"{word.medium_code}s{small + 1:02d}", word.smalls[small]),
    )


def _prices(rng: Random) -> SimulatedPrices:
    normal = rng.randrange(50_000, 4_000_000, 1_000)
    selling = normal * rng.randint(50, 100) // 100 // 100 * 100
    discount = selling * rng.randint(85, 100) // 100 // 100 * 100
    return SimulatedPrices(normal, selling, discount)


def _shipping(rng: Random) -> SimulatedShipping:
    fee = rng.choice((0, 0, 0, 3_000, 25_000))
    return SimulatedShipping(
        type=rng.choice(("DOMESTIC", "DOMESTIC", "OVERSEAS")),
        fee=fee,
        fee_type="CHARGE" if fee else "FREE",
        location=rng.choice(words.LOCATIONS),
        delivery_day=DeliveryDay(*rng.choice(words.DELIVERY_DAYS)),
    )


def _options(rng: Random, item_no: int, number: int) -> tuple[SimulatedOption, ...]:
    first = item_no * OPTION_NUMBERS_PER_ITEM
    return tuple(make_option(rng, first + counter) for counter in range(number))


def make_option(rng: Random, option_no: int) -> SimulatedOption:
    """Return an option with random values."""
    guide = rng.choice(words.SIZE_GUIDES) if rng.random() < 0.5 else None
    return SimulatedOption(option_no, rng.choice(words.COLORS), rng.choice(words.SIZES), rng.randint(0, 5), guide)


def _description_size(rng: Random, ordinal: int, detail_kb: int | None) -> int:
    if detail_kb is not None:
        kb = detail_kb
    elif ordinal % _LARGE_EVERY == 7:
        kb = _LARGE_KB
    else:
        kb = rng.randint(14, 24)
    return max(0, kb * _KB - _AROUND_DESCRIPTION)


def _scripted(product: SimulatedProduct) -> SimulatedProduct:
    return replace(product, name=f'<script>alert("{product.item_no}")</script> {product.name}')


def _decorated(product: SimulatedProduct) -> SimulatedProduct:
    return replace(product, name=f"🔥한정수량🔥 {product.name} ❤️‍🔥", tags=("🎁 사은품", *product.tags))


def _without_small_category(product: SimulatedProduct) -> SimulatedProduct:
    return replace(product, categories=product.categories[:3])


def _sold_out_without_options(product: SimulatedProduct) -> SimulatedProduct:
    return product.with_options(())


def _in_stock_without_options(product: SimulatedProduct) -> SimulatedProduct:
    return replace(product, options=(), stock=3, sold_out=False)


def _without_delivery_day(product: SimulatedProduct) -> SimulatedProduct:
    return replace(product, shipping=replace(product.shipping, delivery_day=None))


def _with_wordy_delivery_day(product: SimulatedProduct) -> SimulatedProduct:
    day = DeliveryDay(*words.DELIVERY_WITHOUT_NUMBER)
    return replace(product, shipping=replace(product.shipping, delivery_day=day))


def _with_blanks(product: SimulatedProduct) -> SimulatedProduct:
    return replace(product, brand=replace(product.brand, name_kr=None), item_status=None, origin_country=None)


def _with_blank_options(product: SimulatedProduct) -> SimulatedProduct:
    blank = tuple(replace(option, color="", size="", size_guide=None) for option in product.options)
    return product.with_options(blank)


def _with_awkward_text(product: SimulatedProduct) -> SimulatedProduct:
    return replace(product, name=f'{product.name} "A\\B" \t\u2028 1/2" 100%\n', tags=("", 'a"b', "C&A <b>"))


def _with_same_images(product: SimulatedProduct) -> SimulatedProduct:
    return replace(product, list_images=tuple(reversed(product.detail_images)))


def _with_many_options(product: SimulatedProduct) -> SimulatedProduct:
    return product.with_options(_options(seeded_rng("many", product.item_no), product.item_no, 80))


EDGES: dict[int, Callable[[SimulatedProduct], SimulatedProduct]] = {
    1: _scripted,
    2: _decorated,
    3: _without_small_category,
    4: _sold_out_without_options,
    5: _in_stock_without_options,
    6: _without_delivery_day,
    8: _with_wordy_delivery_day,
    10: _with_blanks,
    11: _with_blank_options,
    12: _with_blanks,
    13: _with_awkward_text,
    14: _with_blanks,
    15: _with_same_images,
    16: _with_many_options,
}
"""What is odd about a product, by its place in each run of 40: even a small world meets every oddity."""
