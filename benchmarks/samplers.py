r"""Cost of the samplers, and two questions about their laws.

The tables and figures of docs/samplers.md::

    python -m benchmarks.samplers cost
    python -m benchmarks.samplers size
    python -m benchmarks.samplers memory
    python -m benchmarks.samplers mass
    python -m benchmarks.samplers extensions
    ALPHAMF_DATA=... python -m benchmarks.samplers ratings

cost
    Time of a step on linear regression with 10 000 points in 100 dimensions, minibatches of 100
    (all points for samplers that accept or reject), as a ratio to SGLD's in the same run.
size
    Time and memory of a step, for HAMCMC and others of linear cost, up to a million dimensions;
    and 10 000 chains of SGLD moved as one array.
memory
    Does HAMCMC's memory disturb the invariant law? E |theta|^2 under exp(-|theta|^4 / 4) in the
    plane against the step size, for Langevin chains and for HAMCMC.
mass
    What does a mass adapt to, given momenta or positions? A Gaussian in 10 dimensions with
    standard deviations from 0.1 to 10.
extensions
    HAMCMC with momenta, and Richardson-Romberg around it, on a Gaussian in 10 dimensions.
ratings
    The same, and stochastic QNHMC, on matrix factorisation of MovieLens-1M.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.report import caption, options_of, write_section
from benchmarks.sampler_cost import cost, size
from benchmarks.sampler_extensions import extensions
from benchmarks.sampler_laws import mass, memory
from benchmarks.sampler_ratings import ratings

REPOSITORY = Path(__file__).parents[1]

PAGE = REPOSITORY / "docs" / "samplers.md"

PACKAGES = ("alphamf", "numpy", "arviz-stats")


PARTS: dict[str, Callable[[], str]] = {
    "cost": cost,
    "size": size,
    "memory": memory,
    "mass": mass,
    "extensions": extensions,
    "ratings": ratings,
}


def main() -> None:
    """Make the tables that the command line names, and write them."""
    parser = options_of("benchmarks.samplers", __doc__)
    parser.add_argument("parts", nargs="+", choices=PARTS, metavar="PART", help=", ".join(PARTS))
    for part in parser.parse_args().parts:
        text = f"{PARTS[part]()}\n\n{caption('benchmarks.samplers', [part], PACKAGES)}"
        write_section(PAGE, f"samplers:{part}", text)
        print(text)


if __name__ == "__main__":
    main()
