"""People, and what is asked of their names and passwords."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.builders import NOW

from sellerwatch.access.logins import BY_ADDRESS, BY_USER, network
from sellerwatch.access.users import InvalidPassword, InvalidUserName, Role, User, check_password, user_name


@pytest.mark.parametrize(("given", "name"), [("Minji", "minji"), (" ops@example.com ", "ops@example.com"), ("a", "a")])
def test_a_name_is_one_whatever_case_it_is_typed_in(given: str, name: str) -> None:
    assert user_name(given) == name


@pytest.mark.parametrize("given", ["", " ", "-x", "a b", "민지", "x" * 65, "a\nb", "a'b", "../x"])
def test_a_name_that_could_be_misread_is_refused(given: str) -> None:
    with pytest.raises(InvalidUserName):
        user_name(given)


@pytest.mark.parametrize(
    "password", ["", "short", "x" * 11, "x" * 201, "tab\tbetween the words", "a-name-of-some-length"]
)
def test_a_password_that_is_too_short_too_long_or_the_name_is_refused(password: str) -> None:
    with pytest.raises(InvalidPassword) as refused:
        check_password(password, "A-name-of-some-length")
    assert not password or password not in str(refused.value)


def test_a_hash_never_shows() -> None:
    assert "secret" not in repr(User("minji", Role.ADMIN, "secret hash", NOW, NOW))


def test_waits_grow_and_end_somewhere() -> None:
    assert [BY_USER.wait(n).total_seconds() for n in (0, 4, 5, 6, 10, 11, 1000)] == [0, 0, 1, 2, 32, 60, 60]
    assert BY_ADDRESS.wait(10_000) == timedelta(minutes=15)


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("", ""),
        ("unknown", "unknown"),
    ],
)
def test_the_addresses_of_one_household_are_one(address: str, counted: str) -> None:
    assert network(address) == counted
