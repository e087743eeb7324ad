"""Scores of the noise that methods leave in pauses, and of the onsets that they keep.

Voices are those of the split dev whose pauses lie `QUIET_PAUSES_DB` below their speech or more:
recordings with hiss are no reference. They are mixed with white and pink noise, a fan and hum at
`SNRS`. The first score is the level left in pauses, relative to the speech, in dB. The second is
the level kept of weak onsets, in dB: the first 60 ms of speech after a pause of 200 ms, at `WEAK`
dB below the loudest frame. Only the part in common with the clean sound counts, without noise.
Onsets with more power above `FRICATIVE` than below, such as S and F, are a group of their own.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from alphamf.audio.speech_level import QUIET_PAUSES_DB
from alphamf.tools.arrays import Floats, Reals
from alphamf.training.refiner.recordings import sources
from benchmarks.clips import Clip, coloured, mono, with_noise

SNRS = (10, 20, 25, 30, 40)
LONGEST = 6.0  # Maximum length of a voice in seconds; longer ones are cut
FRAME = 0.02  # Length in seconds of a frame whose level says whether it is a pause

# Level in dB below the loudest tenth of frames from which on a frame is one of a pause
SILENT = 45.0

AROUND = 2  # Frames at each end of a pause that do not count, as windows reach into the speech
WEAK = (22.0, 40.0)  # Range of the levels of weak onsets, in dB below the loudest frame
ONSET, BEFORE = 3, 10  # Frames of an onset, and of the pause before it at least
FRICATIVE = 4000.0  # Frequency in Hz above which a fricative has more power than below


SCORES = {"left in pauses dB": 1, "kept of weak onsets dB": 1}  # Headings, and decimals


def white(rng: np.random.Generator, samples: int, rate: int) -> Reals:
    """Return white noise of standard deviation one."""
    return rng.standard_normal(samples)


def pink(rng: np.random.Generator, samples: int, rate: int) -> Reals:
    """Return noise that falls by 3 dB per octave above 40 Hz."""
    return coloured(rng, samples, rate, 40.0, -0.5)


def fan(rng: np.random.Generator, samples: int, rate: int) -> Reals:
    """Return wind that falls by 5 dB per octave above 200 Hz, and eight harmonics of blades."""
    wind = coloured(rng, samples, rate, 200.0, -0.83)
    blades = rng.uniform(70, 250)
    return wind / wind.std() + 0.4 * _harmonics(rng, samples, rate, blades, 8)


def hum(rng: np.random.Generator, samples: int, rate: int) -> Reals:
    """Return mains hum: the first twenty harmonics of 50 or 60 Hz."""
    return _harmonics(rng, samples, rate, float(rng.choice([50.0, 60.0])), 20)


NOISES = {"white": white, "pink": pink, "fan": fan, "hum": hum}


def _harmonics(
    rng: np.random.Generator, samples: int, rate: int, first: float, count: int
) -> Reals:
    time = np.arange(samples) / rate
    tones = (np.sin(2 * np.pi * (k * first * time + rng.random())) / k for k in range(1, count + 1))
    return np.sum(list(tones), axis=0)


def voices(rate: int, count: int) -> list[Clip]:
    """Return up to `count` voices with quiet pauses, spread evenly over two corpora."""
    found = []
    corpora = ("speech-48k" if rate > 16000 else "speech-16k", "speech-crowd")
    for name in corpora:
        files = [Path(each.path) for each in sources(name, "dev", 0, QUIET_PAUSES_DB)]
        share = min(-(-count // len(corpora)), len(files))
        found += [files[k * len(files) // share] for k in range(share)]
    sounds = ((path.stem, mono(path, rate)[: int(LONGEST * rate)]) for path in found[:count])
    return [Clip(name, rate, sound, sound) for name, sound in sounds]


def made(number: int, voice: Clip, split: str) -> Iterator[tuple[tuple[str, ...], Clip]]:
    """Yield groups and clip of a voice in each noise at each SNR."""
    clean, rate = voice.clean, voice.rate
    for k, (name, make) in enumerate(NOISES.items()):
        noise = make(np.random.default_rng([k, *voice.name.encode()]), len(clean), rate)
        for snr in SNRS:
            noisy = with_noise(clean.astype(float), noise, snr).astype(np.float32)
            yield (f"{name} {snr} dB", f"{snr} dB"), voice._replace(noisy=noisy)


def frame_levels(sound: Reals, rate: int) -> Reals:
    """Return the mean power of each frame of `FRAME` seconds."""
    size = round(FRAME * rate)
    blocks = sound[: len(sound) // size * size].reshape(-1, size).astype(float)
    return np.mean(blocks**2, axis=1)


def pauses(clean: Floats, rate: int) -> Reals:
    """Return whether each frame is in a pause, more than `AROUND` frames from speech."""
    from scipy.ndimage import binary_erosion

    levels = frame_levels(clean, rate)
    loud = np.mean(np.sort(levels)[-max(1, len(levels) // 10) :])
    silent = levels < loud * 10 ** (-SILENT / 10)
    return binary_erosion(silent, iterations=AROUND, border_value=1)


def left_in_pauses(clean: Floats, out: Floats, rate: int) -> float:
    """Return the mean power in pauses over the clean sound's, in dB; NaN without pauses."""
    silent = pauses(clean, rate)
    if not silent.any():
        return np.nan
    power = np.mean(frame_levels(out, rate)[silent]) / np.mean(clean.astype(float) ** 2)
    return float(10 * np.log10(power + 1e-12))


def onsets(clean: Floats, out: Floats, rate: int) -> list[tuple[float, bool]]:
    """Return what is kept of each weak onset, in dB, and whether it is a fricative."""
    levels = 10 * np.log10(frame_levels(clean, rate) + 1e-20)
    levels -= levels.max()
    size, found = round(FRAME * rate), []
    for k in range(BEFORE, len(levels) - ONSET):
        mean = 10 * np.log10(np.mean(10 ** (levels[k : k + ONSET] / 10)))
        starts = levels[k] > levels[k - BEFORE : k].max() + 6
        if starts and levels[k - BEFORE : k].max() < -SILENT and -WEAK[1] < mean < -WEAK[0]:
            said, heard = (
                each[k * size : (k + ONSET) * size].astype(float) for each in (clean, out)
            )
            kept = 20 * np.log10(max(said @ heard, 0) / (said @ said) + 1e-3)
            power = np.abs(np.fft.rfft(said)) ** 2
            high = np.fft.rfftfreq(len(said), 1 / rate) > FRICATIVE
            found.append((float(kept), bool(power[high].sum() > power[~high].sum())))
    return found


def scores(
    groups: tuple[str, ...], clip: Clip, found: Mapping[str, Floats]
) -> Iterator[tuple[tuple[str, ...], dict[str, list[float]]]]:
    """Yield groups and `SCORES` by method: of the pauses of a clip, and of each weak onset."""
    noise, snr = groups
    left = {name: left_in_pauses(clip.clean, out, clip.rate) for name, out in found.items()}
    yield (noise,), {name: [level, np.nan] for name, level in left.items()}
    kept = {name: onsets(clip.clean, out, clip.rate) for name, out in found.items()}
    for each in zip(*kept.values(), strict=True):
        kind = "fricatives" if each[0][1] else "others"
        levels = {name: [np.nan, level] for name, (level, _) in zip(kept, each, strict=True)}
        yield (snr, f"{snr}, {kind}"), levels
