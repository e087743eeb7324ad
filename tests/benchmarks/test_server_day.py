"""A small public server among hostile guests, kills and a full disk: half a minute of its day."""

import os

import pytest

pytest.importorskip("uvicorn", reason="the extra web is not installed")

from benchmarks.attacks.server_day import MEMORY, spend


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid(), reason="mounts a small disk")
def test_honest_guests_get_their_results_and_nothing_is_left(tmp_path):
    day = spend(tmp_path, seconds=20, seed=1)
    assert day.problems == [] and day.waits and day.hostile > 50
    assert day.answered == day.asked > 3
    assert max(held for _, held in day.memory) < MEMORY
