"""SGLD and HAMCMC on a narrow Gaussian, the first 400 steps."""

import matplotlib.pyplot as plt
import numpy as np

from alphamf.inference.chain import run
from alphamf.inference.samplers.hamcmc import HAMCMC
from alphamf.inference.samplers.langevin import SGLD
from alphamf.inference.targets.gaussian import LinearGaussian

a = np.random.default_rng(0).standard_normal((200, 2)) @ [[1.0, 0.95], [0.0, 0.15]]
target = LinearGaussian(a, a @ [1.0, 1.0], 1.0)
angle = np.linspace(0, 2 * np.pi, 100)
root = np.linalg.cholesky(target.covariance)
ring = target.mean + 2 * np.stack([np.cos(angle), np.sin(angle)], axis=1) @ root.T
figure, panels = plt.subplots(
    1, 2, figsize=(8, 3.6), sharex=True, sharey=True, layout="constrained"
)
samplers = {"SGLD": SGLD(5e-4), "HAMCMC": HAMCMC(0.1, memory=3, gamma=5e-3)}
for axes, (name, sampler) in zip(panels, samplers.items(), strict=True):
    states = run(target, sampler, steps=400, seed=0, start=target.mean.copy())
    path = np.array([state.theta for state in states])
    axes.plot(*path.T, ".", markersize=3)
    axes.plot(*ring.T, color="black", linewidth=0.8)
    axes.set_title(name)
