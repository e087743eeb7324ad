"""How often `check` fails ten broken samplers and ten right ones: the table of docs/checks.md.

For example: ``python -m benchmarks.checks --write``. The target is a Gaussian posterior in three
dimensions, with full gradients; its largest curvature is 63.6.
"""

import re
import sys
from collections.abc import Iterator
from math import inf
from typing import Any

from alphamf.inference.checks import check
from alphamf.tools import tables
from benchmarks.report import ROOT, publish, run_main
from tests.support import sampler_cases, twins

PAGE = ROOT / "docs" / "checks.md"
TARGET = sampler_cases.posterior()
SEEDS = 20


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


def main(*, chains: int = 2000, write: bool = False) -> None:
    """Check the samplers, and print the table."""
    heads = ["sampler", f"failed, of {SEEDS} seeds", "would have been seen in all variances, %"]
    table = tables.markdown(heads, failures(chains, SEEDS))
    publish(PAGE, "checks:power", table, write=write)


if __name__ == "__main__":
    run_main(main)
