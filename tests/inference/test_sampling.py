"""`sample`: posteriors given by functions of NumPy, JAX and PyTorch, and the page's ten lines."""

import re
import subprocess
import sys
from zlib import crc32

import numpy as np
import pytest

from alphamf.errors import AlphaMFError
from alphamf.inference import (
    HAMCMC,
    HMC,
    PSGLD,
    SAMPLERS,
    SGHMC,
    SGLD,
    SGNHT,
    DensityTarget,
    JaxDensity,
    NumPyDensity,
    TorchDensity,
    run,
    sample,
    sampling,
)
from alphamf.inference.checks import Z_MOST
from alphamf.inference.random import generator
from alphamf.inference.samplers.masses import ConstantMass
from alphamf.inference.sampling import _Numbers
from alphamf.inference.schedule import Polynomial
from alphamf.inference.targets.control_variates import ControlVariates
from alphamf.inference.targets.gaussian import LinearGaussian
from tests.support.places import ROOT

RNG = np.random.default_rng(3)
A = RNG.standard_normal((40, 2)) @ np.array([[1.0, 0.8], [0.0, 0.4]])
X = A @ np.ones(2) + RNG.standard_normal(40)
THETA = RNG.standard_normal((3, 2))


def of_numpy():
    likelihood = NumPyDensity(
        lambda theta, a, x: (x - a @ theta) @ a,
        lambda theta, a, x: -((x - a @ theta) ** 2).sum() / 2,
    )
    return likelihood, NumPyDensity(lambda theta: -theta, lambda theta: -(theta**2).sum() / 2)


def of_jax():
    pytest.importorskip("jax")
    return (
        JaxDensity(lambda theta, a, x: -((x - a @ theta) ** 2).sum() / 2),
        JaxDensity(lambda theta: -(theta**2).sum() / 2),
    )


def of_torch():
    pytest.importorskip("torch")
    return (
        TorchDensity(lambda theta, a, x: -((x - a @ theta) ** 2).sum() / 2),
        TorchDensity(lambda theta: -(theta**2).sum() / 2),
    )


each_library = pytest.mark.parametrize(
    ("library", "rtol"), [(of_numpy, 1e-10), (of_jax, 1e-4), (of_torch, 1e-10)]
)


@each_library
@pytest.mark.parametrize("batch", [None, 5])
def test_gradient_and_value_are_those_of_the_target_written_by_hand(library, rtol, batch):
    likelihood, prior = library()
    target = DensityTarget(likelihood, THETA[0], data=(A, X), batch=batch, prior=prior)
    known = LinearGaussian(A, X, 1.0, batch=batch)
    ours, hers = (each.draw(generator(5), THETA) for each in (target, known))
    np.testing.assert_allclose(ours.grad(THETA), hers.grad(THETA), rtol=rtol, atol=10 * rtol)
    # Values are up to a constant, which differs between minibatches.
    ends = [each.value(THETA) - each.value(0 * THETA) for each in (ours, hers)]
    np.testing.assert_allclose(ends[0], ends[1], rtol=rtol, atol=100 * rtol)


@each_library
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradient_is_a_new_array_of_the_dtype_of_theta(library, rtol, dtype):
    likelihood, prior = library()
    target = DensityTarget(likelihood, THETA[0], data=(A, X), batch=4, prior=prior)
    theta = THETA.astype(dtype)
    gradient = target.draw(generator(5), theta).grad(theta)
    assert gradient.dtype == dtype
    gradient[...] = 0  # writable, and its own
    np.testing.assert_array_equal(theta, THETA.astype(dtype))


@pytest.mark.parametrize(
    "library",
    [of_numpy, *(pytest.param(each, marks=pytest.mark.slow) for each in (of_jax, of_torch))],
)
def test_samples_have_the_law_of_the_model(library):
    likelihood, prior = library()
    known = LinearGaussian(A, X, 1.0)
    found = sample(
        likelihood, np.zeros((8, 2)), data=(A, X), prior=prior, sampler=HMC(0.15, 4), steps=300
    )
    summary = found.summary()
    assert found.draws.shape == (240, 8, 2)
    assert (np.abs(summary.mean - known.mean) < Z_MOST * summary.mcse).all()
    np.testing.assert_allclose(summary.std, np.sqrt(known.covariance.diagonal()), rtol=0.2)


