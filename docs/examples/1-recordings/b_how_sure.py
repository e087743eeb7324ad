"""
How sure is it?
===============

Every cell of the spectrogram comes with the standard deviation of its gain. The sample has a
clean reference, so the true gain is known as well, and the two can be compared.
"""

import matplotlib.pyplot as plt
import numpy as np
from sounds import sample

import alphamf
from alphamf.audio.stft import Frame, forward

clean, noisy, rate = sample()
result = alphamf.denoise(noisy, rate)

# %%
# The gain, from 0 (noise, removed) to 1 (speech, kept), and where it is unsure.
extent = (0, len(noisy) / rate, 0, rate / 2000)
figure, panels = plt.subplots(2, 1, figsize=(8, 5), sharex=True, layout="constrained")
panels[0].set_title("gain")
panels[1].set_title("standard deviation of the gain")
for axes, values, top in zip(panels, (result.gain, result.gain_std), (1, 0.5), strict=True):
    image = axes.imshow(values[0], origin="lower", aspect="auto", extent=extent, vmin=0, vmax=top)
    figure.colorbar(image, ax=axes)
    axes.set_ylabel("kHz")
panels[1].set_xlabel("seconds")

# %%
# The best real gain of a cell is :math:`\Re(S \bar X) / |X|^2`, held between 0 and 1. Cells are
# sorted by the deviation that was predicted and cut into ten bins; in each, the true error is
# measured.
n_fft = 2 * (len(result.frequencies) - 1)
frame = Frame(n_fft, round((result.frame_times[1] - result.frame_times[0]) * rate))
speech, mixture = forward(clean, frame), forward(noisy, frame)
power = np.abs(mixture) ** 2
loud = power > 1e-3 * power.mean()
true = np.clip((speech * mixture.conj()).real[loud] / power[loud], 0, 1)
error = (true - result.gain[0][loud]) ** 2
order = np.argsort(result.gain_std[0][loud])
predicted = [b.mean() ** 0.5 for b in np.array_split(result.gain_std[0][loud][order] ** 2, 10)]
found = [b.mean() ** 0.5 for b in np.array_split(error[order], 10)]

figure, axes = plt.subplots(figsize=(4.5, 4), layout="constrained")
axes.plot([0, 0.45], [0, 0.45], color="grey", label="perfect")
axes.plot(predicted, found, "o-", label="this sentence")
axes.set(title="Predicted and true error", xlabel="predicted", ylabel="true")
axes.legend()

# %%
# One sentence is little. Over 40 clips at this rate nine of the ten bins lie within 20 %:
# :doc:`/quality`.
