"""
Replicas
========

A posterior with two modes, from data in minibatches: a hot chain finds both modes, and swaps with
the cold chain that samples them. The noise of the minibatches has to be taken out of the swaps.
"""

from math import inf

import matplotlib.pyplot as plt
import numpy as np

from alphamf.inference import SAMPLERS, DensityTarget, NumPyDensity, run

# %%
# Half of the data have mean :math:`\theta_1`, half :math:`\theta_1 + \theta_2`: a second mode has
# both groups change places.
rng = np.random.default_rng(1)
x = 2 * (rng.random(40) < 0.5) + 1.2 * rng.standard_normal(40)


def groups(theta, x):
    """Return the log density of the points in each group, shape (2, n)."""
    means = np.array([theta[0], theta[0] + theta[1]])[:, None]
    return -((x - means) ** 2) / (2 * 1.2**2)


def value(theta, x):
    """Return the log-likelihood of some points, up to a constant."""
    return np.logaddexp(*groups(theta, x)).sum()


def gradient(theta, x):
    """Return its gradient."""
    both = groups(theta, x)
    second = np.exp(both[1] - np.logaddexp(*both))
    pull = (x - theta[0] - second * theta[1]) / 1.2**2
    return np.array([pull.sum(), (second * (x - theta[0] - theta[1])).sum() / 1.2**2])


prior = NumPyDensity(
    lambda theta: -(theta - [1, 0]) / [10, 2],
    lambda theta: -((theta - [1, 0]) ** 2 / [20, 4]).sum(),
)
target = DensityTarget(NumPyDensity(gradient, value), np.zeros(2), data=x, batch=40, prior=prior)

# %%
# The exact share of the mode with :math:`\theta_2 > 0`, from a grid, and the deviation of
# :math:`\theta_2` in it.
line = np.linspace(-5, 5, 101)
grid = np.array([[[a, b] for a in np.linspace(-3, 5, 80)] for b in line])
density = np.array([[value(t, x) + prior.log_density(t) for t in row] for row in grid])
density = np.exp(density - density.max())
exact = density[51:].sum() / density.sum()
width = np.sqrt(np.cov(line[51:], aweights=density[51:].sum(1)))

# %%
# All chains start in this mode. Both forms of replica exchange find the other one. Without the
# correction hot positions with a lucky minibatch enter the cold chain, and spread it.
settings = {"temperature": 4.0, "hot_size": 4.0}
runs = {
    "SGLD": SAMPLERS["sgld"](5e-3),
    "replicas": SAMPLERS["resgld"](5e-3, **settings),
    "not corrected": SAMPLERS["resgld"](5e-3, **settings, factor=inf),
}
figure, panels = plt.subplots(1, 3, figsize=(10, 3.8), layout="constrained", sharey=True)
for axes, (name, sampler) in zip(panels, runs.items(), strict=True):
    start = np.tile([0.0, 2.0], (20, 1))
    states = run(target, sampler, steps=1000, seed=0, start=start)
    draws = np.concatenate([state.theta for state in states if state.step > 200])
    axes.contour(grid[0, :, 0], line, density, 6, colors="black", linewidths=0.6)
    axes.scatter(*draws[::10].T, s=3, alpha=0.3)
    above = draws[draws[:, 1] > 0, 1]
    share = f"{len(above) / len(draws):.2f} above (exact {exact:.2f})"
    axes.set(title=f"{name}: {share}\ndeviation {above.std():.2f} (exact {width:.2f})")
    axes.set(xlabel="theta 1", xlim=(-3, 5))
panels[0].set(ylabel="theta 2")
