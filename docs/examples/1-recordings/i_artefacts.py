"""
Three recordings that come out badly
====================================

What goes wrong, how it looks and sounds, and what helps: speech far below the noise, a recording
that was clipped, and another voice in the background.
"""

from dataclasses import replace

import numpy as np
from sounds import at_snr, listen, sample, spectrograms

import alphamf
from alphamf import PRESETS
from alphamf.scores.score import si_sdr

clean, noisy, rate = sample(0.3, 2.8)
rng = np.random.default_rng(0)

# %%
# Too much noise. At -5 dB, half of the consonants are gone, and what is left sounds hollow. A limit
# of the attenuation leaves noise that hides the holes.
drowned = at_snr(clean, rng.standard_normal(len(clean)), -5)
full = alphamf.denoise(drowned, rate).audio
gentle = replace(PRESETS["fast"], max_attenuation=12.0)
limited = alphamf.denoise(drowned, rate, gentle).audio
spectrograms(rate, recording=drowned, denoised=full, at_most_12_dB=limited)

# %%
listen(rate, recording=drowned, denoised=full, at_most_12_dB=limited)

# %%
# Clipping. Loud parts were cut off when the recording was made; their harmonics lie on top of the
# speech, and no gain takes them away. Record softer, or repair the clipping first.
loud = 6 * noisy
clipped = np.clip(loud, -0.5, 0.5)
cases = {"as it was": loud, "clipped": clipped}
for name, recording in cases.items():
    print(f"{name}: {si_sdr(clean, alphamf.denoise(recording, rate).audio):.1f} dB after")

# %%
listen(rate, clipped=clipped, clipped_and_denoised=alphamf.denoise(clipped, rate).audio)

# %%
# Another voice. The dictionary fits every voice, so a second one is speech, too: it stays. Here it
# is the sentence backwards, 5 dB below.
crowd = at_snr(clean, clean[::-1], 5)
after = alphamf.denoise(crowd, rate).audio
print(f"{si_sdr(clean, crowd):.1f} dB before, {si_sdr(clean, after):.1f} dB after")

# %%
listen(rate, two_voices=crowd, denoised=after)
