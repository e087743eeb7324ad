"""Check kernels of other libraries, and the check: ``python -m benchmarks.checks power --write``.

``blackjax`` and ``posteriors`` need these libraries, and print a report of each kernel. ``power``
makes the table of docs/checks.md: how often `check` fails ten broken samplers and ten right ones.
The target is a Gaussian posterior in three dimensions, with full gradients; its largest curvature
is 63.6.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from alphamf.inference.checks import check
from alphamf.inference.kernel import Kernel
from alphamf.tools import tables
from benchmarks.report import caption, options_of, publish, run_main
from tests.support import sampler_cases, twins

PAGE = Path(__file__).parents[1] / "docs" / "checks.md"
TARGET = sampler_cases.posterior()
LEAST = float(1 / np.linalg.eigvalsh(TARGET.precision).max())
SEEDS = 20


class Case(NamedTuple):
    """A kernel, and what `check` is to know of it."""

    kernel: Kernel
    order: float = 1.0
    steps: int = 400


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

    yield Case(stochastic("sgld", 0.5 * LEAST, blackjax.sgld(gradient), here))
    for leaps in (3, 10):
        made = blackjax.sghmc(gradient, leaps, alpha=1.0)
        h, steps = (0.3 if leaps == 3 else 0.1) * LEAST**0.5, 1600
        name = f"sghmc, {leaps} integration steps, alpha 1"
        yield Case(stochastic(name, h, made, here), steps=steps)
    for alpha, steps in ((0.01, 16_000), (1.0, 4000)):
        made = blackjax.sgnht(gradient, alpha)
        h = 0.05 * LEAST**0.5
        yield Case(stochastic(f"sgnht, alpha {alpha:g}", h, made, made.init), steps=steps)
    exact: dict[str, tuple[float, Callable[[float], Any], int]] = {
        "hmc": (0.6 * LEAST**0.5, lambda h: blackjax.hmc(log_density, h, jnp.ones(3), 3), 400),
        "mala": (0.5 * LEAST, lambda h: blackjax.mala(log_density, h), 400),
        "barker_proposal": (0.5 * LEAST**0.5, lambda h: blackjax.barker(log_density, h), 400),
        "nuts": (0.6 * LEAST**0.5, lambda h: blackjax.nuts(log_density, h, jnp.ones(3)), 100),
    }
    for name, (h, build, steps) in exact.items():
        start = build(h)
        yield Case(
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
    yield Case(kernel("sgld", 0.5 * LEAST))
    yield Case(kernel("sglrw", 0.5 * LEAST))
    yield Case(kernel("sghmc", 0.3 * root, alpha=1.0))
    yield Case(kernel("sghmc", 0.02 * root, alpha=1.0), steps=4000)
    yield Case(kernel("baoa", 1.2 * root, alpha=1.0), 2.0)


PARTS = {"blackjax": blackjax_kernels, "posteriors": posteriors_kernels}


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
    """Check the kernels of a library, or the check itself."""
    parser = options_of("benchmarks.checks", __doc__)
    parser.add_argument("part", choices=(*PARTS, "power"))
    parser.add_argument("--chains", type=int, default=2000, metavar="N", help="(default 2000)")
    parser.add_argument("--write", action="store_true", help="put the table of power into the page")
    asked = parser.parse_args()
    if asked.part != "power":
        for each in PARTS[asked.part]():
            chosen = {"order": each.order, "steps": each.steps, "chains": asked.chains}
            print(check(each.kernel, TARGET, **chosen), flush=True)
        return
    heads = ["sampler", f"failed, of {SEEDS} seeds", "would have been seen in all variances, %"]
    text = tables.markdown(heads, failures(asked.chains, SEEDS))
    note = caption("benchmarks.checks", sys.argv[1:], ("alphamf", "numpy"))
    publish(PAGE, "checks:power", f"{text}\n\n{note}", write=asked.write)


if __name__ == "__main__":
    run_main(main)
