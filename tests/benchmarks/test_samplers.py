"""The comparison of samplers: which ones, what is measured of a short clip, and its table."""

from alphamf.denoising.settings import HYPERPARAMETERS
from benchmarks import samplers


def test_all_samplers_that_denoise_are_compared():
    found = list(samplers.names())
    variants = ("psgld-lagged", "naive-qn", "sghmc-splitting", "sghmc-baoab")
    assert set(found) == {name for name in HYPERPARAMETERS if "-em" not in name} - set(variants)
    assert samplers.EXACT in found
