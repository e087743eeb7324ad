"""Frames with an echo."""

import numpy as np

from alphamf.denoising.late_reverberation import DELAY


def echoing(innovations, factors):
    """Make frames that repeat their past with these factors, from `DELAY` frames on."""
    made = np.array(innovations)
    for t in range(made.shape[-1]):
        for k, factor in enumerate(factors):
            if t >= DELAY + k:
                made[..., t] += factor * made[..., t - DELAY - k]
    return made
