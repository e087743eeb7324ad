"""Small runs of the commands that make the tables, on made-up numbers."""

import sys

import numpy as np
import pytest

from alphamf.denoising.settings import HYPERPARAMETERS
from benchmarks import calibration, cost, evaluation, samplers, scored


def test_all_samplers_that_denoise_are_compared():
    found = list(samplers.names())
    variants = ("psgld-lagged", "naive-qn", "sghmc-splitting", "sghmc-baoab")
    assert set(found) == {name for name in HYPERPARAMETERS if "-em" not in name} - set(variants)
    assert samplers.EXACT in found


def test_calibrated_and_overconfident_variances():
    """Errors of the predicted variance lie on the line; of half of it, above it."""
    rng = np.random.default_rng(0)
    variance = rng.uniform(0.01, 0.1, (3, 20_000)) ** 2
    error = variance * rng.standard_normal(variance.shape) ** 2
    power = rng.uniform(0, 2, variance.shape)
    clips = [calibration.Cells(*x) for x in zip(variance, error, power, strict=True)]
    right = calibration.curve(clips)
    np.testing.assert_allclose(right.error, right.variance, rtol=0.1)
    assert len(right.correlations) == 3 and min(right.correlations) > 0.4
    half = calibration.curve([each._replace(variance=each.variance / 2) for each in clips])
    assert (half.error > 1.5 * half.variance).all()
    blind = calibration.curve([each._replace(variance=rng.permutation(v)) for each, v in zip(
        clips, variance, strict=True)])  # fmt: skip
    assert np.abs(blind.correlations).max() < 0.05
    assert calibration.table({"right": right})[1][-2:] == ["10", "10"]


def test_scores_of_an_evaluation_and_of_peers_are_grouped_and_compared(tmp_path, monkeypatch):
    monkeypatch.setattr(scored, "TABLES", tmp_path)
    head = "method,noisy,noise,snr,pause_depth,si_sdr,pesq_wb,estoi\n"
    (tmp_path / "results.csv").write_text(
        head + "fast,v1/a.wav,car,5,60,10,2.5,0.8\nfast,v2/b.wav,car,0,20,6,2,0.7\n"
    )
    (tmp_path / "peers.csv").write_text(
        head + "X,v1/a.wav,car,5,60,7,2,0.9\nX,c.wav,car,5,60,1,1,1\n"
    )
    evaluation.main(tmp_path, peers=tmp_path / "peers.csv", output="found.csv")
    found = scored.read("found.csv")
    assert found["all", "fast"]["SI-SDR dB"] == "8.00" and found["car", "fast"]["clips"] == "2"
    assert found["all", "fast"]["error of SI-SDR dB"] == "2.00"
    apart = found["pauses at least 50 dB down", "fast less X, own program"]
    assert (apart["SI-SDR dB"], apart["PESQ"], apart["ESTOI"]) == ("3.00", "0.500", "-0.100")
    assert found["v2", "fast"]["PESQ"] == "2.000" and ("c.wav", "X") not in found


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_every_part_makes_its_table(monkeypatch):
    monkeypatch.setattr(cost, "LENGTHS", (0.25, 0.5))
    monkeypatch.setattr(cost, "ROUNDS", 1)
    lines = []
    monkeypatch.setattr(cost, "publish", lambda name, table: lines.extend(table))
    cost.rates()
    assert lines[1][0] == "16 kHz mono" and lines[1][2] == "1.00" and len(lines) == 6
    rows = cost.start(rounds=1)[1:]
    rows += cost.length(minutes="0.02,0.04", channels="1,2", rate=8000, same=True)[1:]
    assert len(rows) == 6 and all(float(row[2]) > 0 for row in rows)
