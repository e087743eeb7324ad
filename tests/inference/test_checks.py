"""`check`: right samplers pass, and broken twins, wrong orders, laws and gradients do not."""

import re
from dataclasses import dataclass, replace
from math import inf

import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

from alphamf.errors import AlphaMFError
from alphamf.inference import HMC, SGHMC, SGLD, Kernel, check, checks
from alphamf.inference.samplers.hamcmc import HAMCMC
from alphamf.inference.schedule import Polynomial
from tests.support.places import ROOT
from tests.support.posteriors import OneGamma, Orthant, Quartic, plane
from tests.support.sampler_cases import made, posterior
from tests.support.twins import AcceptsAll, Alike, HalfNoise, Hot, Remembering, Wrong, twin

H = float(0.4 / np.linalg.eigvalsh(plane().precision).max())
WRONG = {"order of the bias", "limit of the bias"}
"""The laws that fail for a bias that does not fall with h."""


@dataclass(frozen=True)
class Idle(SGLD):
    """Never moves, which leaves every law as it is."""

    def step(self, rng, state, target):
        return state._replace(step=state.step + 1)


def failed(report):
    """Return the names of the laws that do not hold."""
    return {finding.law for finding in report.findings if not finding.passed}


def test_sgld_passes_and_its_twin_with_half_the_noise_does_not():
    assert failed(check(SGLD(H), plane())) == set()
    assert failed(check(twin(SGLD(H), HalfNoise), plane())) == WRONG


def test_hmc_is_exact_and_its_twin_without_a_test_is_not():
    # Untested, it is biased by O(h^2): as a sampler of an order it passes.
    size = H**0.5
    assert failed(check(HMC(size, 3), plane(), order=inf, chains=1000)) == set()
    untested = twin(HMC(2 * size, 3), AcceptsAll)
    assert failed(check(untested, plane(), order=inf)) == {"one step", "no bias"}
    assert failed(check(untested, plane(), order=2)) == set()


def test_a_chain_that_does_not_move_fails():
    assert failed(check(Idle(H), plane())) == {"forgets its start"}
    assert failed(check(SGLD(H / 1000), plane())) == {"forgets its start"}


def test_a_promise_of_second_order_is_tested():
    assert failed(check(SGLD(2 * H), plane(), order=2)) == {"order of the bias"}
    split = SGHMC((2 * H) ** 0.5, 3, integrator="splitting")
    assert failed(check(split, plane(), order=2, chains=1000)) == set()


def test_a_wrong_gradient_fails():
    steep = Wrong(plane(), grad=lambda right, theta: 1.3 * right.grad(theta))
    assert failed(check(SGLD(H), steep)) == WRONG


def test_discretised_law_is_that_of_the_sampler_and_no_other():
    target, eye = plane(), np.eye(2)
    own = solve_discrete_lyapunov(eye - H * target.precision, 2 * H * eye)
    assert failed(check(SGLD(H), target, law=(target.mean, own))) == set()
    for law in ((target.mean, target.covariance), (target.mean + 0.02, own)):
        assert failed(check(SGLD(H), target, law=law)) == {"discretised law"}


def test_memory_of_hamcmc_biases_its_law_where_curvature_varies():
    """Theorem 1 of the HAMCMC paper says that it does not."""
    report = check(HAMCMC(0.08, memory=2, gamma=1.0, trust=1.0), Quartic())
    assert failed(report) == WRONG
    assert report.biases[-1].bias.min() < -0.03
    assert failed(check(SGLD(0.08), Quartic())) == set()


def test_laws_behind_a_wall():
    assert failed(check(HMC(0.4, 3), Orthant(), order=inf, chains=1000)) == set()
    target = Orthant()
    target.positive = False
    assert "no bias" in failed(check(HMC(0.4, 3), target, order=inf, chains=1000, steps=50))


class Joint:
    """Theta ~ N(0, 1) and data x ~ N(theta, 1) of each chain: Geweke's test."""

    size, positive = 1, False

    def __init__(self, pull=1.0):
        self.pull = pull
        self.latents: dict = {}

    def joint(self, rng, chains):
        theta = rng.standard_normal((chains, 1))
        model = Joint(self.pull)
        model.x = theta + rng.standard_normal((chains, 1))
        return model, theta

    def draw(self, rng, theta):
        return self

    def grad(self, theta):
        return theta - self.pull * (self.x - theta)

    def value(self, theta):
        return (theta**2 + self.pull * (self.x - theta) ** 2).sum(-1) / 2


def test_geweke_finds_a_wrong_gradient_and_a_wrong_sampler():
    sampler = HMC(0.5, 3)
    assert failed(check(sampler, Joint(), steps=5)) == set()
    assert failed(check(sampler, Joint(pull=0.5), steps=5)) == {"Geweke"}
    assert failed(check(SGLD(0.01), Joint())) == set()
    assert failed(check(twin(SGLD(0.01), HalfNoise), Joint())) == {"Geweke"}
    assert failed(check(Idle(0.01), Joint())) == {"Geweke"}


