"""Views: what queries and commands return. The API, `--json`, tables and pages all show these values.

A view is a frozen dataclass below `View`. `view_json` is the one place where it becomes JSON: names in camelCase, times
in UTC with microseconds and a Z, enums as their value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from enum import Enum
from functools import lru_cache
from typing import Any, ClassVar, Generic, TypeVar

from sellerwatch.kernel.clock import stamp

T = TypeVar("T")

#: Marks a field in OpenAPI whose schema is one of those of events, until `web/api/description.py` puts it in.
SHAPE = "x-shape"


def camel_case(name: str) -> str:
    """Return `next_run_at` as `nextRunAt`."""
    first, *others = name.split("_")
    return first + "".join(word.title() for word in others)


class View:
    """Base of every view. The configuration is read by Pydantic, which describes views in OpenAPI."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"alias_generator": camel_case, "populate_by_name": True}


def shared_fields(view: type[Any], noun: object) -> dict[str, Any]:
    """Return the values of a noun's fields that the view has under the same name."""
    return {each.name: getattr(noun, each.name) for each in fields(view) if hasattr(noun, each.name)}


@dataclass(frozen=True)
class About:
    """The text and the example of a field in OpenAPI and in the schemas of events:
    `name: Annotated[str, About(example="Luxury House")]`.

    Fields of events also say their unit, when they are null, and the format of a text. `shape` names the schema, among
    those of events, of a field that the code treats as plain JSON.
    """

    description: str = ""
    example: object = None
    unit: str = ""
    null: str = ""
    format: str = ""
    shape: str = ""

    @property
    def text(self) -> str:
        """The description with everything that has no keyword of its own in JSON Schema."""
        unit = f"In {self.unit}." if self.unit else ""
        null = f"Null {self.null}." if self.null else ""
        return " ".join(filter(None, (self.description, unit, null)))

    def put_into(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return a field's schema with what is said here."""
        said = {"description": self.text, "format": self.format, SHAPE: self.shape}
        described = dict(schema) | {name: value for name, value in said.items() if value}
        if self.example is not None:
            described["examples"] = [self.example]
        return described

    def __get_pydantic_json_schema__(
        self, core_schema: Any, handler: Callable[[Any], dict[str, Any]]
    ) -> dict[str, Any]:
        return self.put_into(handler(core_schema))


@dataclass(frozen=True)
class NumberedPageView(View, Generic[T]):
    """One page of a list that is counted; pages count from 0."""

    content: Sequence[T]
    page: int
    size: int
    total_elements: int
    total_pages: int

    @classmethod
    def of(cls, content: Sequence[T], page: int, size: int, total: int) -> NumberedPageView[T]:
        return cls(content, page, size, total, -(-total // size))


@dataclass(frozen=True)
class CursorPageView(View, Generic[T]):
    """A part of a list that grows without end: `next` is the cursor of the part after it, null at the end."""

    content: Sequence[T]
    next: str | None


@lru_cache(None)
def _names(kind: type[Any]) -> tuple[tuple[str, str], ...]:
    return tuple((each.name, camel_case(each.name)) for each in fields(kind))


def view_json(value: Any) -> Any:
    """Return a view, or lists and mappings of views, as plain JSON values. Keys of mappings stay as they are."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, datetime):
        return stamp(value)
    if isinstance(value, Mapping):
        return {str(key): view_json(each) for key, each in value.items()}
    if isinstance(value, View):
        kind: Any = type(value)
        return {shown: view_json(getattr(value, name)) for name, shown in _names(kind)}
    return [view_json(each) for each in value]
