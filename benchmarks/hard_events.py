r"""Measure how soon a stream at low latency recovers from tones, hum, clicks, mutes and the like.

For example::

    python -m benchmarks.hard_events --rate 16000 --minutes 60

Calls of a voice in noise are made of dev material: voices of ``speech-16k`` and
``librispeech-dev``, noises of ``noise-48k``. Before each part of a call something happens, one of
`EVENTS`. One stream denoises all calls, one after the other. Another one does the same, but has the
call's noise alone in place of every event. A third one begins with each part.

A table of the events is printed, with the share of seconds with speech in which the first stream is
at most `CLOSE` dB below another one, and the same without the first second of each part ("later").
What an event costs the voice is the distance to the second stream ("quiet"), which has learnt from
the same speech. The third one ("fresh") knows nothing of the call. Only what is worse counts.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from alphamf import Stream
from alphamf.audio.resample import resample
from alphamf.scores.score import si_sdr
from alphamf.tools import tables
from alphamf.tools.arrays import Floats
from benchmarks.clips import manifest, mixed, mono
from benchmarks.report import options_of, run_main

Event = Callable[[Floats, int, np.random.Generator], Floats]
"""Changes a part of a call, shape (samples,), given its rate in Hz."""

RATE = 16000
SECONDS = 12
"""Length of a part with speech."""

LENGTHS = (2, 10, 30, 60)
LIKELY = (0.4, 0.3, 0.2, 0.1)
"""Lengths of events in seconds, and how often they come."""

PARTS = 6
"""Parts of a call."""

LEVELS = (-50.0, -20.0)
SNRS = (5, 10, 15)
CLOSE = 0.5
PAUSE_DB = 20.0
"""A second this far below the mean power of its part is a pause."""


def sines(sound: Floats, rate: int, *waves: tuple[float, float, float]) -> Floats:
    """Return a sum of sines, each of an amplitude, a frequency in Hz and a phase."""
    time = np.arange(len(sound)) / rate
    return sum(a * np.sin(2 * np.pi * hertz * time + phase) for a, hertz, phase in waves)


def tone(sound: Floats, rate: int, rng: np.random.Generator) -> Floats:
    """Return an exact tone."""
    return sines(sound, rate, (0.1, rng.choice([440, 1000, 1004.3]), 0))


def hum(sound: Floats, rate: int, rng: np.random.Generator) -> Floats:
    """Return the mains with harmonics."""
    first = rng.choice([50, 60])
    return sines(sound, rate, *((0.1 / k, first * k, k) for k in range(1, 12)))


def dial_tone(sound: Floats, rate: int, rng: np.random.Generator) -> Floats:
    """Return the dial tone of a telephone."""
    pair = (350, 440) if rng.random() < 0.5 else (425, 425)
    return sines(sound, rate, *((0.1, hertz, 0) for hertz in pair))


def replaced(sound: Floats, start: int, stop: int, value: float) -> Floats:
    """Return the part with some of its samples replaced."""
    sound = sound.copy()
    sound[start:stop] = value
    return sound


def dropouts(sound: Floats, rate: int, rng: np.random.Generator) -> Floats:
    """Return the part with 20 to 100 ms missing four times a second."""
    for start in range(0, len(sound), rate // 4):
        sound = replaced(sound, start, start + int(rate * rng.uniform(0.02, 0.1)), 0)
    return sound


def resampled_silence(sound: Floats, rate: int, rng: np.random.Generator) -> Floats:
    """Return what resampling leaves of silence that follows a sound, and single precision of it."""
    faint = np.float32(10 ** rng.uniform(-8, -5) * rng.standard_normal(len(sound)))
    return resample(faint, rate, 2 * rate)[: len(sound)]


def bursts(sound: Floats, rate: int, rng: np.random.Generator) -> Floats:
    """Return DC with bursts of samples near the end of single precision."""
    sound = np.full_like(sound, 0.01)
    for start in range(rate // 2, len(sound) - rate // 4, rate // 2):
        sound[start : start + rate // 100] = 1e30 * rng.choice([-1, 1])
    return sound


EVENTS: dict[str, Event] = {
    "tone": tone,
    "hum": hum,
    "dial tone": dial_tone,
    "DC": lambda sound, rate, rng: np.full_like(sound, 0.01),
    "click": lambda sound, rate, rng: replaced(
        sound, -rate // 10, -rate // 10 + max(1, rate // 1000), 1
    ),
    "sample of 1e6": lambda sound, rate, rng: replaced(sound, -rate // 10, -rate // 10 + 1, 1e6),
    "60 dB louder": lambda sound, rate, rng: 1000 * sound,
    "60 dB fainter": lambda sound, rate, rng: sound / 1000,
    "mute": lambda sound, rate, rng: np.zeros_like(sound),
    "dropouts": dropouts,
    "resampled silence": resampled_silence,
    "dither": lambda sound, rate, rng: np.rint(rng.uniform(-1, 1, (2, len(sound))).sum(0)) / 2**15,
    "bursts of 1e30": bursts,
    "none": lambda sound, rate, rng: sound,
}
"""What happens before a part of a call."""

ALL = "all but none"


class Part(NamedTuple):
    """A part of a call: what happens before it by its name and sound, and the part."""

    event: str
    # Its sound, and the noise alone in its place; shape (samples,).
    before: Floats
    quiet: Floats
    # The part that follows.
    clean: Floats
    noisy: Floats


def calls(
    rate: int, seed: int = 0, events: tuple[str, ...] = tuple(EVENTS), length: int = 0
) -> Iterator[Part]:
    """Yield parts of calls without end; every event comes equally often.

    `length` of events is in seconds; 0: one of `LENGTHS`.
    """
    rng = np.random.default_rng((6, seed))
    voices: dict[str, list[Path]] = {}
    for path, _, speaker in manifest("speech-16k") + manifest("librispeech-dev"):
        voices.setdefault(speaker, []).append(path)
    noises = [path for path, kind, _ in manifest("noise-48k") if kind == "stationary"]
    names: list[str] = []
    while True:
        speaker = rng.choice(sorted(voices))
        voice = np.concatenate([mono(path, rate) for path in voices[speaker]])
        noise = mono(noises[rng.integers(len(noises))], rate)
        snr, scale = rng.choice(SNRS), 10 ** (rng.uniform(*LEVELS) / 20)
        for _ in range(PARTS):
            names = names or list(rng.permutation(events))
            name = names.pop()
            before = (length or rng.choice(LENGTHS, p=LIKELY)) * rate
            start = rng.integers(len(voice))
            clean = np.resize(np.roll(voice, -start), before + SECONDS * rate)
            clean = clean * np.float32(scale / np.sqrt(np.mean(clean**2)))
            noisy = mixed(clean, noise, rate, snr, rng)
            changed = EVENTS[name](noisy[:before], rate, rng).astype(np.float32)
            quiet = noisy[:before] - clean[:before]
            yield Part(name, changed, quiet, clean[before:], noisy[before:])


def denoised(sound: Floats, rate: int) -> Floats:
    """Return what a stream of its own makes of a sound, shape (samples,)."""
    with Stream(rate, 1, latency="low") as stream:
        return np.concatenate([stream.process(sound), stream.flush()])


def by_second(clean: Floats, out: Floats, rate: int) -> Floats:
    """Return the SI-SDR in dB of every whole second, NaN of a pause."""
    count, power = len(clean) // rate, np.mean(clean.astype(float) ** 2)
    found = np.full(count, np.nan)
    for k in range(count):
        part = slice(k * rate, (k + 1) * rate)
        if np.mean(clean[part].astype(float) ** 2) > power * 10 ** (-PAUSE_DB / 10):
            found[k] = si_sdr(clean[part], out[part])
    return found


class Scores(NamedTuple):
    """SI-SDR in dB of a part's seconds."""

    event: str  # what happened before
    # By the stream that goes on, by one that had the noise alone, and by one that begins.
    going_on: Floats
    quiet: Floats
    fresh: Floats


