import math

import numpy as np
import pytest

from alphamf.errors import AlphaMFError
from alphamf.inference import SGLD, sample
from alphamf.inference.schedule import Cyclical, Polynomial, step_size_at


def test_number_is_constant_and_function_gets_the_index():
    assert step_size_at(0.5, 7) == 0.5
    assert step_size_at(lambda step: step + 1, 7) == 8


def test_polynomial_is_the_papers_step_size():
    # (a / t)^0.51 with t = 1 for the first step.
    assert step_size_at(Polynomial(1e-6), 0) == pytest.approx(1e-6**0.51)
    assert step_size_at(Polynomial(2.0, 0.7), 9) == pytest.approx(0.2**0.7)


def test_is_a_python_float_that_keeps_float32():
    size = step_size_at(lambda step: np.float64(0.1), 0)
    assert type(size) is float
    assert (np.ones(2, np.float32) * size).dtype == np.float32


@pytest.mark.parametrize("size", [0.0, -1e-3, float("nan"), float("inf")])
def test_refuses_what_is_not_a_positive_number(size):
    with pytest.raises(AlphaMFError, match=r"step_size must be .* not .* \(step 3\)"):
        step_size_at(size, 3)


@pytest.mark.parametrize("a", [0.0, -1e-3, float("nan"), float("inf")])
def test_polynomial_refuses_what_is_not_a_positive_number(a):
    with pytest.raises(AlphaMFError, match="a must be a positive number, not"):
        Polynomial(a)


class TwoModes:
    """Equal parts of N(-3, 1/4) and N(3, 1/4)."""

    size, positive = 1, False

    def __init__(self):
        self.latents: dict = {}

    def draw(self, rng, theta):
        return self

    def grad(self, theta):
        return 4 * (theta - 3 * np.tanh(12 * theta))


def test_cyclical_steps_meet_both_modes_and_sample_each():
    size = Cyclical(0.45, period=200, exploration=0.8)
    start = np.full((50, 1), 3.0)
    found = sample(TwoModes(), start, sampler=SGLD(size), steps=4000, burn_in=0)
    kept = found.draws[size.sampling(np.arange(4000))]
    assert kept.shape == (800, 50, 1)
    assert 0.4 < (kept > 0).mean() < 0.6
    # A step of .043 is the largest that samples have: 9 % too much variance at most.
    assert 0.95 < 4 * (np.abs(kept) - 3).var() < 1.1
    small = sample(TwoModes(), start, sampler=SGLD(0.043), steps=4000, burn_in=0).draws
    assert (small > 0).all()
    # Exploration itself is no sample of the law.
    explored = found.draws[~size.sampling(np.arange(4000))]
    assert 4 * (np.abs(explored) - 3).var() > 1.5


def test_cyclical_steps_are_eq_1_of_the_paper():
    size, total, cycles = Cyclical(0.2, period=25), 100, 4
    length = math.ceil(total / cycles)
    expected = [
        0.1 * (math.cos(math.pi * ((k - 1) % length) / length) + 1) for k in range(1, total + 1)
    ]
    np.testing.assert_allclose([size(step) for step in range(total)], expected)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"a": 0.0}, "a must be a positive number, not 0.0"),
        ({"period": 1}, "period must be at least 2, not 1"),
        ({"exploration": 1.0}, "exploration must be from 0 to below 1, not 1.0"),
    ],
)
def test_cyclical_refuses_numbers_out_of_range(given, sentence):
    with pytest.raises(AlphaMFError, match=sentence):
        Cyclical(**{"a": 0.1, "period": 10, **given})
