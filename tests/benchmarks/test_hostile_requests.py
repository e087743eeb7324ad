"""Hostile requests to the page: fewer than the benchmark sends, of every kind."""

import pytest

pytest.importorskip("uvicorn", reason="the extra web is not installed")

from benchmarks.attacks.hostile_requests import ATTACKS, run


@pytest.mark.slow
def test_nothing_is_lost_read_left_or_told(tmp_path):
    answers, found = run(tmp_path, count=4 * len(ATTACKS), seed=2)
    assert found == []
    assert sum(answers.values()) == 4 * len(ATTACKS)
    assert not any(key.endswith(" 500") for key in answers)
    refused = {"paths 404", "origins 403", "kinds 405"}
    assert refused <= set(answers)