def measured(parts: Iterator[Part], rate: int, minutes: float) -> Iterator[Scores]:
    """Yield the scores of one part after the other, of so many minutes together."""
    taken = 0
    with Stream(rate, 1, latency="low") as events, Stream(rate, 1, latency="low") as quiet:
        late, waiting = round(events.latency * rate), []
        outs = [np.empty(0, np.float32)] * 2
        while taken < minutes * 60 * rate:
            part = next(parts)
            taken += len(part.before) + len(part.noisy)
            waiting.append(part)
            sounds = (np.concatenate([each, part.noisy]) for each in (part.before, part.quiet))
            outs = _longer(outs, (events, quiet), sounds)
            outs = yield from _scored(waiting, outs, rate)
        silence = np.zeros(late + rate, np.float32)
        outs = _longer(outs, (events, quiet), (silence, silence))
        yield from _scored(waiting, outs, rate)


def _longer(
    outs: list[Floats], streams: Iterable[Stream], sounds: Iterable[Floats]
) -> list[Floats]:
    """Return what came out of each stream so far, with what it makes of a sound."""
    triples = zip(outs, streams, sounds, strict=True)
    return [np.concatenate([out, stream.process(sound)]) for out, stream, sound in triples]


def _scored(
    waiting: list[Part], outs: list[Floats], rate: int
) -> Generator[Scores, None, list[Floats]]:
    """Yield scores of parts that are out; return the sounds that belong to later ones."""
    while waiting and len(outs[0]) >= len(waiting[0].before) + len(waiting[0].noisy):
        part = waiting.pop(0)
        size = len(part.before) + len(part.noisy)
        heads = [out[len(part.before) : size] for out in outs]
        outs = [out[size:] for out in outs]
        every = (*heads, denoised(part.noisy, rate))
        yield Scores(part.event, *(by_second(part.clean, each, rate) for each in every))
    return outs


