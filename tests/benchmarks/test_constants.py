"""The driver that changes the experiments' numbers: which ones, into what, and what is seen."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks import constants


@pytest.mark.parametrize(
    ("value", "others"),
    [
        (10, [11]),
        (0.5, [0.55]),
        (0.0, [0.1]),
        ("-2/3", ["-3/3", "-2/4"]),
        (".0501, 36 s", [".0502, 36 s", ".0501, 37 s"]),
        ("bias 1e-2", ["bias 2e-2", "bias 1e-3"]),
        ("HAMCMC, M = 2", []),
        (True, []),
        (None, []),
    ],
)
def test_each_number_of_a_value_is_changed(value, others):
    assert list(constants.changed(value)) == pytest.approx(others)


def test_numbers_at_module_level_are_found_with_their_keys(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "FOLDER", tmp_path)
    file = tmp_path / "a.py"
    file.write_text("STEPS, RUNS = 2, 3\nTABLE: dict = {'x': {'h': 0.5}, 4: (f(7),)}\ndef g(): 9\n")
    found = list(constants.mutants(file))
    assert [(mutant.name, mutant.before) for mutant in found] == [
        ("a.py:STEPS, RUNS", 2),
        ("a.py:STEPS, RUNS", 3),
        ("a.py:TABLE['x']['h']", 0.5),
        ("a.py:TABLE", 4),
        ("a.py:TABLE[4]", 7),
    ]
    assert "RUNS = (2, 4)" in found[1].code
    assert "f(8)" in found[-1].code and "RUNS = (2, 3)" in found[-1].code


def test_every_name_of_our_own_is_there_and_has_a_reason():
    files = sorted(constants.FOLDER.glob("*/*.py"))
    names = [mutant.name for file in files for mutant in constants.mutants(file)]
    for own, reason in constants.OWN.items():
        assert any(name == own or name.startswith(f"{own}[") for name in names), own
        assert len(reason) > 8, own


def test_a_changed_number_is_caught_and_one_without_a_test_is_not():
    code = (
        "from benchmarks import constants as c;"
        "print([(m.before, c.is_caught(m)) for m in c.mutants(c.FOLDER / 'richardson/laws.py')])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=constants.ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[(10.0, True), (1000, True), (20.0, False)]"
