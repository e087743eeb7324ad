r"""Compare every sampler that denoises: ``python -m benchmarks.samplers --clips 6``.

``taskset -c 0 python -m benchmarks.samplers --own`` times a user's own density, also in blackjax.

The sound is the first `SECONDS` of the first clips of ``benchmarks.clips`` (split dev), at 8 kHz.
The preset is `plain` without learning the channel, so that all samplers have the same posterior.
The gain is the mean over a chain, without networks. Samplers that need a bounded gradient have a
Gamma prior of shape 1 on the speech, the others one of shape .1.

The reference of each posterior is the mean gain of a longer chain of HMC within Gibbs, which is
exact (`hmc-positive`). The distance to it is the root of the mean squared difference of the gain,
which is from 0 to 1, over all cells. The row *HMC again* is a second chain of the reference with
another seed: it shows the distance that chance and separate modes cause.

*At equal time*, every sampler takes the processor time that `hmc-positive` takes for the preset's
steps, with the same proportions of burn-in and average. Times are processor times of the process,
which has one thread, so that waiting for other programs does not count.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from alphamf.audio import stft
from alphamf.audio.resample import resample
from alphamf.denoising.posterior import sample_posterior
from alphamf.denoising.settings import METROPOLIS, PRESETS, Settings, kernel
from alphamf.denoising.weights import find
from alphamf.errors import AlphaMFError
from alphamf.factorization.priors import Gamma
from alphamf.inference import SAMPLERS, DensityTarget, JaxDensity, sample
from alphamf.scores.score import si_sdr
from alphamf.tools import pool, tables
from alphamf.tools.arrays import Floats
from benchmarks.clips import Clip, clips
from benchmarks.report import run_main

RATE, SECONDS = 8000, 3
PLAIN = replace(PRESETS["plain"], learn_channel=False)
EXACT = "hmc-positive"


class Chain(NamedTuple):
    """Mean gain of a chain, SI-SDR in dB, processor seconds, and acceptance of W and H or None."""

    gain: Floats
    score: float
    seconds: float
    accepted: float | None


def names() -> Iterator[str]:
    """Yield the samplers that denoise, in the order of the library.

    Samplers with an adaptive mass, for which the preset has too few steps, and variants of another
    sampler are left out.
    """
    for name in SAMPLERS:
        try:
            kernel(name)
        except AlphaMFError:
            continue
        if not name.startswith(("sghmc-", "psgld-lagged", "naive-")) and "-em" not in name:
            yield name


def sounds(count: int) -> list[Clip]:
    """Return clips at `RATE`, cut to their first `SECONDS`."""
    return [
        Clip(
            each.name,
            RATE,
            *(resample(x, each.rate, RATE)[: RATE * SECONDS] for x in (each.clean, each.noisy)),
        )
        for each in clips(16000, count, "dev")
    ]


def run_chain(clip: Clip, settings: Settings, seed: int = 0) -> Chain:
    """Sample the posterior of a clip, and score the speech of its mean gain."""
    model = find(RATE, "auto").dictionary
    scale = np.float32(2.0) ** -int(np.frexp(np.abs(clip.noisy).max())[1])
    spectrum = stft.forward(clip.noisy * scale, model.frame)
    began = time.process_time()
    found = sample_posterior(np.abs(spectrum) ** 2, model, settings, (seed, 0))
    seconds = time.process_time() - began
    speech = stft.inverse(spectrum * found.gain, model.frame, len(clip.clean))
    accepted = found.acceptance[2] if settings.sampler in METROPOLIS else None
    return Chain(found.gain, si_sdr(clip.clean, speech), seconds, accepted)


def measured(clip: Clip, steps: int) -> dict[str, Any]:
    """Run all samplers on a clip; return numbers by row. References have `steps` steps."""
    rows: dict[str, Any] = {"noisy input": {"score": si_sdr(clip.clean, clip.noisy)}}
    references: dict[float, Floats] = {}
    exact = run_chain(clip, replace(PLAIN, sampler=EXACT))

    def reference(shape: float) -> Floats:
        if shape not in references:
            long = replace(
                PLAIN,
                sampler=EXACT,
                steps=steps,
                keep=3 * steps // 4,
                prior_speech=Gamma(shape, 20.0),
            )
            one, other = (run_chain(clip, long, seed) for seed in (1, 2))
            references[shape] = one.gain
            rows[f"HMC again, shape {shape:g}"] = numbers(other, one.gain)
        return references[shape]

    for name in names():
        settings = replace(PLAIN, sampler=name)
        near = reference(settings.speech_prior.shape)
        chain = exact if name == EXACT else run_chain(clip, settings)
        longer = exact if name == EXACT else run_for(clip, settings, chain.seconds, exact.seconds)
        rows[name] = numbers(chain, near) | {
            "equal": distance(longer, near),
            "longer": longer.seconds,
        }
        print(f"{clip.name} {name} {json.dumps(rows[name])}", file=sys.stderr, flush=True)
    return rows


def run_for(clip: Clip, settings: Settings, known: float, seconds: float) -> Chain:
    """Sample for about `seconds`, if the settings' own number of steps takes `known` seconds."""
    start = run_chain(clip, replace(settings, steps=1, keep=1)).seconds
    times = (seconds - start) / (known - start)
    steps, keep = (max(1, round(times * count)) for count in (settings.steps, settings.keep))
    return run_chain(clip, replace(settings, steps=steps, keep=keep))


