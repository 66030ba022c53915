"""People, and what is asked of their names and passwords."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import timedelta
from importlib.resources import files

import pytest
from tests.builders import NOW

from sellerwatch.access.logins import BY_ADDRESS, BY_USER, network
from sellerwatch.access.users import (
    SHORTEST_PASSWORD,
    InvalidPassword,
    InvalidUserName,
    Role,
    User,
    check_password,
    common_passwords,
    user_name,
)


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


@pytest.mark.parametrize("length", [SHORTEST_PASSWORD, 20])
def test_none_of_the_ten_thousand_commonest_passwords_is_taken_however_it_is_filled_up(length: int) -> None:
    common = common_passwords()
    assert len(common) >= 10_000
    assert {"123456", "password", "iloveyou", "qwerty123456", "telechargement"} <= common
    filled = [f"{password}{'90263715480263715480'[: max(length - len(password), 0)]}" for password in common]
    taken = []
    for password in filled:
        with suppress(InvalidPassword):
            taken.append(check_password(password.upper(), "minji"))
    # What remains has no letters, or is one of three characters: nobody finds it by this list.
    assert all(not re.search("[A-Z]", password) or password[3:] in "90263715480263715480" for password in taken)


def test_the_list_of_passwords_says_where_it_is_from_and_its_licence() -> None:
    text = files("sellerwatch.access").joinpath("common_passwords.txt").read_text("ascii")
    assert "# Copyright (c) Django Software Foundation" in text
    assert "Redistributions of source code must retain" in text
    assert max(map(len, common_passwords())) < 80
