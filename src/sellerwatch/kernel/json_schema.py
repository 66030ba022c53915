"""JSON Schema (2020-12) of typed dictionaries, and what breaks one.

A `TypedDict` describes JSON as it goes over the wire: `mypy` holds the code that makes it to the names and types, and
`object_schema` tells the same to others. Only what these descriptions need is supported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import NoneType, UnionType
from typing import Annotated, Any, NotRequired, Union, get_args, get_origin, get_type_hints

from sellerwatch.kernel.views import About

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_PLAIN: Mapping[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    Any: {},
}
_TYPES: Mapping[str, type] = {
    "string": str,
    "integer": int,
    "boolean": bool,
    "null": NoneType,
    "array": list,
    "object": dict,
}
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


@dataclass(frozen=True)
class SchemaWriter:
    """Writes schemas; those of nested dictionaries are collected in `definitions`, under the names of their classes.

    `refs` is where the definitions will be: `#/$defs/` in a schema of its own, elsewhere in OpenAPI.
    """

    refs: str = "#/$defs/"
    definitions: dict[str, dict[str, Any]] = field(default_factory=dict)

    def object_schema(self, shape: type[Any]) -> dict[str, Any]:
        """Return the schema of a typed dictionary. Other keys than its own are allowed."""
        hints = get_type_hints(shape, include_extras=True)
        return {
            "description": (shape.__doc__ or "").strip(),
            "type": "object",
            "properties": {name: self._schema(hint) for name, hint in hints.items()},
            "required": [name for name, hint in hints.items() if get_origin(hint) is not NotRequired],
        }

    def reference(self, shape: type[Any]) -> dict[str, Any]:
        """Return a reference to a typed dictionary, and keep its schema among the definitions."""
        if shape.__name__ not in self.definitions:
            self.definitions[shape.__name__] = self.object_schema(shape)
        return {"$ref": f"{self.refs}{shape.__name__}"}

    def _schema(self, hint: Any) -> dict[str, Any]:
        origin, parts = get_origin(hint), get_args(hint)
        if origin is Annotated:
            schema = self._schema(parts[0])
            for about in parts[1:]:
                schema = about.put_into(schema) if isinstance(about, About) else schema
            return schema
        if origin is NotRequired:
            return self._schema(parts[0])
        if origin in (Union, UnionType):
            return {"anyOf": [self._schema(part) for part in parts]}
        if origin is list:
            return {"type": "array", "items": self._schema(parts[0])}
        return dict(_PLAIN[hint]) if hint in _PLAIN else self.reference(hint)


def problems(schema: Mapping[str, Any], value: Any) -> Iterator[str]:
    """Return each place where a value breaks a schema that `SchemaWriter` wrote."""
    return _problems(schema, value, "", schema.get("$defs", {}))


def _problems(schema: Mapping[str, Any], value: Any, place: str, definitions: Mapping[str, Any]) -> Iterator[str]:
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        choices = [list(_problems(choice, value, place, definitions)) for choice in schema["anyOf"]]
        yield from () if not all(choices) else choices[0]
        return
    kind = schema.get("type")
    if kind is not None and type(value) is not _TYPES[kind]:
        yield f"{place or 'the body'} is not of the type {kind}"
        return
    if "const" in schema and value != schema["const"]:
        yield f"{place} is not {schema['const']}"
    if schema.get("format") == "date-time" and not _is_date_time(value):
        yield f"{place} is not a date-time"
    if kind == "object":
        yield from _member_problems(schema, value, place, definitions)
    elif kind == "array":
        yield from _item_problems(schema, value, place, definitions)


def _member_problems(
    schema: Mapping[str, Any], value: Any, place: str, definitions: Mapping[str, Any]
) -> Iterator[str]:
    for name, member in schema["properties"].items():
        at = f"{place}.{name}" if place else name
        if name in value:
            yield from _problems(member, value[name], at, definitions)
        elif name in schema["required"]:
            yield f"{at} is missing"


def _item_problems(schema: Mapping[str, Any], value: Any, place: str, definitions: Mapping[str, Any]) -> Iterator[str]:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield f"{place} has {len(value)} members"
    for index, item in enumerate(value):
        yield from _problems(schema["items"], item, f"{place}[{index}]", definitions)


def _is_date_time(text: str) -> bool:
    if not _DATE_TIME.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
