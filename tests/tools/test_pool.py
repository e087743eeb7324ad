"""Work in parallel processes: order, failures, a killed worker."""

from __future__ import annotations

import os
import time

import pytest

from alphamf.errors import AlphaMFError
from alphamf.tools import pool
from tests.support.tasks import half


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failure_is_an_outcome_in_its_place(workers):
    outcomes = list(pool.each(half, [4, 5, 6], workers=workers))
    assert [outcome.result for outcome in outcomes] == [2, None, 3]
    assert [(outcome.error, outcome.code) for outcome in outcomes] == [
        (None, 0),
        ("5 is odd", 2),
        (None, 0),
    ]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
def test_a_killed_worker_is_an_error():
    outcomes = list(pool.each(half, [13, 13], workers=2))
    assert {outcome.code for outcome in outcomes} == {1}
    assert "its process was killed" in outcomes[0].error


def identity(item: int, update: object) -> int:
    """Wait for longer for the first item."""
    time.sleep(0.5 * (item == 0))
    return item


@pytest.mark.slow
def test_outcomes_come_as_soon_as_they_are_there():
    outcomes = pool.each(identity, range(3), workers=2, in_order=False)
    assert [outcome.result for outcome in outcomes] == [1, 2, 0]


def inverse(item: int) -> float:
    """Invert a number; 3 is refused."""
    if item == 3:
        raise AlphaMFError("3 is refused")
    return 1 / item


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_results_come_in_order_and_the_first_error_is_raised(workers):
    assert list(pool.results(inverse, [1, 2, 4], workers=workers)) == [1, 0.5, 0.25]
    with pytest.raises(AlphaMFError, match="3 is refused"):
        list(pool.results(inverse, [1, 3, 4], workers=workers))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        list(pool.results(inverse, [0, 1], workers=workers))
