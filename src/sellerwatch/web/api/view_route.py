"""Routes that answer with views.

A handler returns the view; this class turns it into JSON by `view_json`, the same as `--json` prints, and describes it
in OpenAPI. A query parameter that the route does not have is refused, never ignored, on all routes.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import orjson
from fastapi import Request
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Query
from fastapi.routing import APIRoute
from starlette.responses import Response

from sellerwatch.kernel.views import view_json
from sellerwatch.kernel.wording import Problem
from sellerwatch.web.api.errors import FieldProblem, InvalidRequest

Handler = Callable[..., Coroutine[Any, Any, Any]]


class StrictRoute(APIRoute):
    """Refuses query parameters that the route does not have."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        known = {each.alias for each in get_flat_params(self.dependant) if isinstance(each.field_info, Query)}

        async def refuse_unknown(request: Request) -> Response:
            unknown = sorted(request.query_params.keys() - known)
            if unknown:
                raise InvalidRequest(tuple(FieldProblem(name[:100], Problem("not_a_parameter")) for name in unknown))
            return await handle(request)

        return refuse_unknown


class ViewRoute(StrictRoute):
    """The class of every route that answers with a view: `APIRouter(route_class=ViewRoute)`."""

    def __init__(self, path: str, endpoint: Handler, **options: Any) -> None:
        super().__init__(path, _answering(endpoint, options.get("status_code") or 200), **options)


def _answering(endpoint: Handler, status: int) -> Handler:
    @wraps(endpoint)
    async def answer(*args: Any, **kwargs: Any) -> Response:
        view = await endpoint(*args, **kwargs)
        if isinstance(view, Response):
            return view
        return Response(orjson.dumps(view_json(view)), status, media_type="application/json")

    return answer
