"""The counterexamples to the papers' theorems: each command shows what its page says."""

import re

import pytest

from benchmarks import counterexamples


def rows(part):
    """Return the cells of the table of a part without the headings."""
    table = counterexamples.PARTS[part]().splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


@pytest.mark.slow
def test_only_hamcmc_is_biased_at_all_steps():
    sgld, two, three = rows("hamcmc")
    assert sgld[-1] == "passed"
    for row in (two, three):
        assert row[-1] == "**failed**"
        assert all(float(re.match(r"[+-][\d.]+", cell)[0]) < -2 for cell in row[1:-1])


@pytest.mark.slow
def test_only_positions_teach_a_mass():
    _, momenta, positions = rows("momenta")
    assert abs(float(momenta[1].split()[0])) < 0.05
    assert float(positions[1].split()[0]) > 0.95
    assert float(positions[2]) > 50 * float(momenta[2])


@pytest.mark.slow
def test_only_a_c_that_learns_for_ever_has_another_law():
    verdicts = [row[-1] for row in rows("qnhmc")]
    assert verdicts == ["**failed**", "passed", "passed"]
