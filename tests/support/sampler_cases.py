"""Every sampler by its name, with hyperparameters that suit a correlated Gaussian posterior."""

import numpy as np

from alphamf.inference.samplers.masses import MassEM
from alphamf.inference.samplers.registry import SAMPLERS
from alphamf.inference.targets.gaussian import LinearGaussian

LEARNER = {"mass": MassEM(source="positions", freeze=300)}

# Step size and settings by name, as `made` gives them units.
EXACT = {
    "hmc": (0.6, {"leaps": 3}),
    "hmc-em": (0.6, {"leaps": 3, **LEARNER}),
    "rhmc": (0.6, {"leaps": 3, "fixed_points": 1}),
    "hmc-bfgs": (0.6, {"leaps": 3, "ensemble": 5, "gamma": 0.02}),
    "qnhmc": (2.0, {"leaps": 5, "freeze": 300, "gamma": 0.02}),
    "qnhmc-lbfgs": (2.0, {"leaps": 5, "freeze": 300, "gamma": 0.02}),
}
DISCRETISED = {
    "sgld": (0.5, {}),
    "rsgld": (0.3, {}),
    "rsgld-diagonal": (0.3, {}),
    "sghmc": (1.2, {"leaps": 3}),
    "sghmc-splitting": (1.2, {"leaps": 3}),
    "sghmc-baoab": (1.2, {"leaps": 3}),
    "sgrrld": (1.0, {}),
    "sgrrhmc": (1.5, {}),
    "sgrrmld": (0.5, {}),
}
NEAR = {
    "psgld-gamma": (0.2, {"damping": 100.0}),
    "hamcmc": (0.02, {"memory": 4, "gamma": 0.1}),
    # Momenta of a learned mass, about the precision, are forgotten in a time of M / C.
    "sghmc-em": (0.1, {"leaps": 5, "friction": 30.0, **LEARNER}),
    "sgnht": (0.05, {"leaps": 10}),
    "sgnht-em": (0.05, {"leaps": 10, "diffusion": 30.0, **LEARNER}),
    "sg-nphmc": (0.15, {"leaps": 5}),
    "sg-nphmc-em": (0.15, {"leaps": 5, **LEARNER}),
    "sg-nphmc-em-q": (0.15, {"leaps": 5, **LEARNER, "bath": MassEM(freeze=300)}),
    "sgr-nphmc": (0.3, {"leaps": 5}),
    "fuld": (0.6, {"leaps": 5}),
    "resgld": (0.5, {"temperature": 4.0, "hot_size": 0.25}),
}
# On this posterior; the other one's error needs curvature that varies
# (tests/inference/samplers/test_hamcmc.py).
WRONG = {"psgld": (0.2, {"damping": 1.0}), "psgld-lagged": (0.4, {"damping": 3.0})}
# The second has a law without a variance there (tests/inference/samplers/test_fractional.py).
OTHERS = {"naive-qn": (0.02, {"memory": 4, "gamma": 0.1}), "fla": (0.3, {})}
FACTORS = {"sgrld", "em", "hamcmc-positive", "hmc-positive"}
CASES = EXACT | DISCRETISED | NEAR | WRONG | OTHERS


def posterior(dtype=np.float64, batch=None):
    """Return a correlated posterior in three dimensions."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((30, 3)) @ np.array([[1.0, 0.5, 0.2], [0, 0.8, 0.3], [0, 0, 0.6]])
    x = a @ np.ones(3) + rng.standard_normal(30)
    return LinearGaussian(a.astype(dtype), x.astype(dtype), 1.0, batch=batch)


def made(name, target):
    """Return the sampler of a name for a target, and its step size.

    In units of the posterior's least variance (Langevin samplers) or standard deviation (momentum
    samplers, of unit mass); samplers that know its scale need none.
    """
    size, settings = CASES[name]
    least = 1 / float(np.linalg.eigvalsh(target.precision.astype(float)).max())
    if name in ("sgld", "sgrrld", "sgrrmld", "fla", "resgld"):
        size *= least
    elif name.startswith("psgld"):
        size *= least * (settings["damping"] + 10)  # a typical 1 / G
    elif (
        name.startswith(("hmc-em", "sghmc", "sgnht", "sg-nphmc", "sgrrhmc", "fuld"))
        or name == "hmc"
    ):
        size *= least**0.5
    return SAMPLERS[name](size, **settings), size
