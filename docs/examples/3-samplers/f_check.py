"""
Check a sampler
===============

``check`` starts chains from exact draws of a law, runs them at three step sizes, and looks at how
the bias falls. Here on exp(-r⁴/4) in the plane, r being the
distance from zero: its curvature varies.
"""

import matplotlib.pyplot as plt
import numpy as np

from alphamf.inference import HAMCMC, SGLD, check


class Quartic:
    """U = r⁴/4, r being the distance from zero: target and potential in one."""

    size, positive, latents = 2, False, {}

    def exact(self, rng, count):
        """Draw from the law: r⁴/2 is chi-square with one degree of freedom."""
        radius = (2 * rng.standard_normal((count, 1)) ** 2) ** 0.25
        angle = 2 * np.pi * rng.random((count, 1))
        return radius * np.concatenate([np.cos(angle), np.sin(angle)], 1)

    def draw(self, rng, theta):
        """Return the target: there are no data."""
        return self

    def grad(self, theta):
        """Return the gradient, shape (*chains, 2)."""
        return (theta**2).sum(-1, keepdims=True) * theta


# %%
# SGLD's bias falls with the step size. That of HAMCMC with two chains in turn does not, though
# theorem 1 of its paper says so: see `What the papers do not say`.
reports = {
    "SGLD": check(SGLD(0.1), Quartic(), chains=20_000),
    "HAMCMC, M = 2": check(HAMCMC(0.1, 2, gamma=1.0, trust=1.0), Quartic(), chains=10_000),
}
for report in reports.values():
    print(report)

# %%
# The bias of the second coordinate's variance. ``report.figure()`` draws one of these.
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
for name, report in reports.items():
    sizes = [each.step_size for each in report.biases]
    values = [100 * abs(each.bias[-1]) for each in report.biases]
    errors = [100 * each.error[-1] for each in report.biases]
    axes.errorbar(sizes, values, errors, marker="o", label=name)
axes.set(xscale="log", xlabel="step size", ylabel="bias of a variance, %", ylim=(0, None))
axes.legend()
