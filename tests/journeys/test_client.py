"""A client generated from the served description is compiled, typed, and used against the API."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path

import aiohttp
from scripts.get_servers import NPM
from tests.servers import program
from tests.web.served import served

from sellerwatch.adapters.sql.store import SqlStore

CLIENT = Path(__file__).parent / "client/client.ts"
#: A field with a default need not be sent.
GENERATE = ["openapi.json", "--output", "api.d.ts", "--default-non-nullable", "false"]
TSC = ["--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022", "--types", "node", "client.ts"]


async def node(folder: Path, script: str, *arguments: str, **environment: str) -> str:
    made = await asyncio.create_subprocess_exec(
        program("node"),
        script,
        *arguments,
        cwd=folder,
        env=os.environ | environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await made.communicate()
    assert made.returncode == 0, said.decode()
    return said.decode()


async def test_a_generated_client_is_typed_and_works(store: SqlStore, tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(NPM / "node_modules")
    (tmp_path / "package.json").write_text('{"type": "module"}', "utf-8")
    shutil.copy(CLIENT, tmp_path)
    async with served(store) as api:
        async with aiohttp.ClientSession() as session, session.get(f"{api.address}/openapi.json") as answer:
            (tmp_path / "openapi.json").write_bytes(await answer.read())
        await node(tmp_path, "node_modules/openapi-typescript/bin/cli.js", *GENERATE)
        await node(tmp_path, "node_modules/typescript/bin/tsc", *TSC)
        token = api.headers()["authorization"].removeprefix("Bearer ")
        said = await node(tmp_path, "client.js", ADDRESS=api.address, TOKEN=token, ITEM="900000001")
    assert json.loads(said) == {
        "registered": "seller_0001",
        "refused": "SELLER_EXISTS",
        "started": "seller_0001",
        "listed": ["seller_0001"],
        "missing": "PRODUCT_NOT_FOUND",
        "brand": "none",
        "selling": "none",
        "event": "PRODUCT_UPDATED",
    }
