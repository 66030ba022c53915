"""Tokens at rest: sealed for one agent, opened only for it, silent about themselves."""

from __future__ import annotations

import base64
import traceback
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import LATER, NOW, agent_id

from sellerwatch.adapters.sealing import AesGcmSealer, parse_keys
from sellerwatch.agents.answers import Identity, Session
from sellerwatch.agents.ports import Sealer
from sellerwatch.agents.token import InvalidToken, Token
from sellerwatch.marketplaces.mustit.client import LONGEST_COOKIE

SECRET = "a-very-secret-guest-token"
OLD = ("2025", b"o" * 32)
NEW = ("2026", b"n" * 32)
AGENT = agent_id(1)
PARTS = ("sealed", "nid", "mustit_uid")


def a_session(token: str = SECRET) -> Session:
    return Session(token, "known-nid", "", LATER - NOW)


def sealed(sealer: Sealer, token: str = SECRET, agent: str = AGENT) -> Token:
    return sealer.seal(a_session(token), bound_to=agent, issued_at=NOW)


def why_not(sealer: AesGcmSealer, token: Token, agent: str = AGENT) -> str:
    with pytest.raises(InvalidToken) as refused:
        sealer.open(token, agent)
    return "".join(traceback.format_exception(refused.value))


def tampered(token: Token, at: int, part: str = "sealed") -> Token:
    raw = bytearray(base64.b64decode(getattr(token, part)))
    raw[at] ^= 1
    return given_as(token, part, base64.b64encode(raw).decode())


def given_as(token: Token, part: str, value: str) -> Token:
    changed: dict[str, Any] = {part: value}
    return replace(token, **changed)


@given(st.text(st.characters(codec="utf-8"), min_size=5, max_size=300), st.integers(1, 10**6).map(agent_id))
def test_what_is_sealed_opens_again_for_its_agent(token: str, agent: str) -> None:
    sealer = AesGcmSealer([NEW])
    assert sealer.open(sealed(sealer, token, agent), agent) == a_session(token)


def test_a_client_opens_the_token_of_an_identity() -> None:
    sealer = AesGcmSealer([NEW])
    assert sealer.open_identity(Identity(AGENT, "Mozilla/5.0", sealed(sealer))) == a_session()


def test_what_is_not_secret_is_kept_in_the_clear() -> None:
    token = sealed(AesGcmSealer([NEW]))
    assert (token.key_id, token.issued_at, token.expires_at) == ("2026", NOW, LATER)


@pytest.mark.parametrize("part", PARTS)
def test_the_same_session_never_looks_the_same_twice(part: str) -> None:
    sealer = AesGcmSealer([NEW])
    assert getattr(sealed(sealer), part) != getattr(sealed(sealer), part)


def test_the_longest_cookie_that_is_stored_fits_into_its_column() -> None:
    session = replace(a_session(), nid="n" * LONGEST_COOKIE)
    assert len(AesGcmSealer([NEW]).seal(session, bound_to=AGENT, issued_at=NOW).nid) <= 255


@pytest.mark.parametrize(("part", "taken_from"), [("nid", "mustit_uid"), ("mustit_uid", "nid"), ("nid", "sealed")])
def test_a_value_does_not_open_in_the_place_of_another(part: str, taken_from: str) -> None:
    sealer = AesGcmSealer([NEW])
    token = sealed(sealer)
    assert "altered" in why_not(sealer, given_as(token, part, getattr(token, taken_from)))


def test_a_cookie_in_the_clear_does_not_open() -> None:
    """As an earlier version stored it, and may go on to while it is being replaced."""
    sealer = AesGcmSealer([NEW])
    assert "altered" in why_not(sealer, replace(sealed(sealer), nid="0b7cd2c4-0c1f-4a4e-9d43-3f9d3e7b2c11"))


def test_equal_tokens_have_equal_fingerprints_also_in_another_process() -> None:
    one, other = sealed(AesGcmSealer([NEW])), sealed(AesGcmSealer([NEW, OLD]), agent=agent_id(2))
    assert one == other
    assert one != sealed(AesGcmSealer([NEW]), token=f"{SECRET}!")


def test_a_fingerprint_depends_on_the_key_so_that_it_cannot_be_guessed_without_it() -> None:
    assert sealed(AesGcmSealer([NEW])).fingerprint != sealed(AesGcmSealer([OLD])).fingerprint


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("at", [0, 11, 12, 20, -16, -1])
def test_a_token_altered_in_the_database_does_not_open(at: int, part: str) -> None:
    sealer = AesGcmSealer([NEW])
    assert "altered" in why_not(sealer, tampered(sealed(sealer), at, part))


def test_a_token_copied_to_another_agent_does_not_open() -> None:
    sealer = AesGcmSealer([NEW])
    assert "another agent" in why_not(sealer, sealed(sealer), agent_id(2))


def test_after_a_rotation_old_tokens_open_and_new_ones_are_sealed_with_the_new_key() -> None:
    old = sealed(AesGcmSealer([OLD]))
    rotated = AesGcmSealer([NEW, OLD])
    assert rotated.open(old, AGENT) == a_session()
    assert sealed(rotated).key_id == "2026"


def test_a_token_whose_key_was_dropped_says_which_key_is_missing() -> None:
    assert "its key 2025 is not among the configured ones" in why_not(AesGcmSealer([NEW]), sealed(AesGcmSealer([OLD])))


def test_another_key_under_the_same_id_does_not_open() -> None:
    assert "another key" in why_not(AesGcmSealer([("2026", b"x" * 32)]), sealed(AesGcmSealer([NEW])))


def test_nothing_that_can_be_printed_shows_a_token_or_a_key() -> None:
    sealer = AesGcmSealer([NEW, OLD])
    token = sealed(sealer)
    said = [
        repr(sealer),
        str(sealer),
        repr(token),
        str(token),
        repr(vars(sealer)),
        why_not(sealer, tampered(token, 12)),
    ]
    said += [repr(sealer.open(token, AGENT))]
    for secret in (SECRET, "known-nid", "nnnn", "oooo", token.sealed, token.nid):
        assert not [text for text in said if secret in text]


def test_keys_are_read_in_their_order() -> None:
    text = f"2026:{base64.b64encode(NEW[1]).decode()}, 2025:{base64.b64encode(OLD[1]).decode()}"
    assert parse_keys(text) == (NEW, OLD)


GOOD = base64.b64encode(b"k" * 32).decode()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "token key 1 is not an id"),
        (GOOD, "token key 1 is not an id"),
        (f":{GOOD}", "token key 1 is not an id"),
        (f"a:{GOOD},b:####", "token key 2 is not an id"),
        (f"a:{GOOD},b:{GOOD[:20]}", "token key 2 is not an id"),
        (f"a:{GOOD},a:{GOOD}", "token key 2 has the id of an earlier one"),
    ],
)
def test_a_wrong_key_is_named_by_its_place_and_not_shown(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as refused:
        parse_keys(text)
    assert GOOD[:20] not in str(refused.value)


def test_a_sealer_needs_a_key() -> None:
    with pytest.raises(ValueError, match="at least one"):
        AesGcmSealer([])
