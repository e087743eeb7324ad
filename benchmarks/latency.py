"""Measure low latency: its delay, and its processing time for chunks of 10 ms."""

import itertools
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from alphamf import PRESETS, Stream
from alphamf.audio.resample import resample
from alphamf.denoising.weights import find_online
from alphamf.evaluation.baselines.base import Clip
from alphamf.evaluation.measure import measure_cost
from alphamf.native.engine import pack
from alphamf.tools.arrays import Floats
from benchmarks.clips import clips
from benchmarks.report import ROOT, run_main

RATES = (8000, 16000, 44100, 48000)
CHUNK = 0.01

SHARES = [f"{kind} {p}" for kind in ("CPU", "clock") for p in ("50 %", "99.9 %", "worst")]
ENGINE = ["CPU s per s", *SHARES, "faults", "allocations"]
FLAGS = "-fno-math-errno -fno-trapping-math -ffp-contract=fast -Wl,--wrap=calloc".split()
NATIVE = ROOT / "alphamf" / "native"

Lines = list[list[str]]


def chirp(rate: int) -> tuple[int, int]:
    """Return the delay of a chirp in samples: when played live, and in the joined output.

    Live, a chunk of 10 ms is played whenever another one arrives, after silence for the latency.
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


def latencies() -> Lines:
    """Measure the delay of a chirp in a stream that removes no noise."""
    lines = [["rate", "promised ms", "live", "live ms", "put together"]]
    for rate in RATES:
        live, whole = chirp(rate)
        promised = 1000 * Stream(rate, 1, latency="low").latency
        late = f"{1000 * live / rate:.1f}"
        lines.append([f"{rate}", f"{promised:.1f}", f"{live}", late, f"{whole}"])
    return lines


def sound(rate: int, channels: int, seconds: float) -> Floats:
    """Return speech in noise, shape (samples, channels), that repeats a few clips."""
    found = np.concatenate([clip.noisy for clip in clips(16000, 8)])
    found = found if rate == 16000 else resample(found, 16000, rate)
    return np.repeat(np.resize(found, int(seconds * rate))[:, None], channels, axis=1)


def beside_rnnoise() -> Lines:
    """Measure low latency's and RNNoise's processor time in turn: medians of 5 rounds of 20 s."""
    lines = [["rate", "channels", "RNNoise", "low latency", "/ RNNoise"]]
    for rate, channels in itertools.product((8000, 16000, 48000), (1, 2)):
        audio, size = sound(rate, channels, 20), round(CHUNK * rate)
        stream = Stream(rate, channels, latency="low")
        found = []
        for _ in range(5):
            before = time.process_time()
            for k in range(0, len(audio), size):
                stream.process(audio[k : k + size])
            spent = time.process_time() - before
            costs = [measure_cost("rnnoise", Clip(each, rate, each))[1] for each in audio.T]
            found.append((sum(cost.cpu for cost in costs) / 20, spent / 20))
        other, ours = np.median(found, axis=0)
        cells = [f"{other:.3f}", f"{ours:.3f}", f"{ours / other:.2f}"]
        lines.append([f"{rate}", f"{channels}", *cells])
    return lines


def build(folder: Path, *flags: str) -> Path:
    """Compile the driver with the engine into a folder, and return the program's path."""
    program = folder / "engine"
    sources = [ROOT / "benchmarks/engine.c", NATIVE / "engine.c", *sorted(NATIVE.glob("_*.c"))]
    command = ["gcc", *flags, *FLAGS, *sources, "-lm", "-lpthread", "-o", program]
    subprocess.run(command, check=True, capture_output=True)
    return program


def engine(*, minutes: float = 10) -> Lines:
    """Measure the engine in C without Python (``engine.c``, compiled by GCC), in chunks of 10 ms.

    Page faults and calls of the allocator are counted from the second chunk on.
    """
    lines = [["rate", "channels", *ENGINE]]
    with TemporaryDirectory() as place:
        program, weights, heard = build(Path(place), "-O3"), Path(place, "w"), Path(place, "s")
        for rate, channels in ((8000, 1), (16000, 1), (16000, 2), (48000, 1), (48000, 2)):
            found = find_online(rate)
            weights.write_bytes(pack(found.dictionary, found.online, 0))
            sound(rate, channels, 60 * minutes).astype(np.float32).tofile(heard)
            command = [program, weights, f"{rate}", f"{channels}", "time", heard]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            lines.append([f"{rate}", f"{channels}", *done.stdout.split()])
    return lines


PARTS = {"latency": latencies, "rnnoise": beside_rnnoise, "engine": engine}

if __name__ == "__main__":
    run_main(PARTS)
