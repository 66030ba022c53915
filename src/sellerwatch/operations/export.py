"""Export the complete products, page by page."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sellerwatch.catalog.queries import CurrentProduct, count_complete, export_page
from sellerwatch.kernel.ids import SellerId
from sellerwatch.operations.session import OperationSession, Progress, no_progress

#: Products of one query: memory does not grow with the catalogue, and writers do not wait for the export.
PAGE = 100


async def export_products(
    session: OperationSession,
    seller_id: SellerId | None,
    write: Callable[[Sequence[CurrentProduct]], None],
    progress: Progress = no_progress,
) -> int:
    """Hand every complete product, of one seller or of all, to `write`; return how many there were."""
    total = await session.ask(count_complete, seller_id)
    number = 0
    after: int | None = 0
    while after is not None:
        products, after = await session.ask(export_page, seller_id, after, PAGE, session.rules.marketplace)
        write(products)
        number += len(products)
        progress(number, total)
    return number
