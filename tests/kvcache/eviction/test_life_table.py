"""Counting visits and returns by age. A pool of 64 blocks: steps begin at the ages 0, 1, 1.4, 2, 2.8, 4 and so on."""

import pytest

from anaphora.kvcache.eviction import life_table
from anaphora.kvcache.eviction.life_table import NUM_STEPS, LifeTable
from anaphora.kvcache.eviction.return_rates import ReturnRates
from anaphora.kvcache.eviction.visit import NUM_KINDS, Visit, visits

KIND = 3


def visit(left_at: int, num_blocks: int = 1, kind: int = KIND) -> Visit:
    made = Visit(1, kind)
    made.left_at, made.num_blocks, made.num_left = left_at, num_blocks, num_blocks
    return made


def test_steps_are_half_octaves_from_a_64th_of_the_pool_to_16_pools() -> None:
    table = LifeTable(64)
    assert [table.step(age) for age in (0, 1, 2, 3, 4, 8, 64, 1023, 1024, 10**9)] == [0, 1, 3, 4, 5, 7, 13, 20, 20, 20]
    assert table.edges[20] == pytest.approx(2**9.5)


def test_a_visit_enters_each_step_that_it_reaches_with_what_nobody_has_come_back_for() -> None:
    table = LifeTable(64)
    first = visit(0, num_blocks=4)
    table.count_visit(first, 0)
    assert table.entered[KIND][:3] == [1, 0, 0]
    table.count_visit(visit(1), 1)
    assert table.entered[KIND][:3] == [2, 1, 0]
    table.count_return(first, 1, 1)
    assert table.returned[KIND][:3] == [0, 0.25, 0]
    table.count_visit(visit(2), 2)
    assert table.entered[KIND][:5] == [3, 2, 0.75, 0.75, 0]
    table.count_return(first, 3, 2)
    table.count_visit(visit(50), 50)
    assert table.entered[KIND][:5] == [4, 3, 2.75, 2.75, 2]
    assert sum(table.returned[KIND]) == 1


def test_the_last_step_has_no_end() -> None:
    table = LifeTable(64)
    table.count_visit(visit(0), 0)
    table.count_visit(visit(10**6), 10**6)
    assert table.entered[KIND] == [2] + [1] * (NUM_STEPS - 1)


def test_after_a_half_life_what_was_counted_counts_half(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life_table, "HALF_LIFE", 2)
    table = LifeTable(64)
    first = visit(0)
    table.count_visit(first, 0)
    table.count_return(first, 1, 0)
    table.count_visit(visit(0), 0)
    assert (table.entered[KIND][0], table.returned[KIND][0]) == (1, 0.5)


def test_without_any_returns_no_kind_is_worth_more_than_another() -> None:
    rates = ReturnRates(LifeTable(64), 64)
    assert all(rates[kind] == rates[0] for kind in range(NUM_KINDS))


def test_rates_follow_what_was_seen_and_never_rise_with_age() -> None:
    table = LifeTable(64)
    for number in range(400):
        for kind, divisor in ((1, 2), (2, 10)):
            one = visit(number * 4, kind=kind)
            table.count_visit(one, number * 4)
            if number % divisor == 0:
                table.count_return(one, 1, number * 4 + 2)
    rates = ReturnRates(table, 64)
    assert rates[1][0] > 3 * rates[2][0] > 0
    assert rates[1][0] > rates[5][0] > rates[2][0]  # of kind 5 nothing is known: it is taken as average
    table.count_return(visit(0, kind=2), 1, 2)  # what happens later makes no difference
    for curve in (rates[kind] for kind in range(NUM_KINDS)):
        assert curve == sorted(curve, reverse=True)
        assert curve[-1] == 0


@pytest.mark.parametrize(
    ("turn", "num_found", "num_added", "num_answer_tokens", "kinds"),
    [
        (1, 0, 1, 64, (25, 1)),
        (2, 10, 5, 64, (24, 3)),
        (2, 10, 6, 64, (25, 3)),
        (2, 0, 10**6, 64, (25, 15)),
        (3, 10, 5, 64, (26, 17)),
        (5, 10, 10**6, 64, (31, 23)),
        (99, 10, 0, 63, (62, 48)),
    ],
)
def test_kinds(turn: int, num_found: int, num_added: int, num_answer_tokens: int, kinds: tuple[int, int]) -> None:
    found, added = visits(turn, num_found, num_added, num_answer_tokens)
    assert (found.kind, added.kind) == kinds
