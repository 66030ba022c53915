"""The API's description (OpenAPI 3.1), completed in one place, and the page that shows it.

What holds for every route is added here, so that no route can forget it: the refusals of the border and of the
credentials, the Idempotency-Key of POSTs. The page is made on the server from the same description: no script, nothing
from anywhere else, so it works offline and under a policy that allows nothing.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from html import escape
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.openapi.utils import get_openapi
from starlette.responses import HTMLResponse, JSONResponse, Response

from sellerwatch.catalog.event_schemas import EVENT_SHAPES, EventShape, event_components
from sellerwatch.kernel.views import SHAPE
from sellerwatch.web.api.errors import Refusal
from sellerwatch.web.api.idempotency import EXEMPT

TAGS = (
    ("auth", "Logging in."),
    ("users", "Who can log in."),
    ("sellers", "Whom we keep in step, and how often."),
    ("executions", "Runs: one crawl of one seller."),
    ("tasks", "The requests of a run."),
    ("products", "What was found, with its parts and its history."),
    ("outbox", "Events on their way to the product server."),
    ("resends", "Delivered events, sent again."),
    ("agents", "The pool of identities."),
    ("changes", "What changed: prices, stock, options, new and gone products."),
    ("quarantine", "Changes that wait for an operator."),
    ("removals", "Mass removals that wait for an operator."),
    ("resyncs", "The present state of products, sent again."),
    ("schedules", "When each seller is crawled next."),
    ("limits", "How often we ask, changed while it runs."),
    ("marketplace", "Whether the marketplace is asked, and whether it answers."),
    ("audit", "Who did what."),
    ("status", "The whole service on one screen."),
    ("why", "The trace of a product, a task, a run or an event."),
    ("events", "What happens, as it happens."),
    ("schemas", "The shape of what is sent to the product server."),
    ("metrics", "Numbers."),
    ("health", "Whether it lives and can be given work."),
    ("internal", "For the scheduler outside, by an API key."),
)
#: What the border may answer to anybody: unreadable, too large, too often, our own bug, the store away.
ALWAYS = {
    "400": "The request cannot be read, or one of its values is wrong",
    "413": "The body is too large",
    "429": "Asked too often; Retry-After says when again",
    "500": "Our own bug; the id in the message finds the log line",
    "503": "Not now; Retry-After says when, if that is known",
}
UNKNOWN, FORBIDDEN, CONFLICT = "No valid credential", "Not allowed to", "A rule forbids it in the present state"
COMPONENTS = "#/components/schemas/"
REFUSAL = {"$ref": f"{COMPONENTS}Refusal"}
#: The headers of an event, beside those of every request.
EVENT_HEADERS = {
    "Idempotency-Key": "The `eventId`.",
    "webhook-id": "The `eventId`.",
    "webhook-timestamp": "Unix seconds of this attempt.",
    "webhook-signature": "One or more `v1,<base64>`, separated by a space; absent where no secret is set.",
}
KEY: dict[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Sent again with the same key, the same request has one effect and gets the same answer for 24 h.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[ -~]+$"},
    "example": "3f0c2d1e-order-17",
}
EXAMPLE = {
    "errorCode": "SELLER_NOT_FOUND",
    "message": "There is no seller seller_12345; `sellerwatch sellers list` shows those there are.",
    "timestamp": "2026-11-15T06:04:05.123456Z",
    "path": "/api/v1/sellers/seller_12345",
    "details": {"sellerId": "seller_12345"},
}
METHODS = ("get", "post", "put", "patch", "delete")


def describe(app: FastAPI) -> None:
    """Make the app tell `/openapi.json` and `/docs`."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _completed(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]

    async def description(_: Request) -> Response:
        return JSONResponse(openapi())

    async def docs(_: Request) -> Response:
        policy = f"default-src 'none'; style-src '{_STYLE_HASH}'; frame-ancestors 'none'; base-uri 'none'"
        return HTMLResponse(page(openapi()), headers={"Content-Security-Policy": policy})

    app.add_route("/openapi.json", description, include_in_schema=False)
    app.add_route("/docs", docs, include_in_schema=False)


def _completed(app: FastAPI) -> dict[str, Any]:
    made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    # The framework's own refusal, which we never send.
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    schemas["Refusal"] = {**Refusal.model_json_schema(by_alias=True), "examples": [EXAMPLE]}
    schemas |= _event_components()
    for schema in list(schemas.values()):
        _put_shapes_into(schema)
    made["webhooks"] = {shape.event_type: {"post": _webhook(shape)} for shape in EVENT_SHAPES.values()}
    used = set()
    for path, method, operation in _operations(made):
        _complete(path, method, operation)
        used.update(operation.get("tags", ()))
    made["tags"] = [{"name": name, "description": said} for name, said in TAGS if name in used]
    return made


def _event_components() -> dict[str, Any]:
    events = [{"$ref": f"{COMPONENTS}{shape.name}"} for shape in EVENT_SHAPES.values()]
    schedule = {"type": "object", "description": "A message about a schedule."}
    payload = {"description": "The body of a message.", "anyOf": [*events, schedule]}
    return {**event_components(COMPONENTS), "MessagePayload": payload}


def _put_shapes_into(schema: dict[str, Any]) -> None:
    """Refer to the schema of an event where a field says that it has its shape."""
    for field in schema.get("properties", {}).values():
        name = field.pop(SHAPE, None)
        if name is not None:
            plain = next((choice for choice in field.get("anyOf", ()) if choice.get("type") == "object"), field)
            plain.pop("type")
            plain.pop("additionalProperties", None)
            plain["$ref"] = f"{COMPONENTS}{name}"


