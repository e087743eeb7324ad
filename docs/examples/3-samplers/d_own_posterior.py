"""
Bring your own posterior
========================

A regression whose noise has heavy tails, on 5000 points of which each step reads 50. The target
is a class of a screen; everything else is there.
"""

import matplotlib.pyplot as plt
import numpy as np

from alphamf import SAMPLERS
from alphamf.inference.chain import run
from alphamf.inference.diagnostics import summarise
from alphamf.inference.records import Trace


class Robust:
    """Weights of a regression with Student's t noise of 3 degrees of freedom."""

    positive, latents = False, {}
    freedom = 3

    def __init__(self, a, x, batch):
        self.a, self.x, self.batch = a, x, batch
        self.size = a.shape[1]

    def start(self, rng, chains=()):
        """Draw from the prior."""
        return rng.standard_normal((*chains, self.size))

    def draw(self, rng, theta):
        """Draw a minibatch."""
        chosen = rng.integers(len(self.x), size=self.batch)
        return Minibatch(self, self.a[chosen], self.x[chosen])


class Minibatch:
    """The potential of a minibatch, its likelihood scaled up to all data."""

    def __init__(self, target, a, x):
        self.target, self.a, self.x = target, a, x

    def grad(self, theta):
        """Return the gradient, shape (*chains, D)."""
        residual = theta @ self.a.T - self.x
        n = self.target.freedom
        pull = (n + 1) * residual / (n + residual**2)
        return theta + len(self.target.x) / len(self.x) * pull @ self.a


rng = np.random.default_rng(0)
truth = np.array([1.0, -2.0, 0.5])
a = rng.standard_normal((5000, 3))
target = Robust(a, a @ truth + rng.standard_t(3, 5000), batch=50)

# %%
# Four chains from different places. R-hat near 1 says that they agree.
record = Trace(lambda theta, target: theta, burn_in=500)
for _ in run(target, SAMPLERS["sgld"](2e-5), steps=4500, seed=0, chains=(4,), record=record):
    pass
found = summarise(record.values)
print("truth", truth)
print("mean ", found.mean.round(3))
print("std  ", found.std.round(3))
print("ESS  ", found.ess.round())
print("R-hat", found.rhat.round(3))

# %%
figure, panels = plt.subplots(3, 1, figsize=(8, 4.5), sharex=True, layout="constrained")
for k, axes in enumerate(panels):
    axes.plot(record.values[:, :, k], linewidth=0.4)
    axes.axhline(truth[k], color="black")
    axes.set_ylabel(f"weight {k}")
panels[0].set_title("Four chains; black: the truth")
panels[-1].set_xlabel("steps")
