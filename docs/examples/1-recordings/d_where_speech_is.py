"""
Where speech is
===============

The denoiser also says, frame by frame, how probable speech is. `alphamf.speech_ranges` turns these
probabilities into time ranges.
"""

import matplotlib.pyplot as plt
import numpy as np
from sounds import at_snr, listen, sample

import alphamf

clean, noisy, rate = sample(0.3, 2.8)
rng = np.random.default_rng(0)
pause = np.zeros(rate, np.float32)
speech = np.concatenate([pause, clean, pause])
noisy = at_snr(speech, rng.standard_normal(len(speech)).astype(np.float32), 5)

result = alphamf.denoise(noisy, rate)
ranges = alphamf.speech_ranges(result.activity, result.frame_times)
print(*ranges, sep="\n")

# %%
figure, axes = plt.subplots(figsize=(8, 3), layout="constrained")
seconds = np.arange(len(noisy)) / rate
axes.plot(seconds, noisy / np.abs(noisy).max(), color="lightgrey", label="recording")
axes.plot(seconds, speech / np.abs(noisy).max(), color="grey", label="speech in it")
axes.plot(result.frame_times, result.activity, label="probability of speech")
for each in ranges:
    axes.axvspan(each.start, each.end, color="C0", alpha=0.15)
axes.set(title="Probability of speech", xlabel="seconds")
axes.legend(loc="lower right")

# %%
listen(rate, before=noisy, after=result.audio)
