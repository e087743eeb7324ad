"""
Denoise a recording, and look
=============================

A sentence beside a running tap, denoised by one call.
"""

from sounds import listen, sample, spectrograms

import alphamf
from alphamf.scores.score import si_sdr

clean, noisy, rate = sample()
result = alphamf.denoise(noisy, rate)

# %%
# Before and after. What was removed is ``result.noise``; the two add up to the recording.
spectrograms(rate, before=noisy, after=result.audio)

# %%
listen(rate, before=noisy, after=result.audio, what_was_removed=result.noise)

# %%
# The sample has a clean reference, so the gain can be told in dB of SI-SDR.
print(f"before {si_sdr(clean, noisy):.1f} dB, after {si_sdr(clean, result.audio):.1f} dB")