def test_is_a_front_of_the_loop_alone():
    """The draws are those of `chain.run`, for a target as for its functions."""
    sampler, known = SGLD(0.01), LinearGaussian(A, X, 1.0)
    *_, last = run(known, sampler, steps=30, seed=7, start=THETA)
    likelihood, prior = of_numpy()
    by_target = sample(known, THETA, sampler=sampler, steps=30, seed=7)
    functions = sample(
        likelihood.gradient, THETA, data=(A, X), prior=prior.gradient, sampler=sampler, steps=30,
        seed=7,
    )  # fmt: skip
    np.testing.assert_array_equal(by_target.draws[-1], last.theta)
    np.testing.assert_allclose(functions.draws[-1], last.theta, rtol=1e-10)


def test_chains_that_move_in_turn_are_separated():
    known = LinearGaussian(A, X, 1.0)
    settings = {"sampler": HAMCMC(0.01, memory=4, gamma=0.1), "steps": 400, "burn_in": 0}
    assert [sample(known, THETA, thin=thin, **settings).turns for thin in (1, 2, 3, 4)] == [
        4, 2, 4, 1,
    ]  # fmt: skip


def test_samplers_by_name_are_classes_or_look_like_them():
    import inspect

    assert SAMPLERS["sgld"] is SGLD
    for name, make in SAMPLERS.items():
        parameters = inspect.signature(make).parameters
        assert all(each.default is not each.empty for each in parameters.values()), name
        assert inspect.getdoc(make)
        assert make().needs is not None
    assert inspect.signature(SAMPLERS["psgld-lagged"]).parameters["lagged"].default is True
    assert SAMPLERS["psgld-lagged"]() == SAMPLERS["psgld"](lagged=True)


GRADIENT = of_numpy()[0].gradient
REFUSED = [
    ({"data": (A, X[:7])}, r"same length, not \[7, 40\]"),
    ({"batch": 3}, "batch needs data"),
    ({"data": (A, X), "batch": 0}, "batch must be at least 1, not 0"),
    ({"data": (A, X), "sampler": HMC(0.1)}, "needs values of the log density"),
    ({"data": (A, X), "steps": 10, "burn_in": 10}, "burn_in 10 and thin 1 leave none of 10 steps"),
    ({"theta0": np.zeros((2, 2, 2))}, r"shape \(D,\) or \(chains, D\), not \(2, 2, 2\)"),
    ({"theta0": np.array(["a"])}, "theta0 must be of numbers"),
    ({"theta0": np.array([0.0, np.nan])}, "theta0 contains NaN"),
    ({"data": (A, np.where(X > 0, X, np.nan))}, "data contains NaN or infinite values"),
    (
        {"data": (A, X), "density": lambda theta, a, x: 0.0},
        r"shape \(2,\) of theta, not \(\); a fun",
    ),
    (
        {
            "data": (A, X),
            "density": NumPyDensity(GRADIENT, GRADIENT),
            "sampler": HMC(0.1),
        },
        r"the log density must be a number, not of shape \(2,\)",
    ),
    ({"density": 3.0}, "a density must be a function, .* not float"),
    ({"density": LinearGaussian(A, X, 1.0), "batch": 3}, "a target has its own data"),
    ({"density": LinearGaussian(A, X, 1.0), "theta0": np.zeros(3)}, "must have 2 columns"),
    ({"density": LinearGaussian(A, X, 1.0), "sampler": SGLD(10.0)}, "diverged at step"),
    ({"data": (A, X), "sampler": SGLD(10.0)}, "diverged at step .*; use a smaller step_size"),
]


@pytest.mark.parametrize(("given", "sentence"), REFUSED)
@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.filterwarnings("ignore:invalid value")
def test_refuses_what_does_not_fit(given, sentence):
    with pytest.raises(AlphaMFError, match=sentence):
        sample(**{"density": GRADIENT, "theta0": np.zeros(2), **given})


def blocks():
    """Return the first blocks of the page that can be run, by what they need."""
    page = (ROOT / "docs/samplers.md").read_text(encoding="utf-8")
    found = re.findall(r"(?:<!-- (\w+) -->\n)?```python\n(.*?)```", page, re.DOTALL)
    return {need or "numpy": code for need, code in reversed(found)}


