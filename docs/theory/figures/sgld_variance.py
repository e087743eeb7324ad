"""SGLD's variance on a Gaussian, by its step size."""

import matplotlib.pyplot as plt
import numpy as np

from alphamf.inference.chain import run
from alphamf.inference.records import Mean
from alphamf.inference.samplers.langevin import SGLD
from alphamf.inference.targets.gaussian import LinearGaussian

target = LinearGaussian(np.ones((1, 1)), np.zeros(1), 1.0)  # precision 2
sizes = np.array([0.05, 0.1, 0.2, 0.4, 0.6, 0.8])
found = []
for h in sizes:
    record = Mean(lambda theta, target: theta**2, burn_in=int(4 / h))
    for _ in run(target, SGLD(h), steps=int(20 / h), seed=0, chains=(2000,), record=record):
        pass
    found.append(record.mean[0])
line = np.linspace(0, 0.9, 100)
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.plot(line, 1 / (2 * (1 - line)), label="1 / (a (1 - ha/2)), a = 2")
axes.plot(sizes, found, "o", label="SGLD")
axes.axhline(0.5, color="grey", linestyle=":", label="posterior")
axes.set(xlabel="h", ylabel="variance", ylim=(0, 4))
axes.legend()
