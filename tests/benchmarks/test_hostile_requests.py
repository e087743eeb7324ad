"""Hostile requests to the page, of every kind, and half a minute of a small public server's day."""

import os

import pytest

pytest.importorskip("uvicorn", reason="the extra web is not installed")

from benchmarks.attacks.hostile_requests import ATTACKS, run
from benchmarks.attacks.server_day import MEMORY, spend


@pytest.mark.slow
def test_nothing_is_lost_read_left_or_told(tmp_path):
    answers, found = run(tmp_path, count=4 * len(ATTACKS), seed=2)
    assert found == []
    assert sum(answers.values()) == 4 * len(ATTACKS)
    assert not any(key.endswith(" 500") for key in answers)
    refused = {"paths 404", "origins 403", "kinds 405"}
    assert refused <= set(answers)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid(), reason="mounts a small disk")
def test_honest_guests_get_their_results_and_nothing_is_left(tmp_path):
    day = spend(tmp_path, seconds=20, seed=1)
    assert day.problems == [] and day.waits and day.hostile > 50
    assert day.answered == day.asked > 3
    assert max(held for _, held in day.memory) < MEMORY
