"""Ids: UUIDv7 in canonical text, each kind its own type; the marketplace's own ids."""

from __future__ import annotations

import random
import uuid
from datetime import timedelta

import pytest
from tests.builders import NOW, StoppedClock, ids, rng

from sellerwatch.kernel.errors import Invalid
from sellerwatch.kernel.ids import (
    ExecutionId,
    Ids,
    InvalidId,
    InvalidItemNo,
    InvalidSellerId,
    ItemNo,
    OutboxId,
    ProductId,
    PublicId,
    ReplayableIds,
    ScheduleId,
    SellerId,
    TaskId,
    UserAgentId,
    WorkerId,
)

KINDS = [TaskId, UserAgentId, ProductId, OutboxId, ScheduleId, ExecutionId, WorkerId]
GOOD = "0198c0de-0000-7000-8000-000000000000"


def test_an_id_is_a_uuid_of_version_7() -> None:
    made = ids()
    for _ in range(500):
        read = uuid.UUID(made.new())
        assert read.version == 7
        assert read.variant == uuid.RFC_4122


def test_an_id_is_in_canonical_form() -> None:
    text = ids().new()
    assert text == str(uuid.UUID(text))


def test_an_id_begins_with_the_milliseconds_of_its_time() -> None:
    assert uuid.UUID(ids().new()).int >> 80 == int(NOW.timestamp() * 1000)


def test_ids_of_the_same_millisecond_rise_strictly() -> None:
    made = ids()
    many = [made.new() for _ in range(2000)]
    assert many == sorted(set(many))


class _AllOnes(random.Random):
    """The rarest rng: every bit is set, so that counting on runs over the edge at once."""

    def getrandbits(self, k: int, /) -> int:
        return (1 << k) - 1


def test_ids_stay_uuids_of_version_7_when_the_random_bits_run_over() -> None:
    made = Ids(StoppedClock(), _AllOnes(0))
    first, second = uuid.UUID(made.new()), uuid.UUID(made.new())
    assert second > first
    assert (second.version, second.variant) == (7, uuid.RFC_4122)


@pytest.mark.parametrize("seed", [_AllOnes(0), rng()])
def test_ids_made_together_are_uuids_that_rise_above_all_before(seed: random.Random) -> None:
    made = Ids(StoppedClock(), seed)
    many = [*made.some(3), made.new(), *made.some(40), made.new()]
    assert many == sorted(set(many))
    assert {(uuid.UUID(each).version, uuid.UUID(each).variant) for each in many} == {(7, uuid.RFC_4122)}


def test_ids_are_ordered_by_time() -> None:
    clock = StoppedClock()
    made = ids(clock=clock)
    many = []
    for _ in range(200):
        many.append(made.new())
        clock.time += timedelta(milliseconds=1)
    assert many == sorted(many)


def test_ids_rise_even_when_the_clock_is_set_back() -> None:
    clock = StoppedClock()
    made = ids(clock=clock)
    first = made.new()
    clock.time -= timedelta(hours=1)
    assert made.new() > first


def test_the_same_seed_gives_the_same_ids() -> None:
    one, other = ids(7), ids(7)
    assert [one.new() for _ in range(20)] == [other.new() for _ in range(20)]


def test_another_seed_gives_other_ids() -> None:
    assert ids(1).new() != ids(2).new()


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_plain_text_at_run_time_since_drivers_copy_anything_else(kind: type[PublicId]) -> None:
    assert type(kind.generate(ids())) is str


@pytest.mark.parametrize("kind", KINDS)
def test_an_id_is_read_from_its_text(kind: type[PublicId]) -> None:
    read = kind.parse(GOOD.upper())
    assert type(read) is str
    assert read == GOOD


