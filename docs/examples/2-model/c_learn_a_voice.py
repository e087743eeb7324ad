"""
Learn a voice
=============

Four seconds of clean speech are enough for a dictionary of one voice. It is trained on the first
half of the sample and used on the second.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import soundfile
from sounds import listen, sample

import alphamf
from alphamf.scores.score import si_sdr

speech, _, rate = sample(0, 4.2)
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder, "voice.wav")
    soundfile.write(file, speech, rate)
    voice = alphamf.train([file], rate=rate, rank=20, steps=60)
    voice.save(Path(folder, "voice.npz"))  # what --model takes

# %%
# Its columns, sorted by pitch: each is a short patch of three frames, here their mean.
columns = voice.basis.reshape(voice.context, voice.bins, voice.rank).mean(0)
order = np.argsort((columns * np.arange(voice.bins)[:, None]).sum(0) / columns.sum(0))
figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
image = axes.imshow(
    10 * np.log10(columns[:, order] / columns.max() + 1e-9),
    origin="lower",
    aspect="auto",
    extent=(0.5, voice.rank + 0.5, 0, rate / 2000),
    vmin=-50,
    vmax=0,
    cmap="magma",
)
axes.set(title="Spectra of the voice", xlabel="column", ylabel="kHz")
figure.colorbar(image, ax=axes, label="dB")

# %%
# The second half, without networks: the package's dictionary of 251 voices, and this one of 20
# columns.
clean, noisy, rate = sample(4.2, 7.5)
outputs = {}
for name, model in {"package": "auto", "this_voice": voice}.items():
    outputs[name] = alphamf.denoise(noisy, rate, "plain", model=model).audio
    print(
        f"{name}: {si_sdr(clean, noisy):.1f} dB before, {si_sdr(clean, outputs[name]):.1f} dB after"
    )

# %%
listen(rate, before=noisy, **outputs)
