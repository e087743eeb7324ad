"""
A stream
========

Sound that comes in chunks, as from a microphone: in segments, which gives what `alphamf.denoise`
makes of the whole, or within 40 ms.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sounds import listen, sample

import alphamf
from alphamf.scores.score import si_sdr

clean, noisy, rate = sample()
chunks = np.split(noisy[:, None], range(rate // 100, len(noisy), rate // 100))  # of 10 ms

# %%
# In segments: the same samples to the bit, as soon as a segment and its overlap are there.
with alphamf.Stream(rate, channels=1, preset="fast") as stream:
    pieces = [stream.process(chunk) for chunk in chunks] + [stream.flush()]
print(
    "the same:",
    np.array_equal(np.concatenate(pieces)[:, 0], alphamf.denoise(noisy, rate, "fast").audio),
)

# %%
# At low latency, with the processor time of every chunk.
pieces, times = [], []
with alphamf.Stream(rate, channels=1, latency="low") as stream:
    for chunk in chunks:
        start = time.process_time()
        pieces.append(stream.process(chunk))
        times.append(1000 * (time.process_time() - start))
    pieces.append(stream.flush())
low = np.concatenate(pieces)[:, 0]
print(f"held back: {1000 * stream.latency:.0f} ms")
print(f"SI-SDR: {si_sdr(clean, noisy):.1f} dB before, {si_sdr(clean, low):.1f} dB after")

# %%
figure, axes = plt.subplots(figsize=(8, 2.5), layout="constrained")
axes.plot(np.arange(len(times)) / 100, times)
axes.axhline(10, color="grey", linestyle="--")
axes.set(title="Processor time of a chunk of 10 ms", xlabel="seconds", ylabel="ms")

# %%
listen(rate, before=noisy, at_low_latency=low)
