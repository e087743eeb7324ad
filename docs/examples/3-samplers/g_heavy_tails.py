"""
Heavy tails
===========

How long does a chain take from the middle of a heavy-tailed law to its tails? Here the Cauchy law:
3 % of it lies beyond 20. 2000 chains start at 0.
"""

from math import gamma

import matplotlib.pyplot as plt
import numpy as np

from alphamf.inference import SAMPLERS, run


class Cauchy:
    """The Cauchy law: target and potential in one."""

    size, positive, latents = 1, False, {}

    def draw(self, rng, theta):
        """Return the potential: there is no minibatch."""
        return self

    def grad(self, theta):
        """Return the gradient."""
        return 2 * theta / (1 + theta**2)

    def fractional_drift(self, theta, alpha):
        """Return the drift of FLA, which has a closed form here."""
        angle = np.sin(alpha * np.arctan(theta))
        return -gamma(alpha) * angle * (1 + theta**2) ** (1 - alpha / 2)


runs = {
    "sgld": SAMPLERS["sgld"](0.05),
    "sghmc": SAMPLERS["sghmc"](0.2, leaps=1, friction=0.2),
    "fla": SAMPLERS["fla"](0.05, alpha=1.5),
    "fuld": SAMPLERS["fuld"](0.2, alpha=1.5, leaps=1, friction=0.2),
}

# %%
# Left, the proportion of chains beyond 20, step by step; all take one gradient per step. Normal
# noise has to walk there: it takes a time of the square of the distance. FLA jumps, here with an
# index of 1.5. FULD's noise jumps as well, but its momenta move the chain the less the larger they
# are.
#
# Right, the tail after 1000 steps. FLA has that of the law, but for its farthest part.
figure, (axes, tails) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
line = np.geomspace(1, 1e4, 60)
for name, sampler in runs.items():
    beyond = []
    for state in run(Cauchy(), sampler, steps=1000, seed=0, start=np.zeros((2000, 1))):
        beyond.append((np.abs(state.theta) > 20).mean())
    axes.plot(beyond, label=name)
    tails.plot(line, [(np.abs(state.theta) > x).mean() for x in line], label=name)
exact = 1 - 2 / np.pi * np.arctan(line)
axes.axhline(1 - 2 / np.pi * np.arctan(20), color="black", label="exact")
axes.set(title="Chains beyond 20", xlabel="steps")
axes.legend()
tails.plot(line, exact, color="black", label="exact")
tails.set(title="Chains beyond x", xlabel="x", xscale="log", yscale="log", ylim=(3e-4, 1))
