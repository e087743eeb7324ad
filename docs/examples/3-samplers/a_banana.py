"""
A banana
========

A posterior that is curved and narrow, and five samplers on it, each with 200 chains. Black lines
are the true density. A target needs little: its size, where to start, and a potential with a
gradient.
"""

import matplotlib.pyplot as plt
import numpy as np

from alphamf import SAMPLERS
from alphamf.inference.chain import run


class Banana:
    """U = x^2 / 2 + (y - x^2)^2 / (2 s^2)."""

    size, positive, latents = 2, False, {}
    width = 0.3

    def start(self, rng, chains=()):
        """Draw around the middle."""
        return 0.5 * rng.standard_normal((*chains, 2))

    def draw(self, rng, theta):
        """Return the potential: there is no minibatch."""
        return self

    def value(self, theta):
        """Return U."""
        x, y = theta[..., 0], theta[..., 1]
        return x**2 / 2 + (y - x**2) ** 2 / (2 * self.width**2)

    def grad(self, theta):
        """Return the gradient."""
        x, y = theta[..., 0], theta[..., 1]
        pull = (y - x**2) / self.width**2
        return np.stack([x - 2 * x * pull, pull], axis=-1)


runs = {
    "sgld": SAMPLERS["sgld"](0.004),
    "psgld": SAMPLERS["psgld"](0.03, damping=1.0),
    "hamcmc": SAMPLERS["hamcmc"](0.02, memory=5, gamma=0.05, trust=30.0),
    "hmc": SAMPLERS["hmc"](0.1, leaps=10),
    "sghmc": SAMPLERS["sghmc"](0.05, friction=1.0),
}

# %%
x, y = np.meshgrid(np.linspace(-3, 3, 200), np.linspace(-1.5, 6, 200))
density = np.exp(-Banana().value(np.stack([x, y], axis=-1)))
figure, panels = plt.subplots(1, 5, figsize=(11, 2.8), sharey=True, layout="constrained")
for axes, (name, sampler) in zip(panels, runs.items(), strict=True):
    *_, last = run(Banana(), sampler, steps=600, seed=0, chains=(200,))
    axes.plot(*last.theta.T, ".", markersize=3)
    axes.contour(x, y, density, levels=[0.1, 0.5], colors="black", linewidths=0.6)
    axes.set(title=f"{name}: E y = {last.theta[:, 1].mean():.2f}", xlim=(-3, 3), ylim=(-1.5, 6))

# %%
# E y is 1. HMC and SGHMC have walked through all of it; SGLD's small steps have not reached the
# ends after 600 steps. HAMCMC keeps to the bottom, because its curvature varies: where it does, a
# bias stays (:doc:`/samplers`). PSGLD comes close in this number, but its law is another one at any
# step size (:doc:`/theory/samplers`).
