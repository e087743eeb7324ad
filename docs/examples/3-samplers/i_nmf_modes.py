r"""
Modes of a factorization
========================

:math:`X = W H` plus noise: the columns of W may change places, so that the posterior has two equal
modes. Chains that all start in one of them should be in the other half of the time.
"""

import matplotlib.pyplot as plt
import numpy as np

from alphamf.inference import SAMPLERS, run
from alphamf.inference.schedule import Cyclical

# %%
# Two spectra of ten bins, with their peaks at bins 3 and 6, and a noise that leaves them visible.
rng = np.random.default_rng(0)
bins = np.arange(10)[:, None]
w, h = 1.7 * np.exp(-((bins - [3, 6]) ** 2) / 4), rng.exponential(1, (2, 10))
x = w @ h + 1.5 * rng.standard_normal((10, 10))


class Factors:
    """W and H, at least zero, with exponential priors; theta is both in one vector."""

    size, positive, latents = 40, True, {}

    def unpack(self, theta):
        """Return W and H."""
        w, h = np.split(theta, 2, -1)
        return w.reshape(*w.shape[:-1], 10, 2), h.reshape(*h.shape[:-1], 2, 10)

    def draw(self, rng, theta):
        """Return the target itself, which is its own potential."""
        return self

    def value(self, theta):
        """Return U."""
        w, h = self.unpack(theta)
        return ((w @ h - x) ** 2).sum((-1, -2)) / (2 * 1.5**2) + theta.sum(-1)

    def grad(self, theta):
        """Return the gradient of U."""
        w, h = self.unpack(theta)
        error = (w @ h - x) / 1.5**2
        parts = error @ np.swapaxes(h, -1, -2), np.swapaxes(w, -1, -2) @ error
        return np.concatenate([each.reshape(*theta.shape[:-1], -1) for each in parts], -1) + 1


# %%
# A hundred chains of each sampler, from the true factors. The hot chain must be warm enough to
# cross and cool enough to swap: in 40 dimensions T = 2 does both, and T = 4 hardly swaps. Replicas
# cost two gradients a step, so the others make twice as many steps.
target = Factors()
start = np.tile(np.concatenate([w.ravel(), h.ravel()]), (100, 1))
size = 0.0075
runs = {
    "SGLD": (SAMPLERS["sgld"](size), 2),
    "cyclical": (SAMPLERS["sgld"](Cyclical(10 * size, 1000)), 2),
    "replicas, T = 2": (SAMPLERS["resgld"](size, temperature=2.0), 1),
    "replicas, T = 4": (SAMPLERS["resgld"](size, temperature=4.0), 1),
}
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for name, (sampler, times) in runs.items():
    shares = []
    for state in run(target, sampler, steps=10_000 * times, seed=0, start=start):
        if state.step % (500 * times) == 0:
            spectra, _ = target.unpack(state.theta)
            first, second = np.moveaxis((spectra * bins).sum(-2) / spectra.sum(-2), -1, 0)
            shares.append((first > second).mean())
    axes.plot(np.arange(1, 21) * 1000, shares, label=name)
    print(f"{name}: {np.mean(shares[10:]):.2f} in the other mode")
axes.axhline(0.5, color="black", linestyle=":")
axes.set(xlabel="gradients", ylabel="share of chains in the other mode", ylim=(-0.02, 0.7))
axes.legend()