def langevin(seed, theta, h, heat=1.0):
    noise = np.sqrt(heat) * np.random.default_rng(seed).standard_normal(theta.shape)
    theta = theta - h * (theta @ plane().precision - plane().linear) + np.sqrt(2 * h) * noise
    return theta, theta


def test_a_kernel_of_another_library_is_checked_as_a_sampler():
    kernel = Kernel(H, lambda seed, theta: theta, langevin, "langevin")
    report = check(kernel, plane(), chains=1000)
    assert report.passed
    assert str(report).startswith(f"langevin({H:g}): passed\n")
    hot = replace(kernel, move=lambda *given: langevin(*given, heat=1.3))
    assert failed(check(hot, plane(), chains=1000)) == WRONG


def test_blocks_of_the_page_run(capsys):
    page = (ROOT / "docs/checks.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    for block in blocks:
        exec(block, {})
    assert capsys.readouterr().out.count(": passed\n") == len(blocks) == 2


def test_figure_shows_the_bias_at_each_step_size():
    pytest.importorskip("matplotlib")
    (panel,) = check(SGLD(H), plane(), chains=500).figure().axes
    np.testing.assert_allclose(panel.containers[0].lines[0].get_xdata(), [H, H / 2, H / 4])
    with pytest.raises(AlphaMFError, match="no figure without"):
        check(HMC(0.5, 3), Joint(), steps=5).figure()


def test_divergence_is_a_verdict():
    report = check(SGLD(100 * H), plane(), chains=100)
    assert "diverged; take a smaller step_size" in str(report)
    assert not report.passed


def test_same_seed_same_report():
    once, twice = (check(SGLD(H), plane(), chains=200, seed=5) for _ in range(2))
    assert str(once) == str(twice)
    assert str(check(SGLD(H), plane(), chains=200, seed=6)) != str(once)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"order": 0}, "order must be positive, not 0"),
        ({"steps": 1}, "steps must be at least 2"),
        ({"target": OneGamma(2.0, 1.0)}, r"needs a target with exact.*OneGamma does not have"),
        ({"sampler": SGLD(Polynomial(0.1))}, "constant step_size, not a schedule"),
    ],
)
def test_refuses_what_cannot_be_checked(given, sentence):
    with pytest.raises(AlphaMFError, match=sentence):
        check(**{"sampler": SGLD(0.1), "target": plane(), **given})


@dataclass(frozen=True)
class Clock(SGLD):
    """Moves to the number of its step."""

    def step(self, rng, state, target):
        step = state.step + 1
        return state._replace(theta=np.full_like(state.theta, step), step=step)


@pytest.mark.parametrize(("steps", "every", "counted"), [(5, 1, [3, 4, 5]), (8, 2, [5, 7])])
def test_a_long_run_counts_its_second_half(steps, every, counted):
    start = np.random.default_rng(0).standard_normal((9, 1))
    with np.errstate(invalid="ignore"):  # where all ends are the same, nothing is correlated
        means, _ = checks._long_run(Clock(), None, np.asarray, start, steps, None, every)
    squares = np.mean(np.square(counted)) - 1
    np.testing.assert_allclose(means, np.tile([np.mean(counted), squares, squares], (9, 1)))


def test_extrapolation_takes_what_is_linear_and_quadratic_in_the_step_size_and_nothing_else():
    sizes, error = 0.4 / np.array(checks.HALVINGS), np.full(3, 1e-3)

    def law(curve, shared=0.0):
        biases = [checks.Bias(h, curve(h) * np.ones(3), error, 0.0) for h in sizes]
        return checks._limit(tuple(biases), np.full(3, shared))

    assert law(lambda h: 0.5 * h - 0.3 * h**2).passed
    assert not law(lambda h: 0.5 * h - 0.3 * h**2 + 0.02).passed
    assert "+2.00 ± 0.33 % at h = 0" in law(lambda h: 0.02).sentence
    # The reference's error is one for all runs: it does not grow with the weights.
    assert "+2.00 ± 0.10 % at h = 0" in law(lambda h: 0.02, 1e-3).sentence
    seen = law(lambda h: 0.0).sentence
    assert "would have been seen: 1.9 % in any moment, 1.9 % in all variances" in seen


@pytest.mark.slow
@pytest.mark.parametrize("draws", [Hot, Remembering, Alike], ids=lambda kind: kind.__name__)
def test_noise_that_is_wrong_by_less_than_the_bias_of_the_step_size_fails(draws):
    sampler, _ = made("sghmc", posterior())
    report = check(twin(sampler, draws), posterior(), steps=400, chains=2000)
    assert "limit of the bias" in failed(report), report
