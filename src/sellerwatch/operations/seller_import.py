"""Register many sellers at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from sellerwatch.kernel.errors import SellerwatchError
from sellerwatch.kernel.operations import OperationContext
from sellerwatch.kernel.views import About, View
from sellerwatch.kernel.wording import error_text
from sellerwatch.operations.session import OperationSession
from sellerwatch.sellers.commands import register_seller
from sellerwatch.sellers.import_rows import SellerRow
from sellerwatch.sellers.ports import SellersTx

#: Sellers of one transaction.
BATCH = 100


@dataclass(frozen=True)
class RefusedRowView(View):
    """A row that was not taken, and why."""

    line: Annotated[int, About("Of the file; of a list the place, from 1.", 7)]
    error_code: Annotated[str, About(example="INVALID_SELLER_ID")]
    message: Annotated[str, About("The reason as a sentence in the caller's language.")]


@dataclass(frozen=True)
class ImportedSellersView(View):
    """What became of each row. With `dryRun` nothing was changed: it is shown as it would be."""

    added: Annotated[Sequence[str], About("Ids of sellers that were registered.")]
    known: Annotated[Sequence[str], About("Ids that were registered before; they stay as they are.")]
    refused: Sequence[RefusedRowView]
    dry_run: bool


async def import_sellers(session: OperationSession, rows: Sequence[SellerRow]) -> ImportedSellersView:
    """Register the sellers of a file. Rows that are refused do not stop the others, and what is registered already
    stays as it is: after an interruption the same file can be imported again."""
    added: list[str] = []
    known: list[str] = []
    refused: list[RefusedRowView] = []
    done: set[str] = set()
    for start in range(0, len(rows), BATCH):
        # In a dry run the database does not know what the rows before have added.
        chosen = [row for row in rows[start : start + BATCH] if row.seller_id not in done]
        known += [row.seller_id for row in rows[start : start + BATCH] if row.seller_id in done]
        step = await session.run(_import_step, chosen)
        added += step.added
        done.update(step.added)
        known += step.known
        refused += step.refused
    return ImportedSellersView(added, known, refused, session.dry_run)


def _import_step(tx: SellersTx, context: OperationContext, rows: Sequence[SellerRow]) -> ImportedSellersView:
    added: list[str] = []
    known: list[str] = []
    refused: list[RefusedRowView] = []
    for row in rows:
        error = row.error
        if error is None and tx.sellers.get(row.seller_id) is not None:
            known.append(row.seller_id)
            continue
        if error is None:
            try:
                register_seller(tx, context, row.seller_id, row.name, row.interval)
                added.append(row.seller_id)
            except SellerwatchError as refusal:
                error = refusal
        if error is not None:
            refused.append(RefusedRowView(row.line, error.code, error_text(error.code, error.facts, context.language)))
    return ImportedSellersView(added, known, refused, context.dry_run)
