"""Writes docs/events.md and the record of the events' schemas from the code that makes events.

`--check` exits 1 if the page or the record differs. The record of a version, docs/schemas/events-N.json, may only grow:
a field that is removed or gets another type breaks receivers, and is refused until SCHEMA_VERSION is raised.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_type_hints

from sellerwatch.catalog.event_schemas import EVENT_SHAPES, event_schema
from sellerwatch.catalog.product_data import ProductData
from sellerwatch.kernel.json_schema import SchemaWriter
from sellerwatch.kernel.views import About
from sellerwatch.outbox.event import SCHEMA_CHANGES, SCHEMA_VERSION, PingBody, ProductEventBody, SnapshotBody

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "events.md"
RECORDS = ROOT / "docs" / "schemas"
RECORD = RECORDS / f"events-{SCHEMA_VERSION}.json"
HEAD = """# Events

Every event that a product server receives, with every field. How to receive them is in
[receiving events](receiving-events.md). The same as JSON Schema (2020-12) is at `/schemas/events/TYPE.json`, without a
login: for example `/schemas/events/PRODUCT_UPDATED.json`; in `/openapi.json` it is below `webhooks`.

Made by `scripts/make_events.py` from the code that makes events; do not edit.

## Types

| eventType | sent when | what to do | `changes` |
| --- | --- | --- | --- |
"""
ENVELOPE = """
## Fields of every event

"""
PRODUCT = """
## Fields of every event about a product

"""
SNAPSHOT = """
## Fields of PRODUCT_SNAPSHOT alone

"""
DATA = """
## productData

A field is never null unless the column says when. A receiver ignores fields that it does not know.

"""
WIRE = """
## Changes of the format

A new field is not a new version: ignore what you do not know. A field that is removed, or gets another type or meaning,
is: `schemaVersion` rises.

| schemaVersion | what changed |
| --- | --- |
"""
#: What a receiver depends on, in a schema; the rest is words.
STRUCTURE = ("type", "const", "format", "anyOf", "items", "$ref", "minItems", "maxItems")


def page() -> str:
    types = (_type_row(each) for each in EVENT_SHAPES)
    wire = (f"| {version} | {text} |\n" for version, text in sorted(SCHEMA_CHANGES.items(), reverse=True))
    fields = (
        (ENVELOPE, PingBody, ()),
        (PRODUCT, ProductEventBody, get_type_hints(PingBody)),
        (SNAPSHOT, SnapshotBody, get_type_hints(ProductEventBody)),
        (DATA, ProductData, ()),
    )
    tables = ("".join([head, *_table(shape, set(left_out))]) for head, shape, left_out in fields)
    return "".join([HEAD, *types, *tables, WIRE, *wire])


def _type_row(event_type: str) -> str:
    shape = EVENT_SHAPES[event_type]
    changes = {"minItems": "never empty", "maxItems": "empty"}.get(next(iter(shape.changes), ""), "absent")
    return f"| `{event_type}` | {shape.sent} | {shape.apply} | {changes} |\n"


def _table(shape: type[Any], left_out: set[str]) -> Iterator[str]:
    yield "| field | type | meaning | unit | null | example |\n| --- | --- | --- | --- | --- | --- |\n"
    yield from _rows(shape, "", left_out)


def _rows(shape: type[Any], prefix: str, left_out: Iterable[str] = ()) -> Iterator[str]:
    properties = SchemaWriter().object_schema(shape)["properties"]
    for name, hint in get_type_hints(shape, include_extras=True).items():
        if name in left_out:
            continue
        if name == "productData":
            yield "| `productData` | object | The whole product; [its fields](#productdata). |  |  |  |\n"
            continue
        about, kind, nested = _about(hint), _kind(properties[name]), _nested(hint)
        example = "" if about.example is None else f"`{json.dumps(about.example, ensure_ascii=False)}`"
        yield f"| `{prefix}{name}` | {kind} | {about.description} | {about.unit} | {about.null} | {example} |\n"
        if nested is not None:
            yield from _rows(nested, f"{prefix}{name}{'[].' if kind == 'list' else '.'}")


def _about(hint: Any) -> About:
    for part in get_args(hint):
        if isinstance(part, About):
            return part
        if (found := _about(part)).text:
            return found
    return About()


def _nested(hint: Any) -> type[Any] | None:
    """Return the typed dictionary in a type, if there is one."""
    if hasattr(hint, "__required_keys__"):
        return hint  # type: ignore[no-any-return]
    return next((found for part in get_args(hint) if (found := _nested(part)) is not None), None)


def _kind(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return "object"
    if "anyOf" in schema:
        return _kind(schema["anyOf"][0])
    if schema.get("format") == "date-time":
        return "date-time"
    if schema.get("items", {}).get("type") == "string":
        return "list of strings"
    if not schema.get("type"):
        return "any JSON"
    names = {"array": "list", "integer": "whole number", "boolean": "true or false"}
    return names.get(schema["type"], str(schema["type"]))


def record() -> str:
    schemas = {event_type: event_schema(event_type) for event_type in EVENT_SHAPES}
    return json.dumps(schemas, ensure_ascii=False, indent=1) + "\n"


def broken_promises(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Return each field of the recorded schemas that is removed, optional or of another type now."""
    for event_type, schema in recorded.items():
        if event_type not in now:
            yield f"{event_type} is removed"
            continue
        then, today = schema.get("$defs", {}), now[event_type].get("$defs", {})
        yield from _broken(event_type, schema, now[event_type])
        for name, definition in then.items():
            yield from _broken(f"{event_type} {name}", definition, today.get(name, {}))


def _broken(place: str, then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name, schema in then["properties"].items():
        if name not in now.get("properties", {}):
            yield f"{place}.{name} is removed"
        elif _structure(schema) != _structure(now["properties"][name]):
            yield f"{place}.{name} has another type"
        elif name in then["required"] and name not in now["required"]:
            yield f"{place}.{name} may be absent"


def _structure(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {name: _structure(value) for name, value in schema.items() if name in STRUCTURE}
    return [_structure(each) for each in schema] if isinstance(schema, list) else schema


def main() -> int:
    recorded = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}
    broken = list(broken_promises(recorded, json.loads(record())))
    if broken:
        print("\n".join(broken))
        print("receivers rely on it: raise SCHEMA_VERSION by a line in SCHEMA_CHANGES (outbox/event.py), or undo it")
        return 1
    if "--check" in sys.argv:
        wanted = {PAGE: page(), RECORD: record()}
        differing = [path.name for path, text in wanted.items() if not path.exists() or path.read_text("utf-8") != text]
        print(f"{', '.join(differing)}: run make docs" if differing else "events.md and its schemas are up to date")
        return 1 if differing else 0
    RECORDS.mkdir(exist_ok=True)
    PAGE.write_text(page(), "utf-8")
    RECORD.write_text(record(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
