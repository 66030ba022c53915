"""The schemas of events are generated from the code that makes events, and keep what they promised."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from scripts.make_events import RECORDS, broken_promises, page, record
from tests.builders import (
    ITEM,
    NOW,
    SELLER,
    detail_facts,
    list_facts,
    option_facts,
    outbox_id,
    whole_of,
)
from tests.event_contract import broken_rules, validator

from sellerwatch.catalog.differences import Change
from sellerwatch.catalog.event_schemas import EVENT_SHAPES, EventTypeNotFound, event_schema
from sellerwatch.catalog.facts import Brand, DetailFacts
from sellerwatch.kernel.json_schema import DIALECT, problems
from sellerwatch.outbox.event import SCHEMA_VERSION, data_json, event_body, ping_body, snapshot_body

WHOLE = whole_of(list_facts(), detail_facts(), option_facts())


def a_body(event_type: str, data: dict[str, Any] = WHOLE) -> bytes:
    if event_type == "PING":
        return ping_body(outbox_id(), NOW)
    if event_type == "PRODUCT_SNAPSHOT":
        return snapshot_body(outbox_id(), ITEM, SELLER, 3, NOW, data_json(data), deleted=True)
    changes = [Change("prices.selling", 1, 2)] if event_type == "PRODUCT_UPDATED" else []
    return event_body(outbox_id(), event_type, ITEM, SELLER, 3, NOW, changes, data_json(data))


def bare() -> DetailFacts:
    """Everything that the marketplace may leave out is left out."""
    brand = Brand(code=None, name="", name_kr=None)
    return detail_facts(brand=brand, categories=(), item_status=None, origin_country=None, shipping=None, images=())


@pytest.mark.parametrize("event_type", EVENT_SHAPES)
def test_every_event_follows_its_schema_and_has_no_field_beyond_it(event_type: str) -> None:
    for data in (WHOLE, whole_of(list_facts(tags=()), bare(), option_facts())):
        assert broken_rules(a_body(event_type, data)) == []
        assert list(problems(event_schema(event_type), orjson.loads(a_body(event_type, data)))) == []


@pytest.mark.parametrize("event_type", EVENT_SHAPES)
def test_every_field_of_a_schema_is_sent_and_has_a_meaning_and_an_example(event_type: str) -> None:
    schema = event_schema(event_type)
    assert schema["$schema"] == DIALECT
    assert set(schema["properties"]) == set(orjson.loads(a_body(event_type)))
    for shape in (schema, *schema.get("$defs", {}).values()):
        for name, field in shape["properties"].items():
            assert field["description"], name
            assert field.get("examples") or "$ref" in str(field) or field["type"] == "array", name


Spoil = Callable[[dict[str, Any]], Any]

SPOILT: dict[str, Spoil] = {
    "eventId": lambda event: event.update(eventId=None),
    "eventType": lambda event: event.update(eventType="PRODUCT_CREATED"),
    "occurredAt": lambda event: event.update(occurredAt="2026-11-15 06:04:05"),
    "occurredAt, no such day": lambda event: event.update(occurredAt="2026-02-31T06:04:05Z"),
    "version": lambda event: event.update(version="3"),
    "version, a truth": lambda event: event.update(version=True),
    "changes": lambda event: event.update(changes=[]),
    "changes[0].after": lambda event: event["changes"][0].pop("after"),
    "productData.prices.selling": lambda event: event["productData"]["prices"].update(selling="1"),
    "productData.options[1].stock": lambda event: event["productData"]["options"][1].pop("stock"),
    "productData.brand.code": lambda event: event["productData"]["brand"].update(code="133"),
    "productData.images[0]": lambda event: event["productData"].update(images=[None]),
    "productData.tags": lambda event: event["productData"].pop("tags"),
}


@pytest.mark.parametrize("place", SPOILT)
def test_what_breaks_a_schema_is_found_and_named(place: str) -> None:
    event = orjson.loads(a_body("PRODUCT_UPDATED"))
    SPOILT[place](event)
    (problem,) = problems(event_schema("PRODUCT_UPDATED"), event)
    assert problem.startswith(place.partition(",")[0])
    assert not validator("PRODUCT_UPDATED").is_valid(event)


def test_a_body_that_is_no_object_breaks_every_schema() -> None:
    assert list(problems(event_schema("PING"), [])) == ["the body is not of the type object"]


def test_an_event_stored_without_a_schema_version_follows_the_schema() -> None:
    event = orjson.loads(a_body("PRODUCT_UPDATED"))
    del event["schemaVersion"]
    assert broken_rules(orjson.dumps(event)) == []


def test_an_unknown_event_type_has_no_schema() -> None:
    with pytest.raises(EventTypeNotFound):
        event_schema("PRODUCT_SOLD")


def test_the_page_has_every_field_of_product_data() -> None:
    shown = page()
    for definition in event_schema("PRODUCT_CREATED")["$defs"].values():
        for name in definition["properties"]:
            assert f"{name}`" in shown


# What receivers rely on


def test_what_was_published_is_kept() -> None:
    recorded = json.loads((RECORDS / f"events-{SCHEMA_VERSION}.json").read_text("utf-8"))
    assert list(broken_promises(recorded, json.loads(record()))) == []


def _prices(schemas: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = schemas["PRODUCT_CREATED"]["$defs"]["PricesData"]
    return found


BROKEN: dict[str, Spoil] = {
    "PRODUCT_CREATED PricesData.rate is removed": lambda now: _prices(now)["properties"].pop("rate"),
    "PRODUCT_CREATED PricesData.rate has another type": lambda now: _prices(now)["properties"].update(
        rate={"type": "string"}
    ),
    "PRODUCT_CREATED PricesData.rate may be absent": lambda now: _prices(now)["required"].remove("rate"),
    "PRODUCT_DELETED.version is removed": lambda now: now["PRODUCT_DELETED"]["properties"].pop("version"),
    "PING is removed": lambda now: now.pop("PING"),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_field_that_is_removed_or_retyped_breaks_a_promise(broken: str) -> None:
    now = json.loads(record())
    BROKEN[broken](now)
    assert list(broken_promises(json.loads(record()), now)) == [broken]


def test_a_new_field_breaks_no_promise() -> None:
    now = json.loads(record())
    _prices(now)["properties"]["points"] = {"type": "integer"}
    assert list(broken_promises(json.loads(record()), now)) == []
