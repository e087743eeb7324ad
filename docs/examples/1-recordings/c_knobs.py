"""
What each knob does
===================

One setting is changed at a time, and the gain in SI-SDR is measured. One sentence decides
nothing, but shows which knobs matter: measure on recordings of your own
(:doc:`/guide/evaluation`) before you turn one.
"""

from dataclasses import replace

import matplotlib.pyplot as plt
from sounds import listen, sample

from alphamf import PRESETS, denoise
from alphamf.scores.score import si_sdr

clean, noisy, rate = sample(0.5, 3.0)
fast, plain = PRESETS["fast"], PRESETS["plain"]
short = replace(plain, steps=60, keep=30)
knobs = {
    "fast": fast,
    "plain": plain,
    "fast, dry .1": replace(fast, dry=0.1),
    "fast, dry .3": replace(fast, dry=0.3),
    "fast, at most 20 dB": replace(fast, max_attenuation=20.0),
    "fast, at most 10 dB": replace(fast, max_attenuation=10.0),
    "plain, 60 steps": short,
    "plain, 60 steps, noise rank 1": replace(short, noise_rank=1),
    "plain, 60 steps, noise rank 8": replace(short, noise_rank=8),
    "plain, 60 steps, noise alpha 1.6": replace(short, alpha_noise=1.6),
    "plain, 60 steps, no channel": replace(short, learn_channel=False),
}
outputs = {name: denoise(noisy, rate, settings).audio for name, settings in knobs.items()}
gains = [si_sdr(clean, audio) - si_sdr(clean, noisy) for audio in outputs.values()]

# %%
figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
axes.barh(list(outputs), gains)
axes.invert_yaxis()
axes.set(title="What each knob does to the gain", xlabel="gain in SI-SDR, dB")

# %%
# What ``dry`` and ``max_attenuation`` cost in dB they may give back in sound: the rest of the
# noise hides artefacts.
listen(
    rate,
    noisy=noisy,
    fast=outputs["fast"],
    fast_dry_30_percent=outputs["fast, dry .3"],
    fast_at_most_10_dB=outputs["fast, at most 10 dB"],
)
