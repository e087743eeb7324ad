"""
Bring your own posterior
========================

A regression whose noise has heavy tails, on 5000 points of which each step reads 50. The posterior
is two functions.
"""

import matplotlib.pyplot as plt
import numpy as np

from alphamf.inference import SGLD, sample


def likelihood(theta, a, x):
    """Return the gradient of the log-likelihood: Student's t noise of 3 degrees of freedom."""
    residual = x - a @ theta
    return (4 * residual / (3 + residual**2)) @ a


def prior(theta):
    """Return the gradient of the prior's log density: standard normal weights."""
    return -theta


rng = np.random.default_rng(0)
truth = np.array([1.0, -2.0, 0.5])
a = rng.standard_normal((5000, 3))
x = a @ truth + rng.standard_t(3, 5000)

# %%
# Four chains from different places. R-hat near 1 says that they agree.
run = sample(
    likelihood,
    rng.standard_normal((4, 3)),
    data=(a, x),
    batch=50,
    prior=prior,
    sampler=SGLD(2e-5),
    steps=4500,
    burn_in=500,
)
found = run.summary()
print("truth", truth)
print("mean ", found.mean.round(3))
print("std  ", found.std.round(3))
print("ESS  ", found.ess.round())
print("R-hat", found.rhat.round(3))

# %%
figure, panels = plt.subplots(3, 1, figsize=(8, 4.5), sharex=True, layout="constrained")
for k, axes in enumerate(panels):
    axes.plot(run.draws[:, :, k], linewidth=0.4)
    axes.axhline(truth[k], color="black")
    axes.set_ylabel(f"weight {k}")
panels[0].set_title("Four chains; black: the truth")
panels[-1].set_xlabel("steps")