def close(scores: list[Scores], other: str, skipped: int) -> list[bool]:
    """Say of each second with speech whether the stream that goes on is close to another one.

    `other` is ``quiet`` or ``fresh``; `skipped` seconds of each part are left out.
    """
    found = []
    for each in scores:
        pairs = zip(each.going_on[skipped:], getattr(each, other)[skipped:], strict=True)
        found += [bool(own >= wanted - CLOSE) for own, wanted in pairs if not np.isnan(wanted)]
    return found


def seconds_to_recovery(scores: Scores) -> int:
    """Return the first second from which on no two in a row are below the stream without events."""
    far = scores.going_on < scores.quiet - CLOSE
    twice = np.flatnonzero(far[:-1] & far[1:])
    return int(twice[-1]) + 2 if len(twice) else int(far[0])


HEADINGS = [
    "event",
    "times",
    "SI-SDR dB",
    "quiet dB",
    "fresh dB",
    "close to quiet %",
    "later %",
    "close to fresh %",
    "later %",
    "recovered after s",
]


def table(scores: list[Scores]) -> str:
    """Return a Markdown table with a line for each event, and for all but "none" together."""
    lines, events = [], [name for name in EVENTS if name != "none"]
    for name in [*EVENTS, ALL]:
        own = [each for each in scores if each.event in (events if name == ALL else [name])]
        if not own:
            continue
        late = [
            np.concatenate([getattr(s, field)[1:] for s in own]) for field in Scores._fields[1:]
        ]
        means = (f"{np.nanmean(np.maximum(each, -30)):.2f}" for each in late)
        shares = (
            f"{100 * np.mean(close(own, other, skipped)):.1f}"
            for other in ("quiet", "fresh")
            for skipped in (0, 1)
        )
        worst = max(map(seconds_to_recovery, own))
        lines.append([name, f"{len(own)}", *means, *shares, f"{worst}"])
    return tables.markdown(HEADINGS, lines)


def main() -> None:
    """Run the command line."""
    parser = options_of("benchmarks.hard_events", __doc__)
    parser.add_argument("--rate", type=int, choices=(8000, RATE, 48000), default=RATE)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    print(table(list(measured(calls(asked.rate, asked.seed), asked.rate, asked.minutes))))


if __name__ == "__main__":
    run_main(main)
