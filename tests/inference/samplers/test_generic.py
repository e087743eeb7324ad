"""Laws of all samplers, also behind a wall, with masses and while they learn: one table."""

from functools import partial
from math import inf, nan
from typing import Any, NamedTuple

import numpy as np
import pytest

from alphamf.errors import AlphaMFError
from alphamf.factorization.alpha_mf import AlphaMFTarget, Source
from alphamf.factorization.priors import Gamma
from alphamf.inference.metric import Diagonal
from alphamf.inference.random import generator
from alphamf.inference.samplers.fractional import FLA, FULD
from alphamf.inference.samplers.hamcmc import HAMCMC, NaiveQN
from alphamf.inference.samplers.hmc import HMC, HMCBFGS, RHMC
from alphamf.inference.samplers.langevin import PSGLD, RSGLD, SGLD
from alphamf.inference.samplers.masses import MassEM
from alphamf.inference.samplers.positive import PositiveHAMCMC, PositiveHMC
from alphamf.inference.samplers.qnhmc import QNHMC
from alphamf.inference.samplers.replicas import ReplicaExchange
from alphamf.inference.samplers.richardson import SGRRHMC, SGRRLD, SGRRMLD
from alphamf.inference.samplers.sghmc import SGHMC, SGNHT
from alphamf.inference.samplers.sgnphmc import SGNPHMC, SGRNPHMC
from alphamf.inference.samplers.sgrld import EM, SGRLD
from tests.support.momenta import INVERSE_MASS, PRECISION, FixedMass, Normal
from tests.support.posteriors import MIXED, Curved, CurvedOrthant, Orthant, plane, space
from tests.support.states import check_alone, check_pure, check_resume, equal_states

RIGHT_ANGLED = np.diag([2.0, 0.5])
DIAGONAL = FixedMass([1.5, 0.3])


def mixture(free, blocks, dtype):
    """Return positive factors with latents; without `free` no prior grows without bound at zero."""
    power = generator(1).standard_exponential((12, 20)).astype(dtype)
    bounded = Gamma(2.0, 1.0)
    known = Source(2.0, 3, None, bounded, bounded)
    unbounded = Source(2.0, 3, None, prior_gains=Gamma(0.3, 0.5))
    second = Source(1.7, 2) if free else Source(1.7, 2, None, bounded, bounded)
    return AlphaMFTarget(power, [unbounded if free else known, second], blocks=blocks)


class Line(Normal):
    """The normal law of `PRECISION`, with a metric that varies: 1 + theta^2 / 2."""

    def draw(self, rng, theta):
        return Sloped(super().draw(rng, theta))

    def start(self, rng, chains=()):
        return 0.5 + rng.random((*chains, 2))


class Sloped(NamedTuple):
    plain: Any

    def grad(self, theta):
        return self.plain.grad(theta)

    def value(self, theta):
        return self.plain.value(theta)

    def metric(self, theta):
        return Diagonal(1 + theta**2 / 2, theta[..., :, None] * np.eye(2, dtype=theta.dtype))


def line(dtype):
    return Line(PRECISION, noise=1.0)


def half(dtype):
    return Line(RIGHT_ANGLED, positive=True)


def few(dtype):
    return plane(batch=4, dtype=dtype)


def fixed(make):
    """Return a target whose arrays are float64 for float32, too: it is not cast."""
    return lambda dtype: make() if dtype == np.float64 else None


factors, bounded, whole = (
    partial(mixture, True, 3),
    partial(mixture, False, 3),
    partial(mixture, True, 1),
)
ALL_DATA = fixed(space), fixed(Orthant), fixed(Curved), fixed(CurvedOrthant)
SPACE, ORTHANT, CURVED, CURVED_ORTHANT = ALL_DATA

