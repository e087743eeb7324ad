"""PSGLD on a standard normal, without and with its correction."""

import matplotlib.pyplot as plt
import numpy as np

from alphamf.inference.chain import run
from alphamf.inference.samplers.langevin import PSGLD
from alphamf.inference.targets.gaussian import LinearGaussian

target = LinearGaussian(np.zeros((1, 1)), np.zeros(1), 1.0)  # its posterior is N(0, 1)
line = np.linspace(-4, 4, 200)
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.plot(line, np.exp(-(line**2) / 2) / np.sqrt(2 * np.pi), color="black", label="posterior")
for correction, name in ((False, "PSGLD"), (True, "PSGLD with Γ")):
    sampler = PSGLD(0.01, damping=0.3, correction=correction)
    *_, last = run(target, sampler, steps=1000, seed=0, chains=(10000,))
    label = f"{name}: variance {last.theta.var():.2f}"
    axes.hist(last.theta[:, 0], 80, range=(-4, 4), density=True, histtype="step", label=label)
axes.set(xlabel="θ", ylabel="density")
axes.legend()
