"""Hints from the user about a recording: time ranges with noise only, time ranges with speech."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphamf.denoising import high_bands
from alphamf.denoising.grids import Spectra
from alphamf.denoising.sampling import bin_levels, noise_source, warm_up
from alphamf.denoising.settings import Settings
from alphamf.errors import AlphaMFError
from alphamf.factorization.alpha_mf import AlphaMFTarget, stack
from alphamf.inference.random import START, Key, generator
from alphamf.learnt.dictionary import Dictionary
from alphamf.tools.arguments import check_instance, shown_value
from alphamf.tools.arrays import Floats, Reals
from alphamf.tools.machine import one_thread

SHORTEST = 0.2
"""Minimum length of a time range in seconds."""

LONGEST = 10.0
"""Maximum number of seconds of noise that spectra are learned from; the first ones are used."""

ROUNDED = 0.01
"""Seconds by which a time range may end after a recording, whose length is shown rounded."""

NOISE_STEPS = 60
"""Steps of EM that learn the spectra of a known noise."""

FADE = 0.02
"""Length of the fades at both ends of a range with noise only, in seconds; they lie within it."""

TimeRanges = Sequence[tuple[float, float]]
"""Starts and ends in seconds."""

NAMES = ("`noise_from`", "`speech_from`")
"""Names of both kinds of time ranges, in messages."""


class Hints(NamedTuple):
    """Hints about a recording."""

    # noise_from, speech_from: time ranges with noise only, and time ranges that certainly contain
    # speech.
    noise_from: TimeRanges = ()
    speech_from: TimeRanges = ()
    # Sound of noise only, shape (samples, channels), float32, to learn the noise's spectra from;
    # None: they are learned from each segment only.
    noise: Floats | None = None

    def without_start(self, seconds: float) -> Hints:
        """Return the hints for the recording without its first `seconds`."""
        noise, speech = (
            [(start - seconds, end - seconds) for start, end in each if end > seconds]
            for each in (self.noise_from, self.speech_from)
        )
        return Hints(noise, speech, self.noise)

    def fade_curve(self, start: int, count: int, rate: int) -> Floats:
        """Return `count` factors from sample `start` on: 0 in noise-only ranges (faded), else 1."""
        times = (start + np.arange(count)) / rate
        kept = np.ones(count)
        for first, last in self.noise_from:
            inside = np.minimum(times - first, last - times) / FADE
            kept = np.minimum(kept, 1 - inside.clip(0, 1))
        return kept.astype(np.float32)


def check_ranges(
    noise_from: TimeRanges, speech_from: TimeRanges = ()
) -> tuple[TimeRanges, TimeRanges]:
    """Return both lists of time ranges in order; raise an AlphaMFError if they are not valid."""
    every = []
    for name, ranges in zip(NAMES, (noise_from, speech_from), strict=True):
        check_instance(name, ranges, Iterable, "a sequence of time ranges (start, end) in seconds")
        for stretch in ranges:
            start, end = _pair(name, stretch)
            if end <= start:
                raise AlphaMFError(f"{name} {_text(start, end)}: the end must be after the start")
            if end - start < SHORTEST:
                raise AlphaMFError(
                    f"{name} {_text(start, end)} is too short; a time range must last at least "
                    f"{SHORTEST:g} s"
                )
            every.append((start, end, name))
    every.sort()
    for one, two in pairwise(every):
        if two[0] < one[1]:
            raise AlphaMFError(f"{one[2]} {_text(*one[:2])} and {two[2]} {_text(*two[:2])} overlap")
    first, second = ([each[:2] for each in every if each[2] == name] for name in NAMES)
    return first, second


def hints_of(
    blocks: Iterable[Floats],
    rate: int,
    duration: float,
    ranges: tuple[TimeRanges, TimeRanges],
    recording: str = "the recording",
) -> Hints | None:
    """Return the hints for the given time ranges of a recording; None if there are none.

    `blocks`: the recording from its start, shape (samples, channels); only as many as needed are
    read. `duration`: length in seconds; ranges that end over `ROUNDED` later raise an AlphaMFError.
    """
    for name, each in zip(NAMES, ranges, strict=True):
        for start, end in each:
            if end > duration + ROUNDED:
                raise AlphaMFError(
                    f"{recording} ends at {duration:.2f} s, which is before the end of {name} "
                    f"{_text(start, end)}"
                )
    if not any(ranges):
        return None
    noise_from, speech_from = ranges
    return Hints(noise_from, speech_from, _noise_of(blocks, rate, noise_from))


def _noise_of(blocks: Iterable[Floats], rate: int, ranges: TimeRanges) -> Floats | None:
    """Return the first `LONGEST` seconds of sound in time ranges; None if it is empty or silent."""
    found: list[Floats] = []
    left = round(LONGEST * rate)
    for piece in _cut(blocks, rate, ranges) if ranges else ():
        found.append(piece[:left].copy())  # not a view, which would hold the whole block
        left -= len(found[-1])
        if not left:
            break
    noise = np.concatenate(found) if found else None
    return None if noise is None or not noise.any() else noise


def _cut(blocks: Iterable[Floats], rate: int, ranges: TimeRanges) -> Iterator[Floats]:
    position = 0
    for block in blocks:
        for start, end in ranges:
            first, last = (
                min(max(round(t * rate) - position, 0), len(block)) for t in (start, end)
            )
            yield block[first:last]
        position += len(block)
        if position >= ranges[-1][1] * rate:
            return


def within(ranges: TimeRanges, times: Reals) -> NDArray[np.bool_]:
    """Return a mask of the times in seconds that lie in one of the ranges, their ends excluded."""
    inside = np.zeros(len(times), bool)
    for start, end in ranges:
        inside |= (start <= times) & (times < end)
    return inside


def _pair(name: str, given: tuple[float, float]) -> tuple[float, float]:
    try:
        start, end = (float(time) for time in given)
    except (TypeError, ValueError, OverflowError):
        start = end = float("nan")
    if not 0 <= start < float("inf") or not end < float("inf"):
        raise AlphaMFError(
            f"{name} must be time ranges (start, end) in seconds, not {shown_value(given)}"
        )
    return start, end


def _text(start: float, end: float) -> str:
    return f"{start:g}-{end:g} s"


@one_thread()
def noise_spectra(
    noise: Floats, rate: int, dictionary: Dictionary, settings: Settings, seed: int
) -> list[Reals | None]:
    """Learn W_noise of each channel by EM from time ranges with noise only.

    `noise`: sound of noise only, shape (samples, channels), float32. Returns for each channel (None
    if silent): dispersions in the sound's units, times their mean activation, shape (stacked rows,
    noise_rank). The rows of a frame are its bins, then the wide bands that the rate allows.
    """
    return [
        _spectra(np.ascontiguousarray(sound), rate, dictionary, settings, (seed, channel))
        for channel, sound in enumerate(noise.T)
    ]


def _spectra(
    sound: Floats, rate: int, dictionary: Dictionary, settings: Settings, stream: tuple[int, int]
) -> Reals | None:
    peak = np.abs(sound).max()
    if not peak:
        return None
    spectra = Spectra(sound / peak, rate)
    power = high_bands.power(spectra, dictionary, high_bands.count_possible_bands(rate, dictionary))
    level = bin_levels(power)
    target = AlphaMFTarget(stack(power / level, dictionary.context), [noise_source(settings)])
    seed, channel = stream
    number = Key.NOISE + channel
    theta = target.start(generator(seed, number, START))
    with np.errstate(all="ignore"):
        theta = warm_up(target, theta, NOISE_STEPS, seed, number)
    w, h = target.unpack(theta)[0]
    # In double precision, since a soft sound's dispersions may be beyond the single one.
    unit = np.tile(level, (dictionary.context, 1)) * np.float64(peak) ** 2
    return w * h.mean(axis=-1) * unit ** (settings.alpha_noise / 2)


def lowest_rows(spectra: Reals, dictionary: Dictionary) -> Reals:
    """Return the rows of noise spectra that belong to a dictionary's bins and wide bands."""
    frames = spectra.reshape(dictionary.context, -1, spectra.shape[-1])
    return frames[:, : dictionary.bins].reshape(-1, spectra.shape[-1])
