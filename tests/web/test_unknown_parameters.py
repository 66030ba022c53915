"""A query parameter that a route does not have is refused, never ignored: it would be a filter that does not filter."""

from __future__ import annotations

from .api_world import ApiWorld
from .walk import fill, operations


async def test_every_route_refuses_a_query_parameter_that_it_does_not_have(world: ApiWorld) -> None:
    ignored = []
    for method, path, _ in operations(world.admin.app):
        reply = await world.admin.ask(method, fill(path), {} if method != "GET" else None, query={"sort": "name"})
        is_refused = reply.status == 400 and [each["field"] for each in reply.json.get("details") or ()] == ["sort"]
        ignored += [] if is_refused else [(method, path, reply.status)]
    assert ignored == []
