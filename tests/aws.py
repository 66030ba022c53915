"""The emulator of AWS for tests: started once for a module, with queues of its own for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import count

import pytest
from tests import servers

from sellerwatch.adapters.aws.client import Aws
from sellerwatch.adapters.aws.queue import Group, SqsDeadLetters, SqsQueue, dead_queue, set_up, tasks_queue

CREDENTIALS = {"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_SECRET_ACCESS_KEY": "t0p-s3cret"}

_numbers = count(1)


@contextmanager
def emulator() -> Iterator[servers.Aws]:
    with pytest.MonkeyPatch.context() as patched, servers.running(servers.Aws) as server:
        for name, value in CREDENTIALS.items():
            patched.setenv(name, value)
        assert isinstance(server, servers.Aws)
        yield server


@dataclass(frozen=True)
class Queues:
    aws: Aws
    name: str
    dlq: str
    queue: SqsQueue
    dead_letters: SqsDeadLetters


@asynccontextmanager
async def queues(server: servers.Aws, *, visibility: float = 1, group: Group = "seller") -> AsyncIterator[Queues]:
    number, aws = next(_numbers), Aws(server.url)
    name, dlq = f"tasks-{number}.fifo", f"tasks-dlq-{number}.fifo"
    await set_up(aws, name, dlq, visibility)
    queue = SqsQueue(tasks_queue(aws, name), visibility=visibility, group=group)
    try:
        yield Queues(aws, name, dlq, queue, SqsDeadLetters(dead_queue(aws, dlq)))
    finally:
        await aws.close()
