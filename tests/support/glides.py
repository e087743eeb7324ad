"""A sound that is easy to recognise, and that no codec makes very small."""

import numpy as np


def glide(frames: int = 2000, channels: int = 1, rate: int = 8000) -> np.ndarray:
    """Return a gliding tone in a little noise, softer from channel to channel."""
    t = np.arange(frames) / rate
    rng = np.random.default_rng(1)
    x = 0.4 * np.sin(2 * np.pi * (300 * t + 400 * t**2)) + 0.02 * rng.standard_normal(frames)
    return (x[:, None] * (1 - 0.1 * np.arange(channels))).astype(np.float32)
