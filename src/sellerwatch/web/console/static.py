"""The console's own files: read once, addressed by what is in them, so that a browser may keep them for good."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import APIRouter, Request
from starlette.responses import Response

from sellerwatch.web.api.errors import NoSuchPath

TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
FOR_GOOD = "public, max-age=31536000, immutable"

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True)
class File:
    body: bytes
    media_type: str
    mark: str


@lru_cache(1)
def _files() -> dict[str, File]:
    return dict(_within(files("sellerwatch.web.console").joinpath("static"), ""))


def _within(folder: Traversable, prefix: str) -> list[tuple[str, File]]:
    found: list[tuple[str, File]] = []
    for entry in folder.iterdir():
        kind = TYPES.get(entry.name.rpartition(".")[2])
        if entry.is_dir():
            found += _within(entry, f"{prefix}{entry.name}/")
        elif kind is not None:
            body = entry.read_bytes()
            found.append((f"{prefix}{entry.name}", File(body, kind, hashlib.sha256(body).hexdigest()[:12])))
    return found


def address_of(name: str) -> str:
    return f"/static/{_files()[name].mark}/{name}"


@router.get("/static/{mark}/{name:path}")
async def static(mark: str, name: str, request: Request) -> Response:
    found = _files().get(name)
    if found is None or found.mark != mark:
        raise NoSuchPath
    return Response(found.body, media_type=found.media_type, headers={"cache-control": FOR_GOOD})