@pytest.mark.parametrize(
    "text", ["", " ", "1", "x" * 36, GOOD + " ", "{" + GOOD + "}", "urn:uuid:" + GOOD, GOOD.replace("-", "")]
)
def test_what_is_no_canonical_uuid_is_no_id(text: str) -> None:
    with pytest.raises(InvalidId) as refusal:
        TaskId.parse(text)
    assert isinstance(refusal.value, Invalid)
    assert refusal.value.code == "INVALID_ID"
    assert refusal.value.facts == {"kind": "TaskId", "given": text}
    assert str(refusal.value).startswith(f"'{text}' is not a valid TaskId")


@pytest.mark.parametrize("text", ["seller_12345", "x", "셀러", "a b", "x" * 100])
def test_a_seller_id_is_any_text_that_is_not_blank(text: str) -> None:
    assert SellerId.parse(text) == text


def test_a_seller_id_is_trimmed() -> None:
    assert SellerId.parse("  seller_1\n") == "seller_1"


@pytest.mark.parametrize("text", ["", " ", "\t\n", "\u00a0", "x" * 101, "a\nb", "a\x00b"])
def test_a_blank_overlong_or_unprintable_seller_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidSellerId) as refusal:
        SellerId.parse(text)
    assert refusal.value.code == "INVALID_SELLER_ID"
    assert refusal.value.facts == {"given": text, "longest": 100}
    assert "1 to 100 letters, digits, dots, underscores or hyphens" in str(refusal.value)


@pytest.mark.parametrize("text", ["seller_12345", "x", "셀러-1.2", "Ünï_9", "x" * 100, "-a"])
def test_an_id_of_letters_digits_dots_underscores_and_hyphens_suits_a_new_seller(text: str) -> None:
    assert SellerId.parse_new(text) == text


@pytest.mark.parametrize("text", ["a b/c?&", "a b", "a/b", "..", ".", "_", "a'b", "a%2Fb", "셀러!", "a\u200bb"])
def test_an_id_with_other_characters_suits_no_new_seller(text: str) -> None:
    with pytest.raises(InvalidSellerId):
        SellerId.parse_new(text)


def test_a_refusal_does_not_repeat_an_endless_seller_id() -> None:
    with pytest.raises(InvalidSellerId) as refusal:
        SellerId.parse("x" * 10_000)
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize("number", [1, 900000001, 2**31, 2**63 - 1])
def test_an_item_number_is_a_positive_integer_of_up_to_64_bits(number: int) -> None:
    assert ItemNo.parse(number) == number
    assert type(ItemNo.parse(number)) is int


@pytest.mark.parametrize("value", [0, -1, 2**63, True, False, 1.0, "1", None, [1]])
def test_anything_else_is_no_item_number(value: object) -> None:
    with pytest.raises(InvalidItemNo) as refusal:
        ItemNo.parse(value)
    assert refusal.value.code == "INVALID_ITEM_NO"
    assert refusal.value.facts == {"given": str(value)}
    assert str(refusal.value) == f"An item number must be a positive whole number, not '{value}'."


def test_an_endless_item_number_is_refused_like_any_other() -> None:
    # Python refuses to write so many digits: the refusal itself must not fail.
    with pytest.raises(InvalidItemNo) as refusal:
        ItemNo.parse(10**5000)
    assert refusal.value.facts == {"given": "a number beyond 64 bits"}


def test_a_refusal_does_not_repeat_an_endless_id() -> None:
    with pytest.raises(InvalidId) as refusal:
        TaskId.parse("x" * 5000)
    assert refusal.value.given == "x" * 100


def test_luck_is_an_argument_of_the_ids() -> None:
    assert Ids(StoppedClock(), rng(3)).new() == ids(3).new()


def test_a_transaction_that_runs_again_draws_the_same_ids() -> None:
    made = ids()
    draw = ReplayableIds(made)
    first = draw.replay()
    three = [next(first) for _ in range(3)]
    again = draw.replay()
    five = [next(again) for _ in range(5)]
    assert five[:3] == three
    assert five == sorted(set(five))
    assert made.new() > five[-1]
