"""Compress the texts of a product, each stored once.

An event, an entry of the history and a later detail repeat most of a detail that is stored already. They are written as
zstd frames with that detail, their base, as the dictionary: a few hundred bytes instead of the whole text again. A base
is always a whole body, so no text is behind a chain, and retention keeps it while another row names it (`NOT_A_BASE`).
Each frame carries a checksum of its text: what is read is what was written, or `DamagedText` is raised.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import zstandard

from sellerwatch.adapters.sql.statements import Db, Repository
from sellerwatch.kernel.errors import Failed
from sellerwatch.kernel.ids import ProductId

#: The next levels take a third longer to save a fiftieth more.
LEVEL = 1
#: Below this many bytes a text is not worth a base.
SHORTEST_DELTA = 500
#: Bytes of bases that one transaction keeps at hand; more are read again.
MOST_BYTES = 4_000_000

# The newest whole detail of each product.
NEWEST_BASES = """
SELECT r.product_id, r.id, r.raw_json FROM (
    SELECT MAX(id) AS id FROM product_raw_data
    WHERE product_id IN (:product_ids) AND data_type = 'DETAIL' AND base_id IS NULL GROUP BY product_id) AS newest
JOIN product_raw_data r ON r.id = newest.id
"""

BASES = "SELECT id, raw_json FROM product_raw_data WHERE id IN (:rows) AND base_id IS NULL"

#: A condition: no other row needs the body `old` as its base. They are all of the same product.
NOT_A_BASE = """
NOT EXISTS (SELECT 1 FROM product_raw_data d WHERE d.product_id = old.product_id AND d.base_id = old.id)
AND NOT EXISTS (SELECT 1 FROM product_changes h WHERE h.product_id = old.product_id AND h.base_id = old.id)
AND NOT EXISTS (SELECT 1 FROM product_outbox o WHERE o.product_id = old.product_id AND o.base_id = old.id)
"""


@dataclass(eq=False)
class DamagedText(Failed):
    """A stored text is damaged, or the body that it was compressed against is."""

    where: str


class Packed(NamedTuple):
    """A compressed text, and the row of its base if it has one."""

    data: bytes
    base: int | None


class WholeDetail(NamedTuple):
    """A body that texts are compressed against."""

    row: int
    body: bytes

    def dictionary(self) -> zstandard.ZstdCompressionDict:
        return zstandard.ZstdCompressionDict(self.body, dict_type=zstandard.DICT_TYPE_RAWCONTENT)


class Deltas(Repository):
    """Compresses and expands texts within one transaction. Bases are kept at hand, so that an event and its entry of
    the history need not read one twice."""

    def __init__(self, db: Db) -> None:
        super().__init__(db)
        self._kept: dict[ProductId, WholeDetail] = {}
        self._bytes = 0
        self._packed: dict[ProductId, tuple[bytes, Packed]] = {}

    def pack(self, texts: Sequence[tuple[ProductId, bytes]]) -> list[Packed]:
        """Compress texts, each against the newest whole detail of its product, if one is stored. A new product's event
        is its entry of the history too: it is compressed once."""
        bases = self.newest_bases({product_id for product_id, text in texts if len(text) >= SHORTEST_DELTA})
        whole, found = compressor(), list[Packed]()
        for product_id, text in texts:
            last, packed = self._packed.get(product_id, (b"", None))
            if packed is None or last is not text:
                base = bases.get(product_id) if len(text) >= SHORTEST_DELTA else None
                packed = Packed(whole.compress(text), None) if base is None else pack_delta(text, base)
                self._packed[product_id] = text, packed
            found.append(packed)
        return found

    def unpack(self, packed: Sequence[tuple[bytes, int | None]], where: str) -> list[bytes]:
        """Expand texts. Raise `DamagedText` for the first that cannot be read."""
        found = []
        for text in self.readable(packed):
            if text is None:
                raise DamagedText(where=where)
            found.append(text)
        return found

    def readable(self, packed: Sequence[tuple[bytes, int | None]]) -> list[bytes | None]:
        """Expand texts; what is damaged is None."""
        rows, expand = {row for _, row in packed if row is not None}, decompressor()
        stored = self._db.rows(BASES, rows=list(rows)) if rows else ()
        bodies = {row: unpack(data, expand) for row, data in stored}
        bases = {row: WholeDetail(row, body) for row, body in bodies.items() if body is not None}
        return [unpack(data, expand) if row is None else unpack_delta(data, bases.get(row)) for data, row in packed]

    def newest_bases(self, product_ids: Collection[ProductId]) -> dict[ProductId, WholeDetail]:
        """Return the newest whole detail of each product that has one."""
        found = {product_id: self._kept[product_id] for product_id in product_ids if product_id in self._kept}
        wanted = [product_id for product_id in product_ids if product_id not in found]
        if wanted:
            rows = self._db.rows(NEWEST_BASES, product_ids=wanted)
            expand = decompressor()
            for product_id, row, data in rows:
                body = unpack(data, expand)
                if body is not None:
                    found[ProductId(product_id)] = WholeDetail(row, body)
                    self.keep(ProductId(product_id), found[ProductId(product_id)])
        return found

    def keep(self, product_id: ProductId, base: WholeDetail) -> None:
        """Keep a base at hand for the texts that are written next."""
        if self._bytes > MOST_BYTES:
            self._kept, self._bytes = {}, 0
        self._kept[product_id] = base
        self._bytes += len(base.body)


def compressor() -> zstandard.ZstdCompressor:
    """Return what compresses whole texts. It is not shared by threads."""
    return zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)


def decompressor() -> zstandard.ZstdDecompressor:
    return zstandard.ZstdDecompressor()


def pack_delta(text: bytes, base: WholeDetail) -> Packed:
    delta = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True, dict_data=base.dictionary())
    return Packed(delta.compress(text), base.row)


def unpack(data: bytes, expand: zstandard.ZstdDecompressor) -> bytes | None:
    """Return the text of a frame; None if it is damaged."""
    try:
        return expand.decompress(data)
    except zstandard.ZstdError:
        return None


def unpack_delta(data: bytes, base: WholeDetail | None) -> bytes | None:
    """Return the text of a frame with a base; None if one of them is damaged."""
    return None if base is None else unpack(data, zstandard.ZstdDecompressor(dict_data=base.dictionary()))
