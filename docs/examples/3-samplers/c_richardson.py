"""
Richardson-Romberg
==================

SGLD's estimates are wrong by an amount that is proportional to its step size h. Two chains at h
and at h / 2 on the same noise cancel that: what is left is proportional to h squared.
"""

import matplotlib.pyplot as plt
import numpy as np

from alphamf import SAMPLERS
from alphamf.inference.chain import run
from alphamf.inference.records import Extrapolated, Mean


class Logistic:
    """U = 2 log cosh x: the logistic law, whose E x^2 is pi^2 / 12."""

    size, positive, latents = 1, False, {}

    def start(self, rng, chains=()):
        """Draw near the middle."""
        return 0.5 * rng.standard_normal((*chains, 1))

    def draw(self, rng, theta):
        """Return the potential: there is no minibatch."""
        return self

    def grad(self, theta):
        """Return the gradient."""
        return 2 * np.tanh(theta)


def square(theta, target):
    """Return the statistic."""
    return theta[..., 0] ** 2


EXACT = np.pi**2 / 12
STEPS = [0.1, 0.2, 0.4]
bias = {"sgld": [], "sgrrld": []}
for h in STEPS:
    steps = int(60 / h)
    for name in bias:
        kept = {"burn_in": int(10 / h)}
        record = Extrapolated(square, **kept) if name == "sgrrld" else Mean(square, **kept)
        for _ in run(
            Logistic(), SAMPLERS[name](h), steps=steps, seed=1, chains=(2000,), record=record
        ):
            pass
        bias[name].append(abs(float(record.mean) - EXACT))
        print(f"{name:6} h = {h:<4}: off by {100 * bias[name][-1] / EXACT:.2f} %")

# %%
figure, axes = plt.subplots(figsize=(5, 3.8), layout="constrained")
for name, values in bias.items():
    axes.loglog(STEPS, values, "o-", label=name)
axes.loglog(STEPS, 0.6 * np.array(STEPS), color="grey", linestyle=":", label="slope 1")
axes.loglog(STEPS, 0.5 * np.array(STEPS) ** 2, color="grey", linestyle="--", label="slope 2")
axes.set(title="Bias of E x²", xlabel="h", ylabel="bias")
axes.legend()
