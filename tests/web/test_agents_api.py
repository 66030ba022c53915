"""/api/v1/agents, /api/v1/user-agents/status and /api/v1/limits: the pool, every action on it, and its limits."""

from __future__ import annotations

import orjson
import pytest
from tests.builders import NOW

from .api_world import UNKNOWN_ID, ApiWorld

PATH = "/api/v1/agents"
STRING = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0 practice"


async def test_the_status_of_the_pool_is_as_the_papers_say(world: ApiWorld) -> None:
    await world.admin.post(f"{PATH}/suspend", {"agents": ["1", "2"]})
    await world.admin.post(f"{PATH}/block", {"agents": ["3"], "reason": "불만 접수 🙅"})
    status = (await world.viewer.get("/api/v1/user-agents/status")).json
    assert list(status)[:6] == [
        "totalAgents",
        "availableAgents",
        "suspendedAgents",
        "blockedAgents",
        "availableRate",
        "healthScoreStats",
    ]
    assert list(status.values())[:5] == [100, 97, 2, 1, 97.0]
    assert set(status["healthScoreStats"]) == {"average", "min", "max"}
    assert (status["breaker"]["state"], status["windowsFull"]) == ("CLOSED", None)


async def test_an_agent_is_added_shown_and_removed(world: ApiWorld) -> None:
    made = await world.admin.post(PATH, {"userAgent": STRING})
    assert (made.status, made.json["userAgent"], made.json["status"]) == (201, STRING, "AVAILABLE")
    assert (await world.admin.post(PATH, {"userAgent": STRING})).json["errorCode"] == "AGENT_EXISTS"
    for name in (made.json["agentId"], str(made.json["number"])):
        shown = (await world.viewer.get(f"{PATH}/{name}")).json
        added = {name: value for name, value in made.json.items() if name != "dryRun"}
        assert {name: shown[name] for name in added} == added
        assert (shown["lastHour"]["requests"], shown["circuitEvents"]) == (0, [])
        assert [entry["action"] for entry in shown["audit"]] == ["agent.add"]
    gone = (await world.admin.post(f"{PATH}/remove", {"agents": [made.json["agentId"]]})).json
    assert (gone["done"], gone["refused"], gone["dryRun"]) == ([made.json["agentId"]], [], False)
    assert (await world.viewer.get(f"{PATH}/{made.json['agentId']}")).status == 404
    assert [entry.action for entry in await world.api_trail()] == ["agent.remove", "agent.add"]


async def test_several_are_moved_at_once_and_each_has_its_answer(world: ApiWorld) -> None:
    moved = (await world.admin.post(f"{PATH}/suspend", {"agents": ["1", "2", "9999"], "seconds": 60})).json
    assert (len(moved["done"]), [one["errorCode"] for one in moved["refused"]]) == (2, ["AGENT_NOT_FOUND"])
    resting = (await world.viewer.get(PATH, status="SUSPENDED")).json["content"]
    assert [agent["number"] for agent in resting] == [1, 2]
    assert resting[0]["reason"] == "by token:admin@practice"
    assert resting[0]["backAt"] == NOW.replace(minute=5).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    assert len((await world.admin.post(f"{PATH}/recover", {"agents": ["1"]})).json["done"]) == 1
    again = (await world.admin.post(f"{PATH}/recover", {"agents": ["1"]})).json
    assert [one["errorCode"] for one in again["refused"]] == ["ILLEGAL_MOVE"]
    assert len((await world.admin.post(f"{PATH}/block", {"agents": ["1", "2"], "reason": "x"})).json["done"]) == 2
    assert len((await world.admin.post(f"{PATH}/unblock", {"agents": ["1", "2"]})).json["done"]) == 2
    rotated = (await world.admin.post(f"{PATH}/rotate", {"agents": ["1"]})).json
    assert [one["errorCode"] for one in rotated["refused"]] == ["NO_TOKEN"]


