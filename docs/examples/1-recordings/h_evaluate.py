"""
Compare two methods, with an interval
=====================================

Is ``fast`` better than logMMSE, a classical method, and by how much? Twelve noisy clips, the
difference clip by clip, and a bootstrap interval. For whole corpora there is a command:
:doc:`/guide/evaluation`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sounds import at_snr, sample

import alphamf
from alphamf.evaluation.baselines import logmmse
from alphamf.evaluation.baselines.base import Clip
from alphamf.evaluation.summary import Result, paired_difference, values
from alphamf.scores.score import si_sdr, stoi

clean, noisy, rate = sample(0.3, 2.0)
rng = np.random.default_rng(0)
white = rng.standard_normal(len(clean)).astype(np.float32)
noises = {"white": white, "brown": np.cumsum(white - white.mean()), "sample": noisy - clean}
results = []
for name, noise in noises.items():
    for snr in (-3, 0, 3, 6):
        mixture = at_snr(clean, noise, snr)
        outputs = {
            "logmmse": logmmse.denoise(Clip(mixture, rate, clean)),
            "fast": alphamf.denoise(mixture, rate, "fast").audio,
        }
        for method, audio in outputs.items():
            scores = {"si_sdr": si_sdr(clean, audio), "estoi": stoi(clean, audio, rate, True)}
            clip = f"{name}-{snr}"
            results.append(Result("", clip + method, method, clip, "", name, snr, 0, scores=scores))

# %%
for score in ("si_sdr", "estoi"):
    found = paired_difference(results, "fast", "logmmse", score)
    print(f"{score}: {found.mean:+.2f}, from {found.low:+.2f} to {found.high:+.2f}")

# %%
# Each line is a clip.
figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
both = [values([r for r in results if r.method == m], "si_sdr") for m in ("logmmse", "fast")]
axes.plot(["logMMSE", "fast"], both, "o-", color="C0", alpha=0.6)
axes.set(title="SI-SDR of twelve clips", ylabel="dB")
