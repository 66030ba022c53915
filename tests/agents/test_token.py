"""A token: sealed, equal by fingerprint, and silent."""

from __future__ import annotations

import base64
import traceback

import pytest
from tests.builders import HOUR, NOW, SECOND, a_token

from sellerwatch.agents.token import InvalidToken, Token
from sellerwatch.kernel.errors import Invalid

SEALED = base64.b64encode(b"n" * 12 + b"hello" + b"t" * 16).decode()


def test_a_sealed_token_is_base64_of_at_least_44_characters() -> None:
    assert len(SEALED) == 44
    assert a_token(sealed=SEALED).sealed == SEALED


@pytest.mark.parametrize(
    ("sealed", "problem"),
    [
        ("", "it is blank"),
        ("   ", "it is blank"),
        (" " * 60, "it is blank"),
        (SEALED[:40], "it is shorter than 44 characters"),
        (SEALED + " ", "it is not base64"),
        ("!" * 44, "it is not base64"),
        ("A" * 45, "it is not base64"),
        ("토" * 44, "it is not base64"),
        (SEALED.replace(SEALED[0], "-"), "it is not base64"),
    ],
)
def test_anything_else_is_no_token_and_the_refusal_shows_nothing_of_it(sealed: str, problem: str) -> None:
    with pytest.raises(InvalidToken) as refusal:
        a_token(sealed=sealed)
    assert isinstance(refusal.value, Invalid)
    assert refusal.value.code == "INVALID_TOKEN"
    assert refusal.value.facts == {"problem": problem}
    assert str(refusal.value) == f"This is not an encrypted token: {problem}."
    assert refusal.value.__cause__ is None
    assert refusal.value.__suppress_context__ or refusal.value.__context__ is None


def test_tokens_are_equal_by_fingerprint() -> None:
    again = a_token(2, fingerprint=a_token(1).fingerprint)
    assert a_token(1) == again
    assert hash(a_token(1)) == hash(again)
    assert a_token(1) != a_token(1, fingerprint="another")
    assert a_token(1) != "fingerprint-1"


def test_a_token_prints_nothing_of_itself() -> None:
    token = a_token(sealed=SEALED, nid="nid-secret", mustit_uid="uid-secret", fingerprint="fp-secret")
    for text in (repr(token), str(token), f"{token}", f"{token!r}", repr([token]), repr({"token": token})):
        for secret in (SEALED, "nid-secret", "uid-secret", "fp-secret"):
            assert secret not in text


def test_a_token_shows_nothing_of_itself_in_a_traceback_with_locals() -> None:
    def send(token: Token) -> None:
        raise ConnectionError

    try:
        send(a_token(sealed=SEALED))
    except ConnectionError as error:
        shown = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
    assert "Token(sealed)" in shown
    assert SEALED not in shown


def test_a_token_is_valid_until_it_expires() -> None:
    token = a_token(expires_at=NOW + HOUR)
    assert token.is_valid(NOW + HOUR - SECOND)
    assert not token.is_valid(NOW + HOUR)