def distance(chain: Chain, reference: Floats) -> float:
    """Return the root of the mean squared difference of a chain's gain from the reference."""
    return float(np.sqrt(np.mean((chain.gain - reference) ** 2)))


def numbers(chain: Chain, reference: Floats) -> dict[str, float | None]:
    """Return the numbers of a chain that the table shows."""
    return {
        "score": chain.score,
        "distance": distance(chain, reference),
        "seconds": chain.seconds,
        "accepted": chain.accepted,
    }


# Numbers of a row, and their headings and decimals
COLUMNS = {
    "score": ("dev, SI-SDR dB", 2),
    "distance": ("distance of the gain to HMC's", 3),
    "seconds": ("CPU s", 1),
    "accepted": ("accepted", 2),
    "equal": ("distance at equal time", 3),
}


def table(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Return the lines of the table: means over the clips."""
    lines = [["sampler", *(heading for heading, _ in COLUMNS.values())]]
    for name in rows[0]:
        cells = []
        for key, (_, decimals) in COLUMNS.items():
            known = [row[name][key] for row in rows if row[name].get(key) is not None]
            mean = tables.mean_and_error(known) if known else ()
            cells.append(tables.format_mean(*mean, decimals) if known else "-")
        lines.append([name if " " in name else f"`{name}`", *cells])
    return lines


def own_density(steps: int) -> list[list[str]]:
    """Return a table of microseconds per step for linear regression, here and in blackjax."""
    import blackjax
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    a = rng.standard_normal((1000, 10), np.float32)
    data = a, a.sum(1) + rng.standard_normal(1000, np.float32)
    here, prior = (
        JaxDensity(lambda theta, a, x: -((x - a @ theta) ** 2).sum() / 2),
        JaxDensity(lambda theta: -(theta**2).sum() / 2),
    )
    start, on_device = jnp.zeros(10), tuple(map(jnp.asarray, data))
    estimate = blackjax.sgmcmc.gradients.grad_estimator(
        prior.log_density, lambda theta, row: here.log_density(theta, *row), 1000
    )

    def noisy(kernel: Any, size: float) -> Any:
        def step(state: Any, key: Any) -> Any:
            own, of_rows = jax.random.split(key)
            rows = jax.random.randint(of_rows, (100,), 0, 1000)
            state = kernel.step(own, state, tuple(x[rows] for x in on_device), size)
            return state, getattr(state, "position", state)

        return step, kernel.init(start, jax.random.key(1))

    def log_density(theta: Any) -> Any:
        return here.log_density(theta, *on_device) + prior.log_density(theta)

    def exact(state: Any, key: Any) -> Any:
        state, _ = hmc.step(key, state)
        return state, state.position

    hmc = blackjax.hmc(log_density, 0.02, jnp.ones(10), 10)
    theirs = {
        "sgld": noisy(blackjax.sgld(estimate), 1e-4),
        "sghmc": noisy(blackjax.sghmc(estimate, 10, alpha=1.0), 0.01),
        "sgnht": noisy(blackjax.sgnht(estimate, alpha=1.0), 0.01),
        "hmc": (exact, hmc.init(start)),
    }
    rows = [["sampler", "µs a step", "blackjax", "ratio"]]
    for name, size, settings in OWN:
        batch = None if name == "hmc" else 100
        target = DensityTarget(here, start, data=data, batch=batch, prior=prior)
        sampler = SAMPLERS[name](size, **settings)
        runs = [partial(sample, target, start, sampler=sampler, steps=steps)]
        if name in theirs:
            step, state = theirs[name]
            loop = jax.jit(partial(jax.lax.scan, step))
            runs.append(lambda: loop(state, jax.random.split(jax.random.key(0), steps))[1])  # noqa: B023
        times = [fastest(each) / steps * 1e6 for each in runs]
        cells = [f"{each:.1f}" for each in times] + ["-"] * (2 - len(times))
        rows.append([f"`{name}`", *cells, f"{times[0] / times[-1]:.2f}" if times[1:] else "-"])
        print(*rows[-1], file=sys.stderr, flush=True)
    return rows


OWN: list[tuple[str, float, dict[str, int]]] = [
    ("sgld", 1e-4, {}), ("psgld", 1e-4, {}), ("sghmc", 0.01, {}), ("sghmc-baoab", 0.01, {}),
    ("sgnht", 0.01, {"leaps": 1}), ("hamcmc", 1e-4, {}), ("hmc", 0.02, {}),
]  # fmt: skip


def fastest(run: Callable[[], Any]) -> float:
    """Return the seconds of the faster of two runs, after one that compiles."""
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        np.asarray(getattr(found := run(), "draws", found))
        seconds.append(time.perf_counter() - began)
    return min(seconds[1:])


def main(
    *, clips: int = 6, reference: int = 400, jobs: int = 2, own: bool = False
) -> list[list[str]]:
    """Run the chains, and return the table."""
    if own:
        return own_density(10_000)
    work = partial(measured, steps=reference)
    return table(list(pool.results(work, sounds(clips), workers=jobs)))


if __name__ == "__main__":
    run_main(main)
