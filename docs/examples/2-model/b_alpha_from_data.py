"""
Alpha from data
===============

`log_density` gives the density of a spectrogram's cells with Phi integrated out, so different
alphas can be compared on the same data: first on draws whose alpha is known, then on speech and
on the noise of the sample.
"""

import matplotlib.pyplot as plt
import numpy as np
from sounds import sample

from alphamf.audio.stft import Frame, forward
from alphamf.factorization.likelihood import log_density
from alphamf.factorization.stable import symmetric_stable

ALPHAS = np.arange(6, 21, 2) / 10
SCALES = np.exp(np.linspace(-8, 4, 25))


def fit(power):
    """Return the best mean log density at each alpha; a row has one dispersion, its best."""
    power = power / np.median(power, axis=1, keepdims=True)
    best = []
    for alpha in ALPHAS:
        by_scale = [log_density(power, np.full_like(power, v), alpha).mean(1) for v in SCALES]
        best.append(np.max(by_scale, axis=0).mean())
    return np.array(best)


# %%
# Draws: the maximum is at the alpha that they were drawn with.
rng = np.random.default_rng(0)
figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
for alpha in (1.0, 1.6, 2.0):
    draws = np.abs(symmetric_stable(rng, alpha, (4, 500))) ** 2
    density = fit(draws)
    axes.plot(ALPHAS, density - density.max(), label=f"drawn with {alpha}")
axes.set(
    title="Draws", xlabel="alpha", ylabel="log density of a cell, less the best", ylim=(-0.5, 0.02)
)
axes.legend()

# %%
# Sound: each frequency has one dispersion for all times, so that alpha has to explain how the
# power changes. Speech changes most, and wants the smallest alpha.
clean, noisy, rate = sample()
fan = np.convolve(rng.standard_normal(len(clean)), np.ones(8) / 8, "same").astype(np.float32)
figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
for name, sound in {"speech": clean, "noise of the sample": noisy - clean, "steady": fan}.items():
    density = fit(np.abs(forward(sound, Frame(512, 256))[4:100:4]) ** 2 + 1e-9)
    axes.plot(ALPHAS, density - density.max(), label=f"{name}: {ALPHAS[density.argmax()]:.1f}")
axes.set(
    title="Sound", xlabel="alpha", ylabel="log density of a cell, less the best", ylim=(-1, 0.05)
)
axes.legend()
