"""The comparison of samplers: which ones, what is measured of a short clip, and its table."""

import numpy as np

from alphamf.denoising.settings import HYPERPARAMETERS
from benchmarks import samplers


def test_all_samplers_that_denoise_are_compared():
    found = list(samplers.names())
    variants = ("psgld-lagged", "naive-qn", "sghmc-splitting", "sghmc-baoab")
    assert set(found) == {name for name in HYPERPARAMETERS if "-em" not in name} - set(variants)
    assert samplers.EXACT in found


def test_a_clip_has_a_row_of_each_and_its_distance(monkeypatch, shared):
    monkeypatch.setenv("ALPHAMF_DATA", str(shared))
    short = samplers.PLAIN.__class__(
        steps=8, keep=4, warm_up=8, refine=False, learn_channel=False, noise_rank=2
    )
    monkeypatch.setattr(samplers, "PLAIN", short)
    monkeypatch.setattr(samplers, "names", lambda: iter(["sgld", "sgrld", "hmc-positive"]))
    (sample,) = samplers.sounds(0, 1.0)
    assert (sample.name, sample.rate, len(sample.noisy)) == ("sample", 8000, 8000)
    rows = samplers.measured(sample, 8)
    references = {"HMC again, shape 1", "HMC again, shape 0.1"}
    assert set(rows) == {"noisy input", "sgld", "sgrld", "hmc-positive", *references}
    for name, row in rows.items():
        if name != "noisy input":
            assert 0 < row["distance"] < 1 and row["seconds"] > 0
            assert (row["accepted"] is None) == (name in ("sgld", "sgrld"))
            assert ("equal" in row) == (name in ("sgld", "sgrld", "hmc-positive"))
    assert rows["hmc-positive"]["equal"] == rows["hmc-positive"]["distance"]
    assert rows["sgld"]["equal"] != rows["sgld"]["distance"]  # it had more steps
    lines = samplers.table([rows, rows]).splitlines()
    assert len(lines) == 2 + len(rows)
    assert lines[2].startswith("| noisy input |") and lines[2].endswith("| - | - | - | - |")
    assert np.char.count([line for line in lines], "|").min() == 7
