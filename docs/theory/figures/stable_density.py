"""The density of a complex stable variable by its modulus."""

import matplotlib.pyplot as plt
import numpy as np

from alphamf.factorization.likelihood import log_density

r = np.geomspace(0.05, 100, 300)
figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
for alpha in (2.0, 1.8, 1.4, 1.0):
    density = np.exp(log_density(r**2, np.ones_like(r), alpha))
    axes.loglog(r, density, label=f"alpha = {alpha}")
axes.set(xlabel="|X|", ylabel="density", ylim=(1e-8, 1))
axes.legend()
