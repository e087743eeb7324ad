"""Predicted and true errors of the gain, on made-up cells."""

import numpy as np

from benchmarks import calibration


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
