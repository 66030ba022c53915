"""The table of moves: what it allows, what it says when it does not, and how it is drawn."""

from __future__ import annotations

from enum import StrEnum

import pytest

from sellerwatch.kernel.errors import Conflict, IllegalMove
from sellerwatch.kernel.lifecycle import Lifecycle


class Door(StrEnum):
    SHUT = "SHUT"
    OPEN = "OPEN"
    LOCKED = "LOCKED"


DOOR = Lifecycle(
    noun="door",
    first=Door.SHUT,
    moves={
        (Door.SHUT, "open"): Door.OPEN,
        (Door.OPEN, "shut"): Door.SHUT,
        (Door.SHUT, "lock"): Door.LOCKED,
        (Door.SHUT, "knock"): Door.SHUT,
        (Door.LOCKED, "knock"): Door.LOCKED,
        (Door.LOCKED, "break_in"): Door.OPEN,
        (Door.SHUT, "blow_open"): Door.OPEN,
    },
    resting=frozenset({Door.LOCKED}),
)


def test_a_legal_verb_leads_to_the_state_of_the_table() -> None:
    assert DOOR.after(Door.SHUT, "open", "front") is Door.OPEN


def test_an_illegal_verb_says_the_state_it_was_in_and_the_states_it_needs() -> None:
    with pytest.raises(IllegalMove) as refusal:
        DOOR.after(Door.OPEN, "knock", "front")
    assert isinstance(refusal.value, Conflict)
    assert refusal.value.code == "ILLEGAL_MOVE"
    assert refusal.value.facts == {
        "noun": "door",
        "name": "front",
        "verb": "knock",
        "state": "OPEN",
        "needs": ("SHUT", "LOCKED"),
    }
    assert str(refusal.value) == "The door front is OPEN; to knock it must be SHUT or LOCKED."


def test_a_verb_of_two_words_is_said_as_people_say_it_and_kept_as_the_table_has_it() -> None:
    with pytest.raises(IllegalMove) as refusal:
        DOOR.after(Door.OPEN, "break_in", "front")
    assert refusal.value.verb == "break_in"
    assert str(refusal.value) == "The door front is OPEN; to break in it must be LOCKED."


def test_a_verb_nobody_knows_is_illegal_everywhere() -> None:
    with pytest.raises(IllegalMove) as refusal:
        DOOR.after(Door.OPEN, "paint", "front")
    assert refusal.value.needs == ()


def test_an_illegal_move_shows_no_key_error_behind_it() -> None:
    with pytest.raises(IllegalMove) as refusal:
        DOOR.after(Door.OPEN, "lock", "front")
    assert refusal.value.__suppress_context__


def test_a_table_tells_what_it_allows() -> None:
    assert DOOR.allows(Door.SHUT, "lock")
    assert not DOOR.allows(Door.OPEN, "lock")
    assert DOOR.sources("knock") == (Door.SHUT, Door.LOCKED)
    assert tuple(DOOR.states()) == (Door.SHUT, Door.OPEN, Door.LOCKED)
    assert DOOR.verbs() == ("open", "shut", "lock", "knock", "break_in", "blow_open")


def test_a_table_draws_itself() -> None:
    assert DOOR.diagram().splitlines() == [
        "stateDiagram-v2",
        "    [*] --> SHUT",
        "    SHUT --> OPEN: open, blow_open",
        "    OPEN --> SHUT: shut",
        "    SHUT --> LOCKED: lock",
        "    SHUT --> SHUT: knock",
        "    LOCKED --> LOCKED: knock",
        "    LOCKED --> OPEN: break_in",
        "    LOCKED --> [*]",
    ]
