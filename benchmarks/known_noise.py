r"""Does it help to say where there is noise alone? The table of ``docs/log/in-and-out.md``.

Clips of development (`benchmarks.front_clips`' corpora) with three seconds of their noise before
the speech: ``noise_from=[(0, 3)]`` against nothing, in one recording ("before it"), and the speech
alone with those three seconds as a noise from elsewhere ("elsewhere"), as in the later segments of
a long recording. Scores are those of the speech without the three seconds. For example::

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.known_noise --clips 30 --write
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from alphamf.denoising.api import PRESETS, denoise, denoise_stream
from alphamf.denoising.hints import Hints
from alphamf.evaluation.mixing import mixture
from alphamf.tools import tables
from alphamf.tools.arrays import Floats
from benchmarks.clip_scores import SCORES, scores
from benchmarks.front_clips import TALKERS, manifest, mono, turned
from benchmarks.pairs import files
from benchmarks.report import caption, publish

PAGE = Path(__file__).parents[1] / "docs" / "log" / "in-and-out.md"
LEAD = 3
"""Seconds of noise before the speech."""

KINDS = ("stationary", "babble", "nonstationary", "impulsive", "music")
SNRS = (0, 5, 10)
PLACES = ("before it", "elsewhere")


class Clip(NamedTuple):
    """Noise, then speech in it: shape (samples,) each; `clean` is the speech alone."""

    kind: str
    rate: int
    lead: Floats
    clean: Floats
    noisy: Floats


def wide(count: int, rate: int = 16000) -> Iterator[Clip]:
    """Yield utterances of ``speech-16k`` in noises of ``noise-48k``, both of the split ``dev``."""
    noises = manifest("noise-48k")
    for k, chosen in enumerate(turned(count)):
        rng = np.random.default_rng((2, k))
        kind, snr = KINDS[k % len(KINDS)], SNRS[k // len(KINDS) % len(SNRS)]
        path, _, speaker = chosen[0]
        clean = mono(path, rate)[: 6 * rate]
        whole = np.pad(clean, (LEAD * rate, 0))
        if kind == "babble":
            others = [mono(each, rate) for each, _, name in chosen[1:] if name != speaker][:TALKERS]
            noise = sum(np.resize(each / each.std(), len(whole)) for each in others)
        else:
            known = [each for each, name, _ in noises if name == kind]
            noise = mono(known[rng.integers(len(known))], rate)
        power = mixture.power(clean, rate, "plain")
        noisy, _ = mixture.mix(whole, power, mixture.noise(noise, rate), snr, rng)
        yield Clip(kind, rate, noisy[: LEAD * rate], clean, noisy[LEAD * rate :])


def narrow(count: int, rate: int = 8000) -> Iterator[Clip]:
    """Yield train sentences of NOIZEUS, with the noise of the next sentences before them."""
    every = files(split="train", snrs=[str(snr) for snr in SNRS])
    for k in np.random.default_rng(0).permutation(len(every))[:count]:
        clean, noisy = (mono(path, rate) for path in every[k])
        same = [pair for pair in every if pair[1].parent == every[k][1].parent]
        place = same.index(every[k])
        pairs = [same[(place + after) % len(same)] for after in (1, 2)]
        noise = np.concatenate([mono(two, rate) - mono(one, rate) for one, two in pairs])
        noise *= (noisy - clean).std() / noise.std()
        kind = every[k][1].parent.name.partition("_")[0]
        yield Clip(kind, rate, noise[: LEAD * rate], clean, noisy)


def measured(clip: Clip, preset: str) -> dict[str, list[list[float]]]:
    """Return the scores without and with what is known of the noise, by place."""
    whole, lead = np.concatenate([clip.lead, clip.noisy]), len(clip.lead)
    stretch = [(0, lead / clip.rate)]

    def elsewhere(hints: Hints | None) -> Floats:
        segments = denoise_stream([clip.noisy[:, None]], clip.rate, preset, hints=hints)
        return np.concatenate([segment.audio for segment in segments])[:, 0]

    before = [denoise(whole, clip.rate, preset, noise_from=each) for each in ((), stretch)]
    other = [elsewhere(hints) for hints in (None, Hints(noise=clip.lead[:, None]))]
    found = [[one.audio[lead:] for one in before], other]
    return {
        place: [scores(clip.clean, audio, clip.rate) for audio in pair]
        for place, pair in zip(PLACES, found, strict=True)
    }


def table(found: list[tuple[Clip, dict[str, list[list[float]]]]]) -> str:
    """Return differences of the scores with standard errors, of all clips and by kind of noise."""
    lines = []
    for rate in sorted({clip.rate for clip, _ in found}, reverse=True):
        own = [(clip.kind, each) for clip, each in found if clip.rate == rate]
        for kind in ["all", *sorted({kind for kind, _ in own})]:
            for place in PLACES:
                chosen = [each[place] for name, each in own if kind in ("all", name)]
                rows = np.array(chosen, float)
                line = [str(rate), kind, place, str(len(rows)), f"{rows[:, 0, 0].mean():.2f}"]
                for column in (rows[:, 1] - rows[:, 0]).T:
                    change = tables.mean_and_error(column[np.isfinite(column)])
                    line.append(tables.with_error(*change, 3))
                lines.append(line)
    gains = [f"gain of {score}" for score in SCORES]
    return tables.markdown(["Hz", "noise", "stretch", "clips", "SI-SDR dB without", *gains], lines)


def main() -> None:
    """Run the command line, and print the table."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.known_noise",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--clips", type=int, default=30, metavar="N", help="of each rate")
    parser.add_argument("--preset", choices=PRESETS, default="fast")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    asked = parser.parse_args()
    found = []
    for make in (wide, narrow):
        for clip in make(asked.clips):
            found.append((clip, measured(clip, asked.preset)))
            print(f"\r{len(found)} of {2 * asked.clips} clips", end="", file=sys.stderr)
    print(file=sys.stderr)
    options = ["--clips", str(asked.clips), "--preset", asked.preset]
    note = caption("benchmarks.known_noise", options, ("alphamf", "numpy"))
    publish(PAGE, "known-noise", f"{table(found)}\n\n{note}", write=asked.write)


if __name__ == "__main__":
    main()
