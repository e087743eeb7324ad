"""
Stereo
======

A voice to the left, and a noise of its own in each channel. Channels that share a voice are
denoised together, so that the voice keeps its place.
"""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
from sounds import listen, sample

from alphamf import PRESETS, denoise

clean, _, rate = sample(0, 3)
rng = np.random.default_rng(0)
levels = np.array([1.0, 0.5])  # 6 dB louder on the left
voice = (clean[:, None] * levels).astype(np.float32)
noise = rng.standard_normal(voice.shape) * [0.01, 0.03]
noisy = (voice + noise).astype(np.float32)

linked = denoise(noisy, rate, "fast").audio
separate = denoise(noisy, rate, replace(PRESETS["fast"], channels="separate")).audio

# %%
# The level difference between the channels, by frames of 50 ms where there is speech.


def difference(stereo):
    """Return left over right in dB, shape (frames,)."""
    frames = stereo[: len(stereo) // 800 * 800].reshape(-1, 800, 2)
    power = (frames**2).sum(1) + 1e-9
    return 10 * np.log10(power[:, 0] / power[:, 1])


loud = (clean[: len(clean) // 800 * 800].reshape(-1, 800) ** 2).mean(1) > 1e-3
figure, axes = plt.subplots(figsize=(8, 3), layout="constrained")
for name, stereo in {"voice": voice, "linked": linked, "separate": separate}.items():
    place = difference(stereo)[loud]
    axes.plot(place, label=f"{name}: {np.abs(place - 6.02).mean():.1f} dB off")
axes.set(title="Where the voice is", xlabel="frames with speech", ylabel="left over right, dB")
axes.legend()

# %%
listen(rate, before=noisy, linked=linked, separate=separate)
