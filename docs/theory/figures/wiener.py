"""The posterior mean of the gain, by how loud a cell is."""

import matplotlib.pyplot as plt
import numpy as np

from alphamf.factorization.stable import positive_stable

rng = np.random.default_rng(0)
power = np.geomspace(0.03, 1000, 60)[:, None]
figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
for speech, noise in ((2.0, 2.0), (1.0, 2.0), (1.0, 1.8), (2.0, 1.2)):
    s, n = (positive_stable(rng, alpha, np.empty(20_000)) for alpha in (speech, noise))
    weight = np.exp(-power / (s + n)) / (s + n)  # of each draw of Phi, given |X|^2
    gain = (weight * s / (s + n)).sum(1) / weight.sum(1)
    axes.semilogx(power, gain, label=f"alpha = {speech} for speech, {noise} for noise")
axes.set(xlabel="|X|² where both sources have dispersion 1", ylabel="gain", ylim=(0, 1))
axes.legend()
