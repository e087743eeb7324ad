"""Check samplers on a Gaussian: ``python -m benchmarks.checks alphamf --write``.

The parts are ``alphamf``, ``blackjax`` and ``posteriors``, of which the last two need these
libraries, and ``power``: how often `check` fails ten broken samplers and ten right ones. The
target is a Gaussian posterior in three dimensions, with full gradients; its largest curvature is
63.6. One row per sampler: the bias of the moment that is furthest off, in percent of a variance,
and the verdict of `alphamf.inference.checks.check`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from math import inf, log
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from alphamf.inference.checks import Report, check
from alphamf.inference.kernel import Kernel
from alphamf.tools import tables
from benchmarks.report import caption, options_of, publish, run_main
from tests.support import sampler_cases, twins

PAGE = Path(__file__).parents[1] / "docs" / "checks.md"
TARGET = sampler_cases.posterior()
LEAST = float(1 / np.linalg.eigvalsh(TARGET.precision).max())
DIVERGED = 100.0
"""A bias of so many variances counts as divergence."""

STEPS = {"-em": 800, "qnhmc": 800, "hamcmc": 800}
"""Steps by parts of names, of samplers that learn until step 300 or are slow."""


SEEDS = 20


class Case(NamedTuple):
    """A sampler, its name, and what `check` is to know of it."""

    name: str
    sampler: Any
    order: float = 1.0
    steps: int = 400


def own(names: Iterable[str] = tuple(sampler_cases.CASES)) -> Iterator[Case]:
    """Yield samplers of the library that move on the whole line."""
    for name in names:
        sampler, _ = sampler_cases.made(name, TARGET)
        order = inf if name in sampler_cases.EXACT else 1.0
        steps = next((steps for part, steps in STEPS.items() if part in name), 400)
        yield Case(f"`{name}`", sampler, order, steps)


def blackjax_kernels() -> Iterator[Case]:
    """Yield kernels of blackjax, compiled, in double precision."""
    import blackjax
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    precision, linear = jnp.asarray(TARGET.precision), jnp.asarray(TARGET.linear)

    def log_density(theta: Any) -> Any:
        return linear @ theta - theta @ precision @ theta / 2

    def gradient(theta: Any, batch: Any) -> Any:
        return jax.grad(log_density)(theta)

    def kernel(name: str, h: float, init: Any, step: Any) -> Kernel:
        moved = jax.jit(jax.vmap(step, in_axes=(0, 0, None)))

        def keys(seed: int, theta: Any) -> Any:
            return jax.random.split(jax.random.key(seed), len(theta))

        def move(seed: int, state: Any, size: float) -> tuple[Any, Any]:
            state = moved(keys(seed, jax.tree.leaves(state)[0]), state, size)
            return state, np.array(getattr(state, "position", state))

        return Kernel(
            h, lambda seed, theta: jax.vmap(init)(jnp.asarray(theta), keys(seed, theta)), move, name
        )

    def stochastic(name: str, h: float, made: Any, init: Any) -> Kernel:
        return kernel(name, h, init, lambda key, state, size: made.step(key, state, None, size))

    def here(theta: Any, key: Any) -> Any:
        return theta

    yield Case("`sgld`", stochastic("sgld", 0.5 * LEAST, blackjax.sgld(gradient), here))
    for leaps in (3, 10):
        made = blackjax.sghmc(gradient, leaps, alpha=1.0)
        h, steps = (0.3 if leaps == 3 else 0.1) * LEAST**0.5, 1600
        name = f"`sghmc`, {leaps} integration steps, alpha 1"
        yield Case(name, stochastic("sghmc", h, made, here), steps=steps)
    for alpha, steps in ((0.01, 16_000), (1.0, 4000)):
        made = blackjax.sgnht(gradient, alpha)
        h = 0.05 * LEAST**0.5
        yield Case(
            f"`sgnht`, alpha {alpha:g}", stochastic("sgnht", h, made, made.init), steps=steps
        )
    exact: dict[str, tuple[float, Callable[[float], Any], int]] = {
        "hmc": (0.6 * LEAST**0.5, lambda h: blackjax.hmc(log_density, h, jnp.ones(3), 3), 400),
        "mala": (0.5 * LEAST, lambda h: blackjax.mala(log_density, h), 400),
        "barker_proposal": (0.5 * LEAST**0.5, lambda h: blackjax.barker(log_density, h), 400),
        "nuts": (0.6 * LEAST**0.5, lambda h: blackjax.nuts(log_density, h, jnp.ones(3)), 100),
    }
    for name, (h, build, steps) in exact.items():
        start = build(h)
        yield Case(
            f"`{name}`",
            kernel(
                name,
                h,
                lambda theta, key, start=start: start.init(theta),
                lambda key, state, size, build=build: build(size).step(key, state)[0],
            ),
            inf,
            steps,
        )


def posteriors_kernels() -> Iterator[Case]:
    """Yield kernels of posteriors; chains are rows of one tensor, which they move independently."""
    import torch
    from posteriors import sgmcmc

    precision, linear = torch.tensor(TARGET.precision), torch.tensor(TARGET.linear)

    def log_posterior(theta: Any, batch: Any) -> Any:
        one = linear @ theta.T - ((theta @ precision) * theta).sum(-1) / 2
        return one.sum(), torch.tensor([])

    def kernel(name: str, h: float, **settings: float) -> Kernel:
        module = getattr(sgmcmc, name)

        def start(seed: int, theta: Any) -> Any:
            torch.manual_seed(seed)
            return module.init(torch.tensor(theta))

        def move(seed: int, state: Any, size: float) -> tuple[Any, Any]:
            torch.manual_seed(seed)
            state, _ = module.update(state, None, log_posterior, size, **settings)
            return state, state.params.numpy()

        return Kernel(h, start, move, name)

    root = LEAST**0.5
    yield Case("`sgld`", kernel("sgld", 0.5 * LEAST))
    yield Case("`sglrw`", kernel("sglrw", 0.5 * LEAST))
    yield Case("`sghmc`, alpha 1", kernel("sghmc", 0.3 * root, alpha=1.0))
    yield Case("`sghmc`, alpha 1", kernel("sghmc", 0.02 * root, alpha=1.0), steps=4000)
    yield Case("`baoa`, alpha 1", kernel("baoa", 1.2 * root, alpha=1.0), 2.0)


PARTS = {"alphamf": own, "blackjax": blackjax_kernels, "posteriors": posteriors_kernels}


def row(case: Case, report: Report) -> list[str]:
    """Return the cells of a sampler."""
    if not np.abs([each.bias for each in report.biases]).max() < DIVERGED:
        return [case.name, f"{report.biases[0].step_size:.3g}", "diverges", "", "", "**failed**"]
    first, last = report.biases[0], report.biases[-1]
    worst = int(np.argmax(np.abs(first.bias) / first.error))
    cells = [
        f"{100 * each.bias[worst]:+.1f} ± {100 * each.error[worst]:.1f}" for each in (first, last)
    ]
    order = "exact"
    if case.order < inf:
        seen = np.abs(first.bias[worst]) > 4 * first.error[worst]
        ratio = abs(first.bias[worst] / last.bias[worst])
        spread = np.hypot(
            first.error[worst] / first.bias[worst], last.error[worst] / last.bias[worst]
        )
        scale = log(first.step_size / last.step_size)
        order = f"{log(ratio) / scale:.1f} ± {spread / scale:.1f}" if seen else "no bias seen"
    else:
        cells[1] = ""
    verdict = "passed" if report.passed else "**failed**"
    return [case.name, f"{first.step_size:.3g}", *cells, order, verdict]


def power() -> Iterator[tuple[str, Any, Any, float]]:
    """Yield name, sampler, target and order: ten that are broken, then ten that are right."""
    steep = twins.Wrong(TARGET, grad=lambda right, theta: 1.05 * right.grad(theta))
    wrong = [
        ("sgld", "noise 5 % too hot", twins.Hot),
        ("sgld", "noise of a coordinate 10 % too cold", twins.ColdFirst),
        ("sgld", "noise correlated in time by .1", twins.Remembering),
        ("sgld", "noise of coordinates correlated by .1", twins.Alike),
        ("rsgld-diagonal", "noise 5 % too hot", twins.Hot),
        ("sghmc", "noise 5 % too hot", twins.Hot),
        ("hmc", "momenta 5 % too hot", twins.Hot),
        ("hmc", "no Metropolis test", twins.AcceptsAll),
    ]
    for name, what, draws in wrong:
        sampler = twins.twin(sampler_cases.made(name, TARGET)[0], draws)
        yield f"`{name}`, {what}", sampler, TARGET, inf if name in sampler_cases.EXACT else 1.0
    yield "`sgld`, gradient 5 % too steep", sampler_cases.made("sgld", TARGET)[0], steep, 1.0
    yield "`psgld`, as published", sampler_cases.made("psgld", TARGET)[0], TARGET, 1.0
    for name in RIGHT:
        order = inf if name in sampler_cases.EXACT else 1.0
        yield f"`{name}`", sampler_cases.made(name, TARGET)[0], TARGET, order


RIGHT = ("sgld", "rsgld-diagonal", "sgrrld", "resgld", "sghmc", "sghmc-splitting", "sghmc-baoab",
         "sgnht", "hmc", "rhmc")  # fmt: skip


def failures(chains: int, seeds: int) -> list[list[str]]:
    """Return a row for each sampler of `power`: how many seeds it fails at."""
    rows = []
    for name, sampler, target, order in power():
        part = 1 if "," in name else 2  # false alarms do not depend on the number of chains
        reports = [
            check(sampler, target, order=order, steps=400 // part, chains=chains // part, seed=seed)
            for seed in range(seeds)
        ]
        sentence = reports[0].findings[-1].sentence
        (least,) = re.findall(r"any moment, ([\d.]+) %", sentence)
        rows.append([name, str(sum(not each.passed for each in reports)), least])
        print(*rows[-1], file=sys.stderr, flush=True)
    return rows


def main() -> None:
    """Check the samplers of a part, and print the table."""
    parser = options_of("benchmarks.checks", __doc__)
    parser.add_argument("part", choices=(*PARTS, "power"))
    parser.add_argument("names", nargs="*", metavar="NAME", help="print only these samplers")
    parser.add_argument("--chains", type=int, default=2000, metavar="N", help="(default 2000)")
    parser.add_argument("--write", action="store_true", help="put the table into docs/checks.md")
    asked = parser.parse_args()
    known = sampler_cases.CASES if asked.part == "alphamf" and not asked.write else {}
    if not known.keys() >= set(asked.names):
        parser.error("NAME is a sampler in tests/support/sampler_cases.py: alphamf without --write")
    if asked.part == "power":
        heads = ["sampler", f"failed, of {SEEDS} seeds", "would have been seen in all variances, %"]
        text = tables.markdown(heads, failures(asked.chains, SEEDS))
        note = caption("benchmarks.checks", sys.argv[1:], ("alphamf", "numpy"))
        publish(PAGE, "checks:power", f"{text}\n\n{note}", write=asked.write, columns=None)
        return
    lines = []
    for case in own(asked.names) if asked.names else PARTS[asked.part]():
        named = replace(case.sampler, name=case.name) if isinstance(case.sampler, Kernel) else None
        report = check(
            named or case.sampler, TARGET, order=case.order, steps=case.steps, chains=asked.chains
        )
        print(report, file=sys.stderr, flush=True)
        lines.append(row(case, report))
    headings = ["sampler", "h", "bias at h, %", "at h/4, %", "order", "verdict"]
    packages = ("alphamf", "numpy") if asked.part == "alphamf" else (asked.part, "numpy")
    note = caption("benchmarks.checks", sys.argv[1:], packages)
    text = f"{tables.markdown(headings, lines)}\n\n{note}"
    publish(PAGE, f"checks:{asked.part}", text, write=asked.write)


if __name__ == "__main__":
    run_main(main)
