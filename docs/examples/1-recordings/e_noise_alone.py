"""
Show it the noise
=================

Where a stretch of the recording holds noise alone, say so: its spectra are used beside those that
are learned from the whole, and the stretch becomes silent.
"""

import numpy as np
from sounds import at_snr, listen, sample, spectrograms

import alphamf
from alphamf.scores.score import si_sdr

clean, _, rate = sample(0.3, 3.3)
speech = np.concatenate([np.zeros(rate, np.float32), clean])
seconds = np.arange(len(speech)) / rate
# A noise that the denoiser can take for a voice: a chord whose loudness swings.
chord = sum(np.sin(2 * np.pi * f * seconds) for f in (220, 277, 330, 440, 660)) * (
    1 + np.sin(2 * np.pi * 0.7 * seconds)
)
noisy = at_snr(speech, chord.astype(np.float32), 3)

# %%
# The first second is known to be noise.
without = alphamf.denoise(noisy, rate, "plain")
told = alphamf.denoise(noisy, rate, "plain", noise_from=[(0, 1)])
for name, result in {"without": without, "told": told}.items():
    print(f"{name}: {si_sdr(speech[rate:], result.audio[rate:]):.1f} dB")

# %%
spectrograms(rate, before=noisy, without=without.audio, told=told.audio)

# %%
listen(rate, before=noisy, without=without.audio, told=told.audio)
