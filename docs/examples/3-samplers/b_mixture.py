"""
A mixture
=========

Two hills with a valley between them. What matters is whether a chain finds the other hill: all
500 chains start on the left one, which holds a third of the mass.
"""

import matplotlib.pyplot as plt
import numpy as np

from alphamf import SAMPLERS
from alphamf.inference.chain import run

WEIGHTS, MEANS, DEVIATIONS = np.array([1 / 3, 2 / 3]), np.array([-2.0, 2.0]), np.array([0.7, 1.0])


class Mixture:
    """A mixture of two Gaussians on the line."""

    size, positive, latents = 1, False, {}

    def start(self, rng, chains=()):
        """Start on the left hill."""
        return rng.normal(MEANS[0], DEVIATIONS[0], (*chains, 1))

    def draw(self, rng, theta):
        """Return the potential: there is no minibatch."""
        return self

    def parts(self, theta):
        """Return the density of each hill, shape (*chains, 1, 2)."""
        z = (theta[..., None] - MEANS) / DEVIATIONS
        return WEIGHTS * np.exp(-(z**2) / 2) / DEVIATIONS / np.sqrt(2 * np.pi)

    def value(self, theta):
        """Return U."""
        return -np.log(self.parts(theta).sum(-1))[..., 0]

    def grad(self, theta):
        """Return the gradient."""
        parts = self.parts(theta)
        pull = (theta[..., None] - MEANS) / DEVIATIONS**2
        return (parts * pull).sum(-1) / parts.sum(-1)


runs = {
    "sgld": SAMPLERS["sgld"](0.02),
    "hmc": SAMPLERS["hmc"](0.3, leaps=5),
    "sghmc": SAMPLERS["sghmc"](0.2, friction=0.5),
    "sgnht": SAMPLERS["sgnht"](0.1),
}

# %%
# The proportion of chains on the right hill, step by step; a step of HMC has 6 gradients, one of
# SGHMC and SGNHT 10.
figure, (axes, histogram) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
line = np.linspace(-5, 6, 300)[:, None]
histogram.plot(line, Mixture().parts(line).sum(-1), color="black", label="exact")
for name, sampler in runs.items():
    right = []
    for state in run(Mixture(), sampler, steps=300, seed=0, chains=(500,)):
        right.append((state.theta > 0).mean())
    axes.plot(right, label=name)
    histogram.hist(state.theta[:, 0], 40, range=(-5, 6), density=True, histtype="step", label=name)
exact = Mixture().parts(np.linspace(0, 9, 2000)[:, None]).sum() * 9 / 2000
axes.axhline(exact, color="black")
axes.set(title="Chains on the right hill", xlabel="steps", ylim=(0, 1))
axes.legend()
histogram.set(title="After 300 steps")
histogram.legend()