CASES = [
    *((SGLD(0.01), each) for each in (few, half, line)),
    (SGLD(1e-3), bounded),
    *((PSGLD(0.01, lagged=lagged), each) for lagged in (False, True) for each in (few, half)),
    (PSGLD(0.01, correction=True), few),
    (PSGLD(1e-3), bounded),
    *((RSGLD(0.1, diagonal=flat), few) for flat in (False, True)),
    (RSGLD(0.1, diagonal=True), half),
    *((HAMCMC(h, memory=3, trust=10.0), each) for h, each in ((0.01, few), (0.01, half))),
    (HAMCMC(0.1, memory=3, gamma=1e-3, trust=1e3), bounded),
    (NaiveQN(0.01, memory=3), few),
    *((kind(), factors) for kind in (SGRLD, EM)),
    (SGRLD(0.3, freeze=3), factors),
    *((PositiveHAMCMC(0.2, memory=3, freeze=freeze), factors) for freeze in (1, 4)),
    (PositiveHMC(0.1, leaps=2, freeze=4), whole),
    *((SGHMC(0.1, 3, integrator=name, mass=mass), each)
      for name in ("euler", "splitting", "baoab")
      for mass in (FixedMass([1.0, 1.0]), DIAGONAL) for each in (few, half, line)),
    *((SGHMC(0.1, 3, integrator=name), few) for name in ("euler", "splitting", "baoab")),
    (SGHMC(0.1, 3, mass=FixedMass(INVERSE_MASS)), line),
    *((SGNHT(0.1, 3, mass=DIAGONAL), each) for each in (half, line)),
    (SGNHT(0.02, 3), few),
    (SGNHT(0.1, 3, mass=FixedMass(INVERSE_MASS)), line),
    *((kind, each) for kind in (SGNPHMC(0.1, 3), SGNPHMC(0.1, 3, mass=DIAGONAL), SGRNPHMC(0.1, 3))
      for each in (few, half, line)),
    *((kind, few) for kind in (SGRRLD(0.01), SGRRHMC(0.1), SGRRMLD(0.01), FULD(0.1, 1.7))),
    (ReplicaExchange(0.01), few),
    (FLA(0.001), few),
    (SGNHT(0.02, 3, mass=MassEM(samples=3, test="sgnht")), few),
    (SGNPHMC(0.05, 3, mass=MassEM(samples=3), bath=MassEM(samples=3)), few),
    *((HMC(0.1, 3, mass=MassEM(samples=3, dense=dense, source=source, freeze=14)), few)
      for dense, source in ((False, "momenta"), (True, "momenta"), (False, "positions"))),
    (HMC(0.2, 3), SPACE),
    (HMC(0.6, 3, FixedMass(MIXED)), ORTHANT),
    *((RHMC(0.4, 2, 4), each) for each in (CURVED, CURVED_ORTHANT)),
    *((sampler, SPACE) for sampler in (
        QNHMC(0.3, 3, gamma=0.2), QNHMC(0.3, 3, memory=2, freeze=15, gamma=0.2),
        HMCBFGS(0.5, 3, ensemble=4, gamma=0.1))),
    *((sampler, ORTHANT) for sampler in (QNHMC(0.3, 3, memory=3), HMCBFGS(0.5, 3, ensemble=3))),
]  # fmt: skip


def name_of(value):
    return getattr(value, "__name__", None) or type(value).__name__.lower()


every = pytest.mark.parametrize(("sampler", "make"), CASES, ids=name_of)


@every
def test_a_step_is_a_function_of_its_state_and_its_generator(sampler, make):
    check_pure(lambda: make(np.float64), sampler)


@every
@pytest.mark.parametrize("chains", [(), (2,)])
def test_resumed_run_is_the_unbroken_one_bit_for_bit(sampler, make, chains, tmp_path):
    dtype = np.float32 if make(np.float32) else np.float64
    check_resume(lambda: make(dtype), sampler, chains, tmp_path / "run.npz")


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("chains", [(), (2, 3)])
def test_dtype_shape_and_sign_stay(sampler, make, dtype, chains):
    target = make(dtype) or make(np.float64)
    theta = target.start(generator(0), chains).astype(dtype)
    before, rng = theta.copy(), generator(1)
    state = sampler.init(rng, theta)
    for _ in range(8):
        state = sampler.step(rng, state, target)
    np.testing.assert_array_equal(theta, before)
    for field in ("theta", "momentum", "thermostat", "past", "s", "y", "coarse", "hot"):
        array = getattr(state, field, None)
        if array is not None and (field == "theta" or make not in ALL_DATA):
            assert array.dtype == dtype or make in ALL_DATA
            assert np.isfinite(array).all()
    assert state.theta.shape == (*chains, target.size)
    assert state.step == 8
    assert (state.theta >= 0).all() or not target.positive


class Itself(Line):
    """The standard normal law: its gradient is theta, the array itself or a copy of it."""

    copied = False

    def draw(self, rng, theta):
        return self

    def grad(self, theta):
        return theta.copy() if self.copied else theta

    def value(self, theta):
        return 0.5 * (theta**2).sum(-1)

    def hessian_diagonal(self, theta):
        return np.ones_like(theta)

    def metric(self, theta):
        return Diagonal(np.ones_like(theta), np.zeros((*theta.shape, 2)))


@pytest.mark.parametrize("sampler", [each for each, make in CASES if make in (few, SPACE)])
def test_a_gradient_may_be_theta_itself(sampler):
    ends = []
    for copied in (False, True):
        target = Itself(PRECISION)
        target.copied, state = copied, sampler.init(generator(0), target.start(generator(0), (3,)))
        for number in range(5):
            state = sampler.step(generator(number), state, target)
        ends.append(state)
    equal_states(*ends)


