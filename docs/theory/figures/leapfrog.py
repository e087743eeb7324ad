"""Energy that leapfrog loses on a Gaussian, right and as printed."""

import matplotlib.pyplot as plt
import numpy as np


def error(step, drift):
    """Return the mean error of the energy after a time of 1, with steps drift * step of theta."""
    rng = np.random.default_rng(0)
    theta, p = rng.standard_normal((2, 2000))
    start = (theta**2 + p**2) / 2
    for _ in range(round(1 / step)):
        p = p - step / 2 * theta
        theta = theta + drift * step * p
        p = p - step / 2 * theta
    return np.abs((theta**2 + p**2) / 2 - start).mean()


steps = np.array([0.01, 0.02, 0.05, 0.1, 0.2, 0.5])
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.loglog(steps, [error(step, 1.0) for step in steps], "o-", label="leapfrog")
axes.loglog(steps, [error(step, 0.5) for step in steps], "s-", label="as printed, with ε/2 for θ")
axes.loglog(steps, 0.1 * steps**2, color="grey", linestyle=":", label="slope 2")
axes.set(xlabel="ε", ylabel="error of the energy")
axes.legend()
