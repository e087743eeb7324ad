"""The comparison of samplers: which ones, what is measured of a short clip, and its table."""

import soundfile

from alphamf.denoising.settings import HYPERPARAMETERS
from benchmarks import samplers
from benchmarks.clips import Clip
from tests.support.places import DATA


def test_all_samplers_that_denoise_are_compared():
    found = list(samplers.names())
    variants = ("psgld-lagged", "naive-qn", "sghmc-splitting", "sghmc-baoab")
    assert set(found) == {name for name in HYPERPARAMETERS if "-em" not in name} - set(variants)
    assert samplers.EXACT in found


def test_a_clip_has_a_row_of_each_and_its_distance(monkeypatch):
    short = samplers.PLAIN.__class__(
        steps=8, keep=4, warm_up=8, refine=False, learn_channel=False, noise_rank=2
    )
    monkeypatch.setattr(samplers, "PLAIN", short)
    monkeypatch.setattr(samplers, "names", lambda: iter(["sgld", "sgrld", "hmc-positive"]))
    sounds = (
        soundfile.read(DATA / f"sample-{kind}.wav", dtype="float32")[0]
        for kind in ("clean", "noisy")
    )
    sample = Clip("sample", 8000, *(sound[:16000:2] for sound in sounds))
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
    heads, first, *more = samplers.table([rows, rows])
    assert len(more) == len(rows) - 1 and {len(line) for line in more} == {len(heads)}
    assert first[0] == "noisy input" and first[2:] == ["-"] * 4
