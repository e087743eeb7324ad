"""Time of a step, to compare commits with: ``pytest benchmarks --benchmark-autosave``.

``--benchmark-compare`` then sets the next run beside the last one.
"""

from __future__ import annotations

import pytest

from alphamf.denoising.settings import HYPERPARAMETERS, kernel
from alphamf.research.speed import paper
from alphamf.research.speed.measure import stepper


@pytest.mark.parametrize("blocks", [1, paper.BLOCKS])
@pytest.mark.parametrize("name", sorted(HYPERPARAMETERS))
def test_step(benchmark, name, blocks):
    """Time ten steps."""
    step = stepper(paper.target(*paper.made_up(), blocks), kernel(name))
    benchmark.pedantic(step, args=(10,), rounds=50)
