"""The law of Phi."""

import matplotlib.pyplot as plt
import numpy as np

from alphamf.factorization.stable import positive_stable

figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
rng = np.random.default_rng(0)
for alpha in (1.9, 1.6, 1.2, 0.8):
    phi = positive_stable(rng, alpha, np.empty(200_000))
    axes.hist(
        np.log10(phi), 200, range=(-2, 5), histtype="step", density=True, label=f"alpha = {alpha}"
    )
axes.axvline(np.log10(2), color="black", linewidth=0.8, label="alpha = 2: always 2")
axes.set(xlabel="log10 Φ", ylabel="density")
axes.legend()
