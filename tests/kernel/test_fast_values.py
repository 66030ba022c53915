from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest

from sellerwatch.kernel.fast_values import fast_frozen


@dataclass(frozen=True, slots=True)
class Guarded:
    number: int
    text: str = "same"
    many: list[int] = field(default_factory=list)


@fast_frozen
@dataclass(frozen=True, slots=True)
class Fast:
    number: int
    text: str = "same"
    many: list[int] = field(default_factory=list)


def test_a_fast_value_is_made_compared_and_copied_like_a_guarded_one() -> None:
    fast, guarded = Fast(1), Guarded(1)
    assert repr(fast) == repr(guarded).replace("Guarded", "Fast")
    assert fast == Fast(number=1, text="same") != Fast(2)
    assert fast.many is not Fast(1).many
    assert replace(fast, number=2) == Fast(2)
    with pytest.raises(TypeError):
        Fast()  # type: ignore[call-arg]


def test_a_fast_value_still_does_what_it_does_when_made() -> None:
    @fast_frozen
    @dataclass(frozen=True, slots=True)
    class Careful:
        number: int

        def __post_init__(self) -> None:
            if self.number < 0:
                raise ValueError("below 0")

    assert Careful(1).number == 1
    with pytest.raises(ValueError, match="below 0"):
        Careful(-1)


def test_no_field_of_a_fast_value_can_be_set_under_tests() -> None:
    with pytest.raises(FrozenInstanceError):
        Fast(1).number = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del Fast(1).number
