"""One shape for every refusal, the framework's own included: a code that never changes, and a sentence for people."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic.alias_generators import to_camel
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from sellerwatch.kernel.clock import stamp
from sellerwatch.kernel.errors import (
    Conflict,
    Failed,
    Forbidden,
    Invalid,
    NotFound,
    SellerwatchError,
    TooLarge,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
)
from sellerwatch.kernel.ids import PublicId
from sellerwatch.kernel.store import StoreFailed
from sellerwatch.kernel.views import About
from sellerwatch.kernel.wording import Problem, Worded, error_text
from sellerwatch.texts import LANGUAGES
from sellerwatch.web.api.context import parts_of
from sellerwatch.web.api.models import ResponseModel

log = logging.getLogger(__name__)

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
#: Problems of fields in one answer, and characters of the name of a field: the caller sent both.
MOST_PROBLEMS, LONGEST_FIELD = 20, 100


@dataclass(frozen=True)
class FieldProblem(Worded):
    """What is wrong with one field of what was sent."""

    field: str
    problem: Problem | str

    __str__ = Worded.__str__

    def problem_text(self, language: str) -> str:
        return self.problem if isinstance(self.problem, str) else self.problem.text(language)

    def text(self, language: str = "en") -> str:
        return f"{self.field}: {self.problem_text(language)}"


class Refusal(ResponseModel):
    """Every answer that is no success."""

    error_code: str
    message: str
    timestamp: Annotated[str, About(format="date-time")]
    path: str
    details: Any = None


@dataclass(eq=False)
class InvalidRequest(Invalid):
    """A request that cannot be read: malformed JSON, wrong types, missing or unknown fields."""

    problems: tuple[FieldProblem, ...] = ()

    @property
    def facts(self) -> dict[str, object]:
        return {"first": self.problems[0] if self.problems else Problem("unreadable")}


class NoSuchPath(NotFound):
    """Nothing is served there."""


class MethodNotAllowed(Invalid):
    """The path is served, but not by this method."""


class HeadTooLarge(TooLarge):
    """More bytes or fields in the head of a request than any caller of ours sends."""


@dataclass(eq=False)
class RequestTooSlow(Invalid):
    """A request whose head or body was not complete in time."""

    seconds: float


class MalformedRequest(Invalid):
    """What was sent is not HTTP/1.1."""


@dataclass(eq=False)
class InternalError(Failed):
    """Our own bug. The id finds the line in the log; nothing more is said outside."""

    log_id: str


#: The most special kind first: the first that fits says the status.
STATUSES: tuple[tuple[type[SellerwatchError], int], ...] = (
    (MethodNotAllowed, 405),
    (RequestTooSlow, 408),
    (HeadTooLarge, 431),
    (InternalError, 500),
    (Invalid, 400),
    (Unauthenticated, 401),
    (Forbidden, 403),
    (NotFound, 404),
    (Conflict, 409),
    (TooLarge, 413),
    (TooManyRequests, 429),
    (Unavailable, 503),
    (StoreFailed, 503),
    (Failed, 502),
)


def status_of(kind: type[SellerwatchError]) -> int:
    """How an error is answered."""
    return next((number for each, number in STATUSES if issubclass(kind, each)), 500)


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For OpenAPI: the statuses a route may refuse with."""
    return {status: {"model": Refusal} for status in statuses}


def answer_refusals(app: FastAPI) -> None:
    """Every way in which a request can fail is answered here."""
    app.add_exception_handler(SellerwatchError, _refused)
    app.add_exception_handler(RequestValidationError, _unreadable)
    app.add_exception_handler(HTTPException, _framework)
    app.add_exception_handler(Exception, broken)


def refusal(request: Request, error: SellerwatchError, status: int | None = None) -> JSONResponse:
    """The answer to a refusal, in the reader's language."""
    status, language = status or status_of(type(error)), language_of(request)
    headers = {"Content-Language": language, "Vary": "Accept-Language"}
    retry_after = getattr(error, "retry_after", None)
    if retry_after is not None:
        headers["Retry-After"] = str(max(1, math.ceil(retry_after)))
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    body = Refusal(
        error_code=error.code,
        message=error_text(error.code, error.facts, language),
        timestamp=stamp(_now(request)),
        path=request.scope["path"],
        details=_details(error, language),
    )
    return JSONResponse(body.model_dump(by_alias=True, exclude_none=True), status, headers)


def language_of(request: Request) -> str:
    """The language the reader likes best of those we speak; else the configured one."""
    wishes = sorted(map(_wish, request.headers.get("accept-language", "")[:1000].split(",")), reverse=True)
    liked = (language for liking, language in wishes if liking > 0 and language in LANGUAGES)
    return next(liked, parts_of(request).settings.language)


def _wish(text: str) -> tuple[float, str]:
    """`ko-KR;q=0.8`: how much it is liked, and the language without its country."""
    name, _, quality = text.partition(";")
    try:
        liking = float(quality.strip().removeprefix("q=") or 1)
    except ValueError:
        liking = 0.0
    return liking, name.strip().lower().partition("-")[0]


def _details(error: SellerwatchError, language: str) -> Any:
    if isinstance(error, InvalidRequest):
        return [{"field": each.field, "problem": each.problem_text(language)} for each in error.problems]
    plain = {to_camel(name): fact for name, fact in error.facts.items() if isinstance(fact, str | int | float | bool)}
    return plain or None


async def _refused(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, SellerwatchError):
        raise error
    return refusal(request, error)


async def _unreadable(request: Request, error: Exception) -> JSONResponse:
    return refusal(
        request, unreadable_request(error) if isinstance(error, RequestValidationError) else InvalidRequest()
    )


def unreadable_request(error: RequestValidationError) -> InvalidRequest:
    """Return what the framework refused, field by field, the first `MOST_PROBLEMS` of it."""
    return InvalidRequest(
        tuple(
            FieldProblem(".".join(map(str, found["loc"][1:]))[:LONGEST_FIELD] or "body", Problem.of(**found))
            for found in error.errors()[:MOST_PROBLEMS]
        )
    )


async def _framework(request: Request, error: Exception) -> JSONResponse:
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 404:
        return refusal(request, NoSuchPath())
    if status == 405:
        answer = refusal(request, MethodNotAllowed())
        answer.headers["Allow"] = ", ".join(_taken(request))
        return answer
    return refusal(request, InvalidRequest((FieldProblem(field="request", problem=str(error)),)), status)


def options(request: Request) -> Response:
    """What a path takes; pages of other origins get no leave, so there is nothing more to say."""
    taken = _taken(request)
    if len(taken) == 1:
        return refusal(request, NoSuchPath())
    return Response(status_code=204, headers={"Allow": ", ".join(taken)})


def _taken(request: Request) -> list[str]:
    """Every method of a path: the framework itself names those of the first route it meets."""
    routes = request.app.router.routes
    found = {
        method
        for method in METHODS
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)
    }
    return sorted({"OPTIONS", *found, *(("HEAD",) if "GET" in found else ())})


async def broken(request: Request, error: Exception) -> JSONResponse:
    """A bug: everything goes to the log, nothing of it outside."""
    log_id = PublicId.generate(parts_of(request).ids)
    log.error("a request broke", exc_info=error, extra={"log_id": log_id, "path": request.scope["path"]})
    return refusal(request, InternalError(log_id))


def _now(request: Request) -> datetime:
    return parts_of(request).clock.now()