@pytest.mark.parametrize(
    ("sampler", "make"), [case for case in CASES if case[1] in (half, *ALL_DATA)], ids=name_of
)
def test_chains_are_each_alone(sampler, make):
    check_alone(make(np.float64), sampler)


OUT_OF_RANGE = {
    EM: {"relaxation": (0.0, 2.0)},
    SGRLD: {"decay": (1.0, -0.1), "freeze": (0,)},
    PSGLD: {"decay": (1.0, -0.1), "damping": (-1.0,), "scale": (0.0, nan)},
    HAMCMC: {"memory": (1,), "gamma": (0.0, nan), "trust": (-1.0,)},
    NaiveQN: {"memory": (1,), "gamma": (0.0, nan), "trust": (-1.0,)},
    PositiveHAMCMC: {"memory": (1,), "trust": (-1.0,), "decay": (1.0,), "freeze": (0,)},
    PositiveHMC: {"leaps": (0,), "decay": (1.0,), "freeze": (0,)},
    HMC: {"leaps": (0,)},
    RHMC: {"leaps": (0,), "fixed_points": (0,)},
    QNHMC: {"leaps": (0,), "memory": (0,), "freeze": (-1,), "gamma": (0.0,)},
    HMCBFGS: {"leaps": (0,), "ensemble": (2,), "gamma": (nan,)},
    SGHMC: {"leaps": (0,), "friction": (-1.0, nan), "noise_estimate": (-0.1, 1.1),
            "integrator": ("verlet",)},
    SGNHT: {"leaps": (0,), "diffusion": (-1.0, nan)},
    SGNPHMC: {"leaps": (0,), "friction": (-1.0,), "thermostat_friction": (nan,),
              "inertia": (0.0, inf)},
    SGRNPHMC: {"leaps": (0,), "friction": (-1.0,), "thermostat_friction": (nan,),
               "inertia": (0.0, inf), "fixed_points": (0,)},
    SGRRHMC: {"friction": (0.0, -1.0, nan, inf)},
    SGRRMLD: {"levels": (1, 9)},
    FLA: {"alpha": (1.0, 2.1, nan), "terms": (-1,), "spacing": (0.0,)},
    FULD: {"alpha": (1.0, 2.1, nan), "friction": (-1.0,), "leaps": (0,)},
    ReplicaExchange: {"temperature": (1.0,), "hot_size": (0.0,), "factor": (0.5,),
                      "memory": (0.0,)},
    MassEM: {"samples": (0,), "growth": (0.0, nan), "decay": (0.5, 1.1), "source": ("both",),
             "confidence": (1.0,), "nu": (-1.0, inf), "d": (nan,), "freeze": (-1,)},
}  # fmt: skip
"""Values that each sampler and mass refuses."""


@pytest.mark.parametrize("kind", OUT_OF_RANGE, ids=name_of)
def test_hyperparameters_out_of_range_are_refused(kind):
    for field, values in OUT_OF_RANGE[kind].items():
        for value in values:
            with pytest.raises(AlphaMFError, match=rf"^{field}`? (must|cannot)"):
                kind(**{field: value})
    with pytest.raises(AlphaMFError, match=r"noise_estimate must be 0 .* baoab, not 0.2"):
        SGHMC(noise_estimate=0.2, integrator="baoab")
    with pytest.raises(AlphaMFError, match="correction must be off"):
        PSGLD(lagged=True, correction=True)


LEANING, DENSE = Line(PRECISION, positive=True), FixedMass(INVERSE_MASS)
REFUSED = [
    (kind(0.1), bounded(np.float32), f"{kind.__name__} needs a target without latents")
    for kind in (SGRRLD, SGRRHMC, SGRRMLD, ReplicaExchange)
]
REFUSED += [(k(0.1), bounded(np.float64), "cannot sample a positive target") for k in (FLA, FULD)]
REFUSED += [
    (kind(0.1, mass=DENSE), LEANING, "positive target needs a diagonal mass")
    for kind in (SGHMC, SGNHT, SGNPHMC)
]
REFUSED += [
    (SGRNPHMC(0.1), CurvedOrthant(), "positive target needs a diagonal mass or metric"),
    (RSGLD(0.1), CurvedOrthant(), "diagonal must be True if the target is positive"),
    (PSGLD(0.1, correction=True), LEANING, r"hessian_diagonal\(theta\), which Sloped does not"),
]
"""Targets that a sampler cannot move on."""


@pytest.mark.parametrize(("sampler", "target", "sentence"), REFUSED, ids=name_of)
def test_targets_that_do_not_fit_are_refused(sampler, target, sentence):
    theta = target.start(generator(0), (3,))
    with pytest.raises(AlphaMFError, match=sentence):
        sampler.step(generator(1), sampler.init(generator(0), theta), target)
