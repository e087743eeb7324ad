r"""``richardson-rate``: figure 3, bias and error of SGRRLD for step sizes that fall with K.

Durmus et al. (NIPS 2016), section 5.1: K = 1e6 iterations with a constant step
:math:`\gamma_b K^{-\alpha}` for the bias of the estimated variance, and
:math:`\gamma_M K^{-\alpha}` for its mean square error, at several exponents. By theorem 2 the best
are 1/3 and 1/5; the constants are the paper's, 2e-3 and 1e-3. The exponents are not printed; these
have the best one in their middle. The model and the runs are those of ``richardson``, 100 of them
from random starts, with the same proportion of burn-in.
"""

from fractions import Fraction
from typing import Any

from alphamf.research.experiments.base import Job, JobRecord, Numbers, blank_panels
from alphamf.research.experiments.richardson import gaussian

ITERATIONS = 1_000_000
"""The number of iterations K in the full form, burn-in included."""

CONSTANTS = {"bias": 2e-3, "mse": 1e-3}
"""The paper's constants gamma_b and gamma_M."""

BEST = {"bias": Fraction(1, 3), "mse": Fraction(1, 5)}
"""The best exponents by theorem 2."""

EXPONENTS = {"bias": (0.2, 4 / 15, 1 / 3, 0.4, 7 / 15), "mse": (0.1, 0.15, 0.2, 0.25, 0.3)}


def jobs(full: bool, seed: int) -> list[Job]:
    """List one job per quantity and exponent."""
    steps = ITERATIONS if full else ITERATIONS // 400
    part = gaussian.BURN_IN / gaussian.STEPS
    return [
        {
            "figure": quantity,
            "method": "SGRRLD",
            "size": 1,
            "exponent": round(exponent, 4),
            "gamma": float(f"{CONSTANTS[quantity] * steps**-exponent:.4g}"),
            "steps": steps,
            "burn_in": round(part * steps),
            "chains": gaussian.RUNS if full else 20,
            "seed": seed,
        }
        for quantity, several in EXPONENTS.items()
        for exponent in several
    ]


def work(job: Job) -> Numbers:
    """Run the chains of one quantity and exponent, as in ``richardson``."""
    return gaussian.work(job)


def table(records: list[JobRecord]) -> list[dict[str, Any]]:
    """Return a row per quantity and exponent."""
    return [
        {
            "figure 3": job["figure"],
            "exponent": job["exponent"],
            "gamma": job["gamma"],
            "bias": f"{n['bias'][-1]:.3g} ± {n['error'][-1]:.1g}",
            "law": n["law"],
            "mse": n["mse"][-1],
            "paper": f"least at {BEST[job['figure']]}",
        }
        for job, n in records
    ]


def figure(records: list[JobRecord]) -> Any:
    """Draw the bias and the mean square error against the exponent."""
    drawing, panels = blank_panels(9, 4, 1, 2)
    for quantity, panel in zip(CONSTANTS, panels, strict=True):
        own = [(job["exponent"], n) for job, n in records if job["figure"] == quantity]
        exponents = [exponent for exponent, _ in own]
        if quantity == "bias":
            values = [abs(n["bias"][-1]) for _, n in own]
            panel.errorbar(exponents, values, [n["error"][-1] for _, n in own], marker=".")
            panel.set_yscale("log")
        else:
            panel.semilogy(exponents, [n["mse"][-1] for _, n in own], marker=".")
        panel.axvline(float(BEST[quantity]), linestyle=":", color="grey")
        panel.set(xlabel="exponent", ylabel=f"{quantity} of the variance")
    return drawing
