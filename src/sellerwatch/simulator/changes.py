"""Changes of a product: each is a function from a product and an rng to the changed product.

A change that does not apply (no option to remove) returns the product as it was; the world then tries another.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from sellerwatch.simulator import words
from sellerwatch.simulator.generation import OPTION_NUMBERS_PER_ITEM, make_option
from sellerwatch.simulator.product import SimulatedCategory, SimulatedPrices, SimulatedProduct

Change = Callable[[SimulatedProduct, Random], SimulatedProduct]


def reprice(product: SimulatedProduct, rng: Random) -> SimulatedProduct:
    selling = max(1_000, product.prices.selling + rng.choice((-1, 1)) * rng.randrange(1_000, 50_000, 100))
    discount = selling * rng.randint(85, 100) // 100 // 100 * 100
    return replace(product, prices=SimulatedPrices(max(product.prices.normal, selling), selling, discount))


def restock(product: SimulatedProduct, rng: Random) -> SimulatedProduct:
    if product.options:
        stocked = tuple(replace(option, stock=option.stock + rng.randint(1, 5)) for option in product.options)
        return product.with_options(stocked)
    return replace(product, stock=product.stock + rng.randint(1, 9), sold_out=False)


def sell_out(product: SimulatedProduct, rng: Random) -> SimulatedProduct:
    if product.options:
        return product.with_options(tuple(replace(option, stock=0) for option in product.options))
    return replace(product, stock=0, sold_out=True)


def rename(product: SimulatedProduct, rng: Random) -> SimulatedProduct:
    return replace(product, name=f"{rng.choice(words.SEASONS)} {product.name} #{product.revision + 1}")


def change_option_stock(product: SimulatedProduct, rng: Random) -> SimulatedProduct:
    if not product.options:
        return product
    chosen = rng.randrange(len(product.options))
    option = product.options[chosen]
    changed = replace(option, stock=option.stock - 1 if option.stock else rng.randint(1, 5))
    return product.with_options((*product.options[:chosen], changed, *product.options[chosen + 1 :]))


def add_option(product: SimulatedProduct, rng: Random) -> SimulatedProduct:
    return product.with_options((*product.options, make_option(rng, _fresh_option_no(product))))


def remove_option(product: SimulatedProduct, rng: Random) -> SimulatedProduct:
    if not product.options:
        return product
    gone = rng.randrange(len(product.options))
    return product.with_options(product.options[:gone] + product.options[gone + 1 :])


def add_image(product: SimulatedProduct, rng: Random) -> SimulatedProduct:
    image = f"https://img.example.test/{product.item_no}/added-{product.revision + 1}.jpg"
    if rng.random() < 0.5:
        return replace(product, list_images=(*product.list_images, image))
    return replace(product, detail_images=(image, *product.detail_images))


def retag(product: SimulatedProduct, rng: Random) -> SimulatedProduct:
    return replace(product, tags=tuple(rng.sample(words.TAGS, rng.randint(1, 4))))


def redescribe(product: SimulatedProduct, rng: Random) -> SimulatedProduct:
    stem = product.description.key.rpartition(":")[0]
    return replace(product, description=replace(product.description, key=f"{stem}:{product.revision + 1}"))


def recategorise(product: SimulatedProduct, rng: Random) -> SimulatedProduct:
    word = rng.choice(words.CATEGORIES)
    moved = (
        SimulatedCategory("large", word.large_code, word.large),
        SimulatedCategory("medium", word.medium_code, word.medium),
    )
    return replace(product, categories=(product.categories[0], *moved))


def _fresh_option_no(product: SimulatedProduct) -> int:
    """Return an option number this product never had: the upper half of its range, counted by revision."""
    taken = {option.option_no for option in product.options}
    first = product.item_no * OPTION_NUMBERS_PER_ITEM + OPTION_NUMBERS_PER_ITEM // 2
    number = first + (product.revision + 1) % (OPTION_NUMBERS_PER_ITEM // 2)
    while number in taken:
        number += 1
    return number


CHANGES: dict[str, Change] = {
    "reprice": reprice,
    "restock": restock,
    "sell out": sell_out,
    "rename": rename,
    "change option stock": change_option_stock,
    "add option": add_option,
    "remove option": remove_option,
    "add image": add_image,
    "retag": retag,
    "redescribe": redescribe,
    "recategorise": recategorise,
}
