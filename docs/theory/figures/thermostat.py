"""Gradient noise heats SGHMC, and a thermostat takes the heat away."""

import matplotlib.pyplot as plt
import numpy as np

from alphamf.inference.chain import run
from alphamf.inference.records import Mean
from alphamf.inference.samplers.sghmc import SGHMC, SGNHT


class Noisy:
    """A standard normal law whose gradient comes with noise of a variance."""

    size, positive, latents = 1, False, {}

    def __init__(self, variance):
        self.variance = variance

    def start(self, rng, chains=()):
        """Draw from the law."""
        return rng.standard_normal((*chains, 1))

    def draw(self, rng, theta):
        """Draw the noise, and return the potential."""
        self.noise = self.variance**0.5 * rng.standard_normal(theta.shape)
        return self

    def grad(self, theta):
        """Return the gradient with this noise."""
        return theta + self.noise


H, LEAPS = 0.05, 5
levels = np.array([0.0, 10.0, 20.0, 40.0])
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
for name, sampler in {"SGHMC": SGHMC(H, LEAPS), "SGNHT": SGNHT(H, LEAPS)}.items():
    found = []
    for level in levels:
        record = Mean(lambda theta, target: theta**2, burn_in=100)
        for _ in run(Noisy(level), sampler, steps=250, seed=0, chains=(1000,), record=record):
            pass
        found.append(record.mean[0])
    axes.plot(levels, found, "o", label=name)
axes.plot(levels, 1 + H * levels / 2, color="C0", label="1 + hv / (2C), C = 1")
axes.axhline(1, color="grey", linestyle=":", label="posterior")
axes.set(xlabel="variance v of the gradient's noise", ylabel="variance of θ")
axes.legend()
