r"""Measure a stream at low latency: its latency in samples, and its time for each chunk.

For example::

    python -m benchmarks.latency latency
    python -m benchmarks.latency time --minutes 10
    python -m benchmarks.latency rnnoise

``latency`` feeds single samples: a click in faint noise, and a chirp through a stream that may take
nothing away, and counts how much has gone in when the click comes out; the chirp is
cross-correlated with the output. ``time`` feeds chunks of 10 ms as fast as they go, speech in noise
of ``benchmarks.clips``, and prints the share of 10 ms that they take, in process time and by
the clock. ``rnnoise`` feeds chunks of 10 ms in turn with RNNoise on the same sound,
and prints the processor time of both.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from alphamf import PRESETS, Stream
from alphamf.audio.resample import resample
from alphamf.evaluation.baselines.base import Clip
from alphamf.evaluation.measure import measure_cost
from alphamf.tools import tables
from alphamf.tools.arrays import Floats
from benchmarks.clips import clips
from benchmarks.report import options_of, run_main

RATES = (8000, 16000, 44100, 48000)
CHUNK = 0.01
WORST = (50, 99, 99.9, 100)
"""Percentiles of the times."""


def click(rate: int) -> int:
    """Return how many samples go in after a click until it is out."""
    rng = np.random.default_rng(0)
    sound = (1e-3 * rng.standard_normal(rate // 2)).astype(np.float32)
    sound[rate // 4] = 0.9
    stream = Stream(rate, 1, replace(PRESETS["fast"], max_attenuation=0.0), latency="low")
    for k, sample in enumerate(sound):
        out = stream.process(sample[None])
        if len(out) and np.abs(out).max() > 0.5:
            return k - rate // 4
    raise AssertionError("the click did not come out")


def chirp(rate: int) -> tuple[int, int]:
    """Return by how many samples a chirp is late, played live, and in the sound put together.

    Played live, a chunk of 10 ms goes out as another comes in, after the silence of the latency.
    """
    t = np.arange(rate) / rate
    sound = (0.5 * np.sin(2 * np.pi * (100 * t + 1500 * t**2))).astype(np.float32)
    stream = Stream(rate, 1, replace(PRESETS["fast"], max_attenuation=0.0), latency="low")
    size = round(CHUNK * rate)
    waiting = np.zeros(round(stream.latency * rate), np.float32)
    live, whole = [], []
    for k in range(0, len(sound), size):
        out = stream.process(sound[k : k + size])
        whole.append(out)
        waiting = np.concatenate([waiting, out])
        live.append(waiting[:size])
        waiting = waiting[size:]
    whole.append(stream.flush())
    return lag(sound, np.concatenate(live)), lag(sound, np.concatenate(whole))


def lag(sound: Floats, within: Floats) -> int:
    """Return where a sound begins in another, in samples, by their cross-correlation."""
    size = 1 << (len(sound) + len(within)).bit_length()
    found = np.fft.irfft(np.fft.rfft(within, size) * np.fft.rfft(sound, size).conj(), size)
    at = int(found.argmax())
    return at if at < size // 2 else at - size


def latencies() -> None:
    """Print the table of latencies."""
    lines = []
    for rate in RATES:
        held, (live, whole) = click(rate), chirp(rate)
        seconds = [f"{1000 * value / rate:.1f}" for value in (held, live)]
        promised = 1000 * Stream(rate, 1, latency="low").latency
        lines.append([f"{rate}", f"{promised:.1f}", f"{held}", f"{live}", *seconds, f"{whole}"])
    headings = ["rate", "promised ms", "click", "chirp, live", "click ms", "chirp ms", "chirp"]
    print(tables.markdown(headings, lines))


def sound(rate: int, channels: int, seconds: float) -> Floats:
    """Return speech in noise, shape (samples, channels), that repeats itself after some clips."""
    found = np.concatenate([clip.noisy for clip in clips(16000, 8)])
    found = found if rate == 16000 else resample(found, 16000, rate)
    return np.repeat(np.resize(found, int(seconds * rate))[:, None], channels, axis=1)


def times(rate: int, channels: int, minutes: float) -> list[str]:
    """Return a line of the table of times."""
    audio, size = sound(rate, channels, 60 * minutes), round(CHUNK * rate)
    stream = Stream(rate, channels, latency="low")
    stream.process(audio[: 10 * size])
    found = []
    for k in range(10 * size, len(audio) - size, size):
        cpu, clock = time.process_time(), time.perf_counter()
        stream.process(audio[k : k + size])
        found.append((time.process_time() - cpu, time.perf_counter() - clock))
    shares = np.percentile(np.array(found) / CHUNK, WORST, axis=0)
    return [f"{rate}", f"{channels}", *(f"{each:.3f}" for each in [*shares[:, 0], *shares[:, 1]])]


def beside_rnnoise(rate: int, channels: int, seconds: float = 20.0, rounds: int = 5) -> list[str]:
    """Return a line of the table of times beside RNNoise: medians of the rounds."""
    audio, size = sound(rate, channels, seconds), round(CHUNK * rate)
    stream = Stream(rate, channels, latency="low")
    found = []
    for _ in range(rounds):
        before = time.process_time()
        for k in range(0, len(audio), size):
            stream.process(audio[k : k + size])
        spent = time.process_time() - before
        costs = [measure_cost("rnnoise", Clip(each, rate, each))[1] for each in audio.T]
        found.append((sum(cost.cpu for cost in costs) / seconds, spent / seconds))
    other, ours = np.median(found, axis=0)
    return [f"{rate}", f"{channels}", f"{other:.3f}", f"{ours:.3f}", f"{ours / other:.2f}"]


def main() -> None:
    """Run the command line."""
    parser = options_of("benchmarks.latency", __doc__)
    parser.add_argument("what", choices=("latency", "time", "rnnoise"))
    parser.add_argument("--minutes", type=float, default=10, help="of sound, for time")
    asked = parser.parse_args()
    if asked.what == "latency":
        latencies()
    elif asked.what == "time":
        kinds = ((8000, 1), (16000, 1), (48000, 1), (48000, 2))
        headings = [f"{kind} {p:g} %" for kind in ("CPU", "clock") for p in WORST]
        lines = [times(rate, channels, asked.minutes) for rate, channels in kinds]
        print(tables.markdown(["rate", "channels", *headings], lines))
    else:
        pairs = [(rate, channels) for rate in (8000, 16000, 48000) for channels in (1, 2)]
        lines = [beside_rnnoise(rate, channels) for rate, channels in pairs]
        headings = ["rate", "channels", "RNNoise", "low latency", "/ RNNoise"]
        print(tables.markdown(headings, lines))


if __name__ == "__main__":
    run_main(main)