@pytest.mark.parametrize(
    "need", ["numpy", *(pytest.param(need, marks=pytest.mark.slow) for need in ("jax", "torch"))]
)
def test_ten_lines_of_the_page_find_the_weights(need):
    pytest.importorskip(need)
    code = blocks()[need]
    lines = [line for line in code.splitlines() if line.strip()]
    assert len(lines) <= 10
    names: dict = {}
    exec(code, names)
    summary = names["found"].summary()
    np.testing.assert_allclose(summary.mean, [1.0, -1.0, 0.5], atol=0.15)
    assert (summary.rhat < 1.05).all()


@pytest.mark.slow
def test_lines_of_the_page_take_a_pytree():
    pytest.importorskip("jax")
    names: dict = {}
    exec(blocks()["jax"] + blocks()["pytree"], names)
    tree = names["found"].tree
    np.testing.assert_allclose(tree["slope"].mean((0, 1)), [1.0, -1.0, 0.5], atol=0.15)
    assert abs(tree["level"].mean()) < 0.15


def test_the_package_imports_neither_jax_nor_torch():
    code = "import sys; from alphamf.inference import sample, JaxDensity, TorchDensity; " + (
        "sys.exit(bool({'jax', 'torch'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_absent_package_is_named(monkeypatch):
    from alphamf.tools import extras

    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    for kind, extra in ((JaxDensity, "jax"), (TorchDensity, "torch")):
        with pytest.raises(AlphaMFError, match=rf"pip install 'alphamf\[{extra}\]'"):
            kind(lambda theta: 0.0)


STEEP = np.linspace(1.0, 3.0, 4)
TRACED = (
    SGLD(0.01), SGLD(Polynomial(1e-4, 0.5)), PSGLD(1e-3), PSGLD(1e-3, lagged=True, damping=1.0),
    HAMCMC(0.02, 3, 0.1), HAMCMC(Polynomial(1e-4, 0.5), 3, 0.1, trust=2.0), HMC(0.1, 3),
    HMC(0.1, 3, ConstantMass(np.array([1.0, 2.0]))), SGHMC(0.03, 3),
    SGHMC(0.03, 3, integrator="splitting"), SGHMC(0.03, 3, integrator="baoab"), SGNHT(0.03, 3),
    *(SAMPLERS[name](0.01) for name in ("naive-qn", "hmc-bfgs", "sg-nphmc", "sgrrld", "sgrrhmc",
                                        "sgrrmld")),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("sampler", TRACED, ids=lambda sampler: repr(sampler)[:40])
def test_jax_makes_the_steps_of_numpy_on_the_same_numbers(sampler, monkeypatch):
    jax = pytest.importorskip("jax")
    given = {}

    def drawn(key, law, shape):
        rng = np.random.default_rng(crc32(repr((law, shape)).encode()))
        laws = {"normal": rng.standard_normal, "exponential": rng.standard_exponential}
        whole = rng.integers(0, law[1], shape) if law[0] == "randint" else laws[law[0]](shape)
        given[law, shape] = whole
        return jax.numpy.asarray(whole)

    monkeypatch.setattr(sampling, "_drawn", drawn)
    likelihood, prior = of_jax()
    batch = None if "value" in sampler.needs else 5
    with jax.enable_x64(True):
        target = DensityTarget(likelihood, THETA[0], data=(A, X), batch=batch, prior=prior)
        if isinstance(sampler, SGHMC) or sampler == SGLD(0.01):
            target = ControlVariates(
                DensityTarget(likelihood, THETA[0], data=(A, X), batch=5, prior=prior), np.ones(2)
            )
        assert sampling._traces(target, sampler)
        found = sample(target, THETA, sampler=sampler, steps=7, burn_in=0)
        steps = {
            (law, shape[2:]): iter(np.concatenate(values))
            for (law, shape), values in given.items()
            if shape[:1] == (7,)
        }
        state = sampler.init(_Numbers(lambda law, shape: given[law, shape].copy()), THETA)
        for row in found.draws:
            state = sampler.step(_Numbers(lambda *what: next(steps[what]).copy()), state, target)
            np.testing.assert_allclose(row, state.theta, rtol=1e-9)
        assert all(next(each, None) is None for each in steps.values())
    assert found.state.step == 7


def one_chain_each(kind, law, step_size, **settings):
    """Return z of the mean and variance of 20 000 chains after 40 steps, given those of the law."""
    data = {"data": STEEP, "batch": 1} if kind is SGLD else {}
    density = JaxDensity(lambda theta, *x: -((theta[0] - (x[0][0] if x else 0.0)) ** 2) / 2)
    start = np.zeros((20_000, 1), np.float32)
    sampler = kind(step_size, **settings)
    theta = sample(density, start, **data, sampler=sampler, steps=40, burn_in=39).draws[-1, :, 0]
    mean, variance = law
    error = np.sqrt(np.array([variance, 2 * variance**2]) / len(theta))
    return np.abs((theta.mean() - mean, theta.var() - variance) / error)


@pytest.mark.slow
@pytest.mark.parametrize("broken", [None, "normal", "exponential", "randint"])
def test_jax_draws_give_the_laws_of_sgld_on_minibatches_and_of_hmc(broken, monkeypatch):
    """With one of four points each step, SGLD's law is known at any step size; HMC's is exact."""
    pytest.importorskip("jax")
    right = sampling._drawn

    def wrong(key, law, shape):
        numbers = right(key, law, shape)
        worse = {"normal": 1.05 * numbers, "exponential": 9 + numbers, "randint": numbers // 2 * 2}
        return worse[law[0]] if law[0] == broken else numbers

    monkeypatch.setattr(sampling, "_drawn", wrong)
    h, points = 0.1, len(STEEP)
    kick = 2 * h + (h * points) ** 2 * STEEP.var()
    langevin = STEEP.mean(), kick / (1 - (1 - h * points) ** 2)
    found = [one_chain_each(SGLD, langevin, h), one_chain_each(HMC, (0.0, 1.0), 1.8, leaps=1)]
    assert (np.max(found) > Z_MOST) == (broken is not None), found


@pytest.mark.slow
def test_jax_keeps_and_checks_the_steps_of_all_blocks(monkeypatch):
    jnp = pytest.importorskip("jax.numpy")
    monkeypatch.setattr(sampling, "BLOCK", 8 * 3 * 2)
    likelihood, prior = of_jax()
    target = DensityTarget(likelihood, THETA[0], data=(A, X), prior=prior)
    every = sample(target, THETA, sampler=SGLD(1e-3), steps=30, burn_in=0)
    some = sample(target, THETA, sampler=SGLD(1e-3), steps=30, burn_in=9, thin=4)
    np.testing.assert_array_equal(some.draws, every.draws[9:][3::4])
    assert len(np.unique(every.draws[:, 0], axis=0)) == 30  # no block repeats another
    np.testing.assert_array_equal(every.state.theta, every.draws[-1])
    other = sample(target, THETA, sampler=SGLD(1e-3), steps=30, burn_in=0, seed=1)
    assert (other.draws != every.draws).all()
    with pytest.raises(AlphaMFError, match=r"SGLD chain diverged at step \d+ .*smaller step_size"):
        sample(target, THETA, sampler=SGLD(10.0), steps=300)
    with pytest.raises(AlphaMFError, match=r"must be a positive number, not -1.0"):
        sample(target, THETA, sampler=SGLD(lambda step: jnp.float32(-1)))


def test_a_pytree_goes_in_and_comes_out():
    jnp = pytest.importorskip("jax.numpy")
    density = JaxDensity(lambda tree, x: -jnp.sum((x @ tree["w"] + tree["b"]) ** 2))
    start = {"w": jnp.ones((3, 2, 4)), "b": jnp.zeros(3)}
    found = sample(density, start, data=A, batch=5, sampler=SGLD(1e-4), steps=20)
    shapes = {name: leaf.shape for name, leaf in found.tree.items()}
    assert shapes == {"w": (16, 3, 2, 4), "b": (16, 3)}
    np.testing.assert_array_equal(found.tree["b"], found.draws[..., 0])
    np.testing.assert_array_equal(found.tree["w"][..., 1, 2], found.draws[..., 1 + 4 + 2])
    for wrong in ({"w": jnp.ones((3, 2)), "b": jnp.zeros(4)}, {"w": 0.0}):
        with pytest.raises(AlphaMFError, match="chains as their first axis"):
            sample(density, wrong, data=A)