async def test_nothing_of_a_token_is_ever_told(world: ApiWorld) -> None:
    await world.crawl_world()
    sealed = await world.read(lambda tx: tx.tokens.sealed())
    assert sealed
    told = (await world.viewer.get(PATH)).body + (await world.viewer.get(f"{PATH}/1")).body
    assert b'"ageSeconds"' in told
    for _, _, token in sealed:
        for secret in (token.sealed, token.fingerprint, token.nid, token.mustit_uid):
            assert secret.encode() not in told
    assert len((await world.admin.post(f"{PATH}/rotate", {"agents": ["1", "2"]})).json["done"]) == 2
    assert b"fingerprint" not in orjson.dumps([vars(entry) for entry in await world.api_trail()], default=str)


@pytest.mark.parametrize("verb", ["remove", "suspend", "recover", "block", "unblock", "rotate"])
async def test_what_cannot_be_read_or_is_not_allowed_changes_nothing(world: ApiWorld, verb: str) -> None:
    before = await world.all_rows()
    reason = {"reason": "x"} if verb == "block" else {}
    for agents in ([], ["x"], [1], "1", None, ["1"] * 1001, ["'; --"]):
        assert (await world.admin.post(f"{PATH}/{verb}", {"agents": agents, **reason})).status == 400
    assert (await world.admin.post(f"{PATH}/{verb}", {"agents": ["1"], "surprise": 1, **reason})).status == 400
    assert (await world.viewer.post(f"{PATH}/{verb}", {"agents": ["1"], **reason})).status == 403
    assert await world.all_rows() == before


async def test_wrong_agents_are_refused(world: ApiWorld) -> None:
    before = await world.all_rows()
    for body in ({}, {"userAgent": ""}, {"userAgent": "한국어"}, {"userAgent": "x" * 2000}, {"userAgent": 1}):
        assert (await world.admin.post(PATH, body)).status == 400
    for seconds in (0, -1, 1.5, "60", 10**9):
        assert (await world.admin.post(f"{PATH}/suspend", {"agents": ["1"], "seconds": seconds})).status == 400
    assert (await world.admin.post(f"{PATH}/block", {"agents": ["1"]})).status == 400
    assert (await world.viewer.post(PATH, {"userAgent": STRING})).status == 403
    assert (await world.viewer.get(f"{PATH}/{UNKNOWN_ID}")).status == 404
    assert (await world.viewer.get(f"{PATH}/nobody")).json["errorCode"] == "INVALID_AGENT_NAME"
    assert await world.all_rows() == before


async def test_a_limit_is_changed_and_taken_back(world: ApiWorld) -> None:
    shown = {limit["name"]: limit for limit in (await world.viewer.get("/api/v1/limits")).json["content"]}
    assert (shown["WINDOW_LIMIT"]["value"], shown["WINDOW_LIMIT"]["isOverridden"]) == (80, False)
    changed = (await world.admin.ask("PUT", "/api/v1/limits/WINDOW_LIMIT", {"value": 60})).json
    assert (changed["name"], changed["before"], changed["after"]) == ("WINDOW_LIMIT", 80, 60)
    shown = {limit["name"]: limit for limit in (await world.viewer.get("/api/v1/limits")).json["content"]}
    assert (shown["WINDOW_LIMIT"]["value"], shown["WINDOW_LIMIT"]["configured"]) == (60, 80)
    back = (await world.admin.ask("DELETE", "/api/v1/limits/window-limit")).json
    assert (back["before"], back["after"]) == (60, 80)
    assert (await world.admin.ask("DELETE", "/api/v1/limits/WINDOW_LIMIT")).json["errorCode"] == "NOT_OVERRIDDEN"
    assert [(e.action, e.subject_id) for e in await world.api_trail()] == [
        ("limit.unset", "WINDOW_LIMIT"),
        ("limit.set", "WINDOW_LIMIT"),
    ]


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("WINDOW_LIMIT", 0, "INVALID_LIMIT"),
        ("WINDOW_LIMIT", -5, "INVALID_LIMIT"),
        ("WINDOW_LIMIT", 1.5, "INVALID_LIMIT"),
        ("WINDOW_LIMIT", "60", "INVALID_REQUEST"),
        ("WINDOW_LIMIT", True, "INVALID_REQUEST"),
        ("JWT_SECRET", 1, "FIXED_SETTING"),
        ("NOTHING", 1, "UNKNOWN_LIMIT"),
    ],
)
async def test_a_wrong_limit_is_refused_and_changes_nothing(
    world: ApiWorld, name: str, value: object, code: str
) -> None:
    before = await world.all_rows()
    refused = await world.admin.ask("PUT", f"/api/v1/limits/{name}", {"value": value})
    assert (refused.status, refused.json["errorCode"]) == (400, code)
    assert (await world.viewer.ask("PUT", f"/api/v1/limits/{name}", {"value": 1})).status == 403
    assert (await world.viewer.ask("DELETE", f"/api/v1/limits/{name}")).status == 403
    assert await world.all_rows() == before