def _webhook(shape: EventShape) -> dict[str, Any]:
    """Return what the product server has to offer for an event type."""
    headers = [
        {"name": name, "in": "header", "required": False, "description": said, "schema": {"type": "string"}}
        for name, said in EVENT_HEADERS.items()
    ]
    schema = {"$ref": f"{COMPONENTS}{shape.name}"}
    return {
        "operationId": f"receive{shape.name}",
        "description": f"{shape.sent} {shape.apply}",
        "parameters": headers,
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
        "responses": {"2XX": {"description": "You have it for good: it is not sent again."}},
    }


def _complete(path: str, method: str, operation: dict[str, Any]) -> None:
    answers = operation["responses"]
    answers.pop("422", None)
    for status, said in ALWAYS.items():
        answers.setdefault(status, _refusal(said))
    if "security" in operation:
        answers.setdefault("401", _refusal(UNKNOWN))
    if "security" in operation and method != "get":
        answers.setdefault("403", _refusal(FORBIDDEN))
    if method == "post" and not path.startswith(EXEMPT):
        answers.setdefault("409", _refusal(CONFLICT))
        operation.setdefault("parameters", []).append(KEY)
    for status, answer in answers.items():
        # A refusal is JSON, whatever the route gives when all is well.
        models = [content.get("schema", {}).get("$ref", "") for content in answer.get("content", {}).values()]
        if int(status) >= 400 and (not models or any(model.endswith("/Refusal") for model in models)):
            answer["content"] = {"application/json": {"schema": REFUSAL}}


def _refusal(said: str) -> dict[str, Any]:
    return {"description": said, "content": {"application/json": {"schema": REFUSAL}}}


def _operations(made: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in made["paths"].items():
        for method in METHODS:
            if method in methods:
                yield path, method, methods[method]


_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1f24;"
    "background:#fff}h1,h2{line-height:1.2}code,pre{font:14px/1.45 ui-monospace,monospace;background:#f3f4f6;"
    "border-radius:4px}code{padding:.1em .3em}pre{padding:.8rem;overflow:auto}details{border:1px solid #d0d7de;"
    "border-radius:6px;margin:.5rem 0;padding:.5rem .8rem}summary{cursor:pointer}table{border-collapse:collapse}"
    "td,th{text-align:left;padding:.2rem .8rem .2rem 0;vertical-align:top}.m{display:inline-block;min-width:4rem;"
    "font-weight:600}a{color:#0550ae}@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}"
    "code,pre{background:#161b22}details{border-color:#30363d}a{color:#79c0ff}}"
)
_STYLE_HASH = f"sha256-{base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}"


def page(made: dict[str, Any]) -> str:
    """One page with everything on it: operations by tag, then the bodies they take and give."""
    groups = "".join(_group(tag["name"], tag["description"], made) for tag in made["tags"])
    bodies = "".join(
        f'<details id="{escape(name)}"><summary><code>{escape(name)}</code></summary>{_json(schema)}</details>'
        for name, schema in sorted(made["components"]["schemas"].items())
    )
    hooks = "".join(_operation(name, "post", hook["post"]) for name, hook in made["webhooks"].items())
    title = f"{escape(made['info']['title'])} {escape(made['info']['version'])}"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title} API</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body><main>'
        f"<h1>{title} API</h1><p>{escape(made['info']['description'])}</p>"
        '<p>For programs: <a href="/openapi.json">openapi.json</a>. Send <code>Authorization: Bearer TOKEN</code>; '
        "a token comes from <code>POST /api/v1/auth/login</code> or <code>sellerwatch auth token</code>.</p>"
        f"{groups}<h2>Webhooks</h2><p>What is sent to the product server.</p>{hooks}"
        f"<h2>Bodies</h2>{bodies}</main></body></html>"
    )


def _group(tag: str, said: str, made: dict[str, Any]) -> str:
    found = [each for each in _operations(made) if tag in each[2].get("tags", ())]
    return f"<h2>{escape(tag)}</h2><p>{escape(said)}</p>{''.join(_operation(*each) for each in found)}"


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    said = operation.get("description") or operation.get("summary", "")
    rows = "".join(
        f"<tr><td><code>{escape(p['name'])}</code></td><td>{escape(p['in'])}{', required' if p.get('required') else ''}"
        f"</td><td>{escape(p.get('description', ''))}</td></tr>"
        for p in operation.get("parameters", ())
    )
    taken = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    answers = "".join(
        f"<tr><td><code>{escape(status)}</code></td><td>{escape(answer.get('description', ''))}</td>"
        f"<td>{_links(answer.get('content', {}))}</td></tr>"
        for status, answer in sorted(operation["responses"].items())
    )
    return (
        f'<details><summary><span class="m">{method.upper()}</span> <code>{escape(path)}</code> '
        f"{escape(said)}</summary>"
        f"{f'<h4>Parameters</h4><table>{rows}</table>' if rows else ''}"
        f"{f'<h4>Body</h4><p>{_link(taken)}</p>' if taken else ''}<h4>Answers</h4><table>{answers}</table></details>"
    )


def _links(content: dict[str, Any]) -> str:
    return " ".join(f"{escape(kind)} {_link(body.get('schema', {}))}" for kind, body in content.items())


def _link(schema: dict[str, Any]) -> str:
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    return f'<a href="#{escape(name)}">{escape(name)}</a>' if name else ""


def _json(value: Any) -> str:
    return f"<pre>{escape(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())}</pre>"
