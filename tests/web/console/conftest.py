"""The console over a real store and a simulated marketplace, with people at it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.builders import a_context
from tests.web.api_world import ApiWorld

from sellerwatch.access.commands import add_user
from sellerwatch.access.users import Role
from sellerwatch.adapters.sql.transaction import Transaction

from .person import Person

PASSWORD = "correct horse battery"


@dataclass(frozen=True)
class Console:
    """The pages as an administrator, a viewer and nobody see them."""

    admin: Person
    viewer: Person
    nobody: Person
    world: ApiWorld

    def person(self, who: str) -> Person:
        found: Person = getattr(self, who)
        return found


@pytest.fixture
async def console(world: ApiWorld) -> Console:
    hashed = await world.parts.passwords.hash(PASSWORD)
    people = {"admin": Role.ADMIN, "viewer": Role.VIEWER}

    def work(tx: Transaction) -> None:
        for name, role in people.items():
            add_user(tx, a_context(), name, role, hashed)

    await world.transact(work)
    admin, viewer, nobody = (Person(world.admin.app) for _ in range(3))
    made = Console(admin, viewer, nobody, world)
    for name in people:
        seen = await made.person(name).log_in(name, PASSWORD)
        assert seen.status == 200, seen.words
    return made
