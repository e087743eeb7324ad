"""Time a step beside blackjax: ``python -m benchmarks.steps --write``.

Microseconds per step on one core, minibatches of 100 of 10 000 points in 100 dimensions, the
fastest of several runs. alphamf: `chain.run`, which also checks every state; *NumPy*: without the
compiled leaps. blackjax: ``jax.lax.scan`` after compilation, whose seconds stand in a column of
their own. SGHMC makes ten leaps a step; blackjax's read one minibatch for all ten, alphamf's a new
one for each.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from alphamf.inference import SAMPLERS, leaps, run
from alphamf.inference.random import generator
from alphamf.inference.targets.gaussian import LinearGaussian
from alphamf.inference.targets.logistic import LogisticRegression
from alphamf.tools import tables
from alphamf.tools.arrays import Array
from benchmarks.report import caption, options_of, publish, run_main

PAGE = Path(__file__).parents[1] / "docs" / "samplers.md"
POINTS, SIZE, BATCH, REPEATS = 10_000, 100, 100, 7
SETTINGS: dict[str, tuple[float, dict[str, int], int]] = {
    "sgld": (1e-6, {}, 2000),
    "sghmc": (1e-4, {"leaps": 10}, 400),
    "sgnht": (1e-4, {"leaps": 1}, 2000),
}
"""Step size, settings and number of steps of a run."""

WIDTHS = {"double": np.float64, "single": np.float32}
KINDS = ("gaussian", "logistic")


def data(kind: str, dtype: Any) -> tuple[Array, Array]:
    """Return features and values of a model of `KINDS`."""
    rng = generator(0)
    a = rng.standard_normal((POINTS, SIZE))
    z = a @ rng.standard_normal(SIZE)
    values = z + rng.standard_normal(POINTS) if kind == "gaussian" else z > 0
    return a.astype(dtype), values.astype(dtype)


def fastest(work: Callable[[], Any], steps: int) -> float:
    """Return microseconds per step of the fastest of `REPEATS` runs."""
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times) / steps * 1e6


def own(name: str, kind: str, dtype: Any) -> float:
    """Time a sampler of the library."""
    a, x = data(kind, dtype)
    target: Any = (
        LinearGaussian(a, x, 1.0, batch=BATCH)
        if kind == "gaussian"
        else LogisticRegression(a, x, batch=BATCH)
    )
    h, settings, steps = SETTINGS[name]
    sampler = SAMPLERS[name](h, **settings)

    def work() -> None:
        for _ in run(target, sampler, steps=steps, seed=0, start=np.zeros(SIZE, dtype)):
            pass

    return fastest(work, steps)


def blackjax_kernel(name: str, kind: str, dtype: Any) -> tuple[float, float]:
    """Time a kernel of blackjax; return microseconds per step, and seconds of compilation."""
    import blackjax
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", dtype == np.float64)
    a, x = (jnp.asarray(each) for each in data(kind, dtype))

    def log_density(theta: Any, chosen: Any) -> Any:
        z, y = a[chosen] @ theta, x[chosen]
        if kind == "gaussian":
            return -jnp.sum((y - z) ** 2) * (POINTS / BATCH) / 2 - theta @ theta / 2
        return jnp.sum(y * z - jnp.logaddexp(z, 0.0)) * (POINTS / BATCH) - theta @ theta / 20

    gradient = jax.grad(log_density)
    h, settings, steps = SETTINGS[name]
    made = getattr(blackjax, name)(gradient, *([settings["leaps"]] if name == "sghmc" else []))
    zeros = jnp.zeros(SIZE, dtype)
    start = made.init(zeros, jax.random.key(1)) if name == "sgnht" else zeros

    def one(state: Any, key: Any) -> tuple[Any, None]:
        for_step, for_rows = jax.random.split(key)
        chosen = jax.random.randint(for_rows, (BATCH,), 0, POINTS)
        return made.step(for_step, state, chosen, h), None

    @jax.jit
    def scan(key: Any) -> Any:
        return jax.lax.scan(one, start, jax.random.split(key, steps))[0]

    def work() -> None:
        jax.block_until_ready(scan(jax.random.key(0)))

    began = time.perf_counter()
    work()
    first = time.perf_counter() - began
    each = fastest(work, steps)
    return each, first - each * steps / 1e6


def row(name: str, kind: str) -> list[str]:
    """Return the cells of a sampler on a target."""
    cells, compilation = [], 0.0
    for dtype in WIDTHS.values():
        cells.append(f"{own(name, kind, dtype):.1f}")
        other, compilation = blackjax_kernel(name, kind, dtype)
        cells.append(f"{other:.1f}")
    compiled, leaps.COMPILED = leaps.COMPILED, False
    cells.append(f"{own(name, kind, np.float64):.1f}")
    leaps.COMPILED = compiled
    title = f"`{name}`" + (", ten leaps" if name == "sghmc" else "")
    return [title, kind, *cells, f"{compilation:.1f}"]


def main() -> None:
    """Time all, and print the table."""
    parser = options_of("benchmarks.steps", __doc__)
    parser.add_argument("--write", action="store_true", help="put the table into docs/samplers.md")
    asked = parser.parse_args()
    # JAX reads its flags when it is imported.
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    lines = []
    for kind in KINDS:
        for name in SETTINGS:
            lines.append(row(name, kind))
            print(*lines[-1], sep="\t", file=sys.stderr, flush=True)
    headings = ["sampler", "target"]
    for width in WIDTHS:
        headings += [f"alphamf, {width}", f"blackjax, {width}"]
    headings += ["NumPy, double", "blackjax compiles, s"]
    note = caption("benchmarks.steps", sys.argv[1:], ("alphamf", "numpy", "blackjax", "jax"))
    text = f"{tables.markdown(headings, lines)}\n\n{note}"
    publish(PAGE, "samplers:steps", text, write=asked.write)


if __name__ == "__main__":
    run_main(main)
