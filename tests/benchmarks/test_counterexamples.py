"""The counterexamples to the papers' theorems: each command shows what its page says."""

import re
import sys

import pytest

from benchmarks import counterexamples


def rows(part, monkeypatch, capsys):
    """Run a part as a command, and return the cells of its table without the headings."""
    monkeypatch.setattr(sys, "argv", ["counterexamples", part])
    counterexamples.main()
    table = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


@pytest.mark.slow
def test_only_hamcmc_is_biased_at_all_steps(monkeypatch, capsys):
    sgld, two, three = rows("hamcmc", monkeypatch, capsys)
    assert sgld[-1] == "passed"
    for row in (two, three):
        assert row[-1] == "**failed**"
        assert all(float(re.match(r"[+-][\d.]+", cell)[0]) < -2 for cell in row[1:-1])


@pytest.mark.slow
def test_only_positions_teach_a_mass(monkeypatch, capsys):
    _, momenta, positions = rows("momenta", monkeypatch, capsys)
    assert abs(float(momenta[1].split()[0])) < 0.05
    assert float(positions[1].split()[0]) > 0.95
    assert float(positions[2]) > 50 * float(momenta[2])


@pytest.mark.slow
def test_only_a_c_that_learns_for_ever_has_another_law(monkeypatch, capsys):
    verdicts = [row[-1] for row in rows("qnhmc", monkeypatch, capsys)]
    assert verdicts == ["**failed**", "passed", "passed"]
