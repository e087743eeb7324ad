"""A thousand draws of four stable laws."""

import matplotlib.pyplot as plt
import numpy as np

from alphamf.factorization.stable import symmetric_stable

figure, panels = plt.subplots(4, 1, figsize=(7, 4.6), sharex=True, layout="constrained")
for axes, alpha in zip(panels, (2.0, 1.8, 1.4, 1.0), strict=True):
    axes.plot(symmetric_stable(np.random.default_rng(4), alpha, (1000,)).real, linewidth=0.6)
    axes.set_ylabel(f"alpha = {alpha}")
