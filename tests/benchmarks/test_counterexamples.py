"""The counterexamples to the papers' theorems: each command shows what its page says."""

import re

import pytest

from benchmarks import checks


@pytest.mark.slow
def test_only_hamcmc_is_biased_at_all_steps():
    sgld, two, three = checks.hamcmc()[1:]
    assert sgld[-1] == "passed"
    for row in (two, three):
        assert row[-1] == "**failed**"
        assert all(float(re.match(r"[+-][\d.]+", cell)[0]) < -2 for cell in row[1:-1])


@pytest.mark.slow
def test_only_positions_teach_a_mass():
    _, momenta, positions = checks.momenta()[1:]
    assert abs(float(momenta[1].split()[0])) < 0.05
    assert float(positions[1].split()[0]) > 0.95
    assert float(positions[2]) > 50 * float(momenta[2])


@pytest.mark.slow
def test_only_a_c_that_learns_for_ever_has_another_law():
    verdicts = [row[-1] for row in checks.qnhmc()[1:]]
    assert verdicts == ["**failed**", "passed", "passed"]
