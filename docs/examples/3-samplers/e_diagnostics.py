"""
Is the chain long enough?
=========================

The same posterior, two samplers and as many steps. The effective sample size says how many
independent draws a chain is worth, and the Monte Carlo standard error how far its mean may be
off.
"""

import matplotlib.pyplot as plt
import numpy as np

from alphamf import SAMPLERS
from alphamf.inference.chain import run
from alphamf.inference.diagnostics import autocorrelation, separate_chains, summarise
from alphamf.inference.records import Trace
from alphamf.inference.targets.gaussian import LinearGaussian

rng = np.random.default_rng(0)
# Two regressors that are nearly the same: a posterior with a narrow and a wide direction.
first = rng.standard_normal(400)
a = np.stack([first, first + 0.1 * rng.standard_normal(400)], axis=1)
target = LinearGaussian(a, a @ [1.0, 1.0] + rng.standard_normal(400), 1.0)

runs = {
    "sgld": SAMPLERS["sgld"](5e-4),
    "hamcmc": SAMPLERS["hamcmc"](0.05, memory=3, gamma=2e-3),
    "hmc": SAMPLERS["hmc"](0.045, leaps=8),
}
figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
for name, sampler in runs.items():
    record = Trace(lambda theta, target: theta, burn_in=1000)
    for _ in run(target, sampler, steps=5000, seed=0, chains=(4,), record=record):
        pass
    # HAMCMC moves 3 chains in turn, which are laid side by side.
    draws = separate_chains(record.values, 3) if name == "hamcmc" else record.values
    found = summarise(draws)
    off = np.abs(found.mean - target.mean) / found.mcse
    print(
        f"{name:6} ESS {found.ess.min():6.0f}, R-hat {found.rhat.max():.3f}, "
        f"off by {off.max():.1f} errors"
    )
    axes.plot(autocorrelation(record.values, 300)[:, 0], label=name)
axes.axhline(0, color="grey", linewidth=0.5)
axes.set(title="Autocorrelation of the first weight", xlabel="lag")
axes.legend()