DRY_RUNS = [
    ("remove", {}),
    ("suspend", {"seconds": 60}),
    ("block", {"reason": "x"}),
    ("recover", {}),
    ("unblock", {}),
    ("rotate", {}),
]


@pytest.mark.parametrize(("verb", "more"), DRY_RUNS)
async def test_a_dry_run_answers_as_the_action_would_and_changes_nothing(
    world: ApiWorld, verb: str, more: dict[str, object]
) -> None:
    await world.crawl_world()
    first = {"recover": "suspend", "unblock": "block"}.get(verb)
    if first is not None:
        await world.admin.post(f"{PATH}/{first}", {"agents": ["1"], "reason": "x"})
    before = await world.all_rows()
    would = await world.admin.post(f"{PATH}/{verb}", {"agents": ["1", "9999"], **more}, dryRun="true")
    assert (would.status, would.json["dryRun"], len(would.json["done"])) == (200, True, 1)
    assert [one["errorCode"] for one in would.json["refused"]] == ["AGENT_NOT_FOUND"]
    assert await world.all_rows() == before
    done = await world.admin.post(f"{PATH}/{verb}", {"agents": ["1", "9999"], **more})
    assert done.json == would.json | {"dryRun": False}


async def test_a_dry_run_of_adding_an_agent_shows_it_and_adds_none(world: ApiWorld) -> None:
    before = await world.all_rows()
    would = await world.admin.post(PATH, {"userAgent": STRING}, dryRun="true")
    assert (would.status, would.json["userAgent"], would.json["dryRun"]) == (201, STRING, True)
    assert await world.all_rows() == before


async def test_an_unknown_query_parameter_is_refused(world: ApiWorld) -> None:
    assert (await world.viewer.get(PATH, order="health")).status == 400
    assert (await world.viewer.get("/api/v1/user-agents/status", x="1")).status == 400
    assert (await world.admin.post(f"{PATH}/recover", {"agents": ["1"]}, dryrun="true")).status == 400


async def test_questions_about_the_pool_are_answered(world: ApiWorld) -> None:
    listed = (
        await world.viewer.get(PATH, sort="failures", since="2026-11-14T00:00:00Z", limit="3", circuit="CLOSED")
    ).json
    assert len(listed["content"]) == 3
    assert listed["since"] == "2026-11-14T00:00:00.000000Z"
    first = listed["content"][0]
    assert (first["requests"], first["successRate"], first["tooMany"], first["lastTooManyAt"]) == (0, None, 0, None)
    assert (await world.viewer.get(PATH, limited="true")).json["content"] == []
    assert (await world.viewer.get(f"{PATH}/circuits")).json == {"content": []}
    budget = (await world.viewer.get(f"{PATH}/budget")).json
    assert (budget["now"]["used"], len(budget["content"])) == (0, 97)
    kept = (await world.viewer.get("/api/v1/retention")).json
    assert {each["table"]: each["rows"] for each in kept["content"]}["crawler_tasks"] == 0
    ages = (await world.viewer.get("/api/v1/tasks/ages")).json["content"]
    assert all(each["total"] == sum(each[name] for name in AGES) for each in ages)


AGES = ("under10Minutes", "under1Hour", "under1Day", "older")
