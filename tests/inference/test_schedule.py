import numpy as np
import pytest

from alphamf.errors import AlphaMFError
from alphamf.inference.schedule import Polynomial, step_size_at


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


def test_repr_tells_schedules_apart():
    assert repr(Polynomial(0.1)) == "Polynomial(a=0.1, b=0.51)"
