"""How often a proposal of Phi from its prior is accepted."""

import matplotlib.pyplot as plt
import numpy as np

from alphamf.factorization.alpha_mf import AlphaMFTarget, Source

rng = np.random.default_rng(0)
loudness = np.geomspace(0.01, 300, 25)
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
for alpha in (1.9, 1.5, 1.0):
    accepted = []
    for power in loudness:
        one = np.ones((20, 1))
        target = AlphaMFTarget(np.full((20, 20), power), [Source(alpha, 1, basis=one)])
        target.start(rng)
        theta = np.ones(target.size)
        for step in range(40):
            if step == 20:  # Phi has forgotten its start
                target.accepted, target.proposed = [0], [0]
            target.draw(rng, theta)
        accepted.append(target.acceptance[0])
    axes.semilogx(loudness, accepted, label=f"alpha = {alpha}")
axes.set(xlabel="|X|² at dispersion 1", ylabel="accepted", ylim=(0, 1))
axes.legend()
