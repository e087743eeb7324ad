"""
A heavy-tailed noise and a Gaussian one
=======================================

Two noises of the same power, made cell by cell of the spectrogram: Gaussian, and alpha-stable with
alpha = 1.5, where most cells are quiet and some are very loud. The model's noise is told to be
Gaussian (alpha = 2) or heavy-tailed (1.6).
"""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
from sounds import at_snr, listen, sample, spectrograms

from alphamf import PRESETS, denoise
from alphamf.audio.stft import Frame, forward, inverse
from alphamf.factorization.stable import symmetric_stable
from alphamf.scores.score import si_sdr

clean, _, rate = sample(0.3, 2.8)
rng = np.random.default_rng(3)
frame = Frame(1024, 256)
cells = forward(clean, frame).shape
noises = {
    name: inverse(symmetric_stable(rng, alpha, cells), frame, len(clean))
    for name, alpha in {"gaussian": 2.0, "heavy_tailed": 1.5}.items()
}
mixtures = {name: at_snr(clean, noise, 5) for name, noise in noises.items()}

figure, panels = plt.subplots(1, 2, figsize=(8, 2.5), sharey=True, layout="constrained")
for axes, (name, mixture) in zip(panels, mixtures.items(), strict=True):
    axes.plot(np.arange(len(clean)) / rate, mixture - clean, linewidth=0.5)
    axes.set(title=name.replace("_", " "), xlabel="seconds", ylim=(-0.5, 0.5))

# %%
# SI-SDR in dB, without networks.
settings = replace(PRESETS["plain"], steps=100, keep=50)
outputs = {}
for name, mixture in mixtures.items():
    for alpha in (2.0, 1.6):
        audio = denoise(mixture, rate, replace(settings, alpha_noise=alpha)).audio
        outputs[name, alpha] = audio
        print(f"{name:12} noise, model's alpha {alpha}: {si_sdr(clean, audio):5.2f} dB")

# %%
spectrograms(
    rate,
    heavy_tailed_noise=mixtures["heavy_tailed"],
    denoised_by_alpha_2=outputs["heavy_tailed", 2.0],
    denoised_by_alpha_1_6=outputs["heavy_tailed", 1.6],
)

# %%
listen(
    rate,
    gaussian_noise=mixtures["gaussian"],
    gaussian_noise_denoised_by_alpha_2=outputs["gaussian", 2.0],
    heavy_tailed_noise=mixtures["heavy_tailed"],
    heavy_tailed_noise_denoised_by_alpha_1_6=outputs["heavy_tailed", 1.6],
)
