"""Which states an experiment averages, and with which sign: scripted chains with known answers."""

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from alphamf.inference import leaps
from alphamf.inference.random import generator
from alphamf.inference.targets.gaussian import LinearGaussian
from alphamf.research.experiments.base import seconds_per_step
from alphamf.research.experiments.hamcmc import linear, speech_search
from alphamf.research.experiments.mass_em import methods, synthetic, topics
from alphamf.research.experiments.quasi_newton import bpmf, gaussian, mnist
from alphamf.research.experiments.richardson import factors
from alphamf.research.experiments.richardson import gaussian as richardson
from tests.support.places import ROOT


class State(NamedTuple):
    """A state of a scripted chain: of step k it has k, 10 k and 100 k unless said otherwise."""

    theta: Any
    step: int
    middle: Any = None
    coarse: Any = None
    accepted: Any = np.zeros(1)


def script(monkeypatch, module, theta, **more):
    """Let an experiment's chain take places that are known: `theta(step)` after each step."""

    def run(target, sampler, *, steps, seed, start=None, record=None, chains=(), **rest):
        for step in range(1, steps + 1):
            state = State(theta(step), step, **{name: make(step) for name, make in more.items()})
            if record is not None:
                record.add(state, target)
            yield state

    monkeypatch.setattr(module, "run", run)


def test_windows_of_linear(monkeypatch):
    """Expect the mean of all steps, windows (t / 2, t], and the variance of the last one."""
    target = LinearGaussian(np.eye(1), np.ones(1), 1.0)  # N(1/2, 1/2)
    script(monkeypatch, linear, lambda k: np.full((linear.CHAINS, 1), float(k)))
    found = linear._follow(target, None, 16, 0)
    assert found["marks"] == list(range(10, 17))
    for mark, value in zip(found["marks"], found["running"], strict=True):
        assert value == pytest.approx(((mark + 1) / 2 - 0.5) ** 2)
    windows = [np.arange(end // 2 + 1, end + 1) for end in found["windows"]]
    assert found["windows"] == [1, 2, 4, 8, 16]
    assert found["covariance"] == pytest.approx([abs(w.var() - 0.5) / 0.5 for w in windows])
    assert found["second_half"] == pytest.approx((np.arange(9, 17).mean() - 0.5) ** 2)
    assert found["spread"] == pytest.approx(np.arange(9, 17).var() / 0.5)


def test_windows_of_quartic(monkeypatch):
    """Expect E |theta|^2 over the second half, relative to the exact one."""
    script(monkeypatch, linear, lambda k: np.full((3, 1), np.sqrt(k * linear.Quartic.power)))
    found, _ = linear.quartic_bias(SimpleNamespace(step_size=0.1), 1, time_span=1.0, chains=3)
    assert found == pytest.approx(np.arange(6, 11).mean() - 1)


def test_windows_of_speech(monkeypatch):
    """Expect the gain over the last 8 % of the steps."""
    script(monkeypatch, speech_search, lambda k: np.float64(k))
    begin = speech_search.Start(SimpleNamespace(gain=lambda theta: theta), np.zeros(1))
    assert speech_search.SETTINGS.thin <= 10
    found, _ = speech_search.mean_chain_gain(begin, None, 2500, 0)
    wanted = np.arange(2301, 2501)[speech_search.SETTINGS.thin - 1 :: speech_search.SETTINGS.thin]
    assert found == pytest.approx(wanted.mean())


def test_windows_of_gibbs(monkeypatch):
    """Expect the gain over the last third of the sweeps, by the sampler that was asked for."""
    asked = []

    class Counting:
        def __init__(self, target, rng, theta, *, collapsed):
            asked.append(collapsed)
            self.swept = 0

        def sweep(self, rng):
            self.swept += 1

        def gain(self):
            return np.full(2, float(self.swept))

    monkeypatch.setattr(speech_search, "Gibbs", Counting)
    begin = speech_search.Start(SimpleNamespace(power=np.zeros(2)), np.zeros(1))
    for collapsed in (False, True):
        found, _ = speech_search.mean_gibbs_gain(begin, 9, 0, collapsed=collapsed)
        assert found == pytest.approx(8.0)
    assert asked == [False, True]


def ratings(monkeypatch, module):
    """Make ratings whose prediction is the parameter, and whose RMSE is the prediction."""
    target = SimpleNamespace(
        predict=lambda theta, *pairs: theta, start=lambda *a: np.zeros(1), size=1,
        positive=False, latents={},
    )  # fmt: skip
    split = SimpleNamespace(
        train=(None, None, np.full(40, 4.0)),
        test=(np.zeros(1), np.zeros(1), np.zeros(1)),
        target=lambda **given: target,
        rmse=lambda predicted, clip=True: float(predicted[0]),
    )
    monkeypatch.setattr(module, "RatingSplit", lambda *given: split)


def test_windows_of_factors(monkeypatch):
    """Expect SGLD's every tenth step, and SGRRLD's fine + middle - coarse every fifth."""
    ratings(monkeypatch, factors)
    places = {"middle": lambda k: np.array([10.0 * k]), "coarse": lambda k: np.array([100.0 * k])}
    script(monkeypatch, factors, lambda k: np.array([float(k)]), **places)
    monkeypatch.setattr(factors.TimedTarget, "parallel_time", lambda self, begin, end: 1.0)
    job = {"users": None, "gamma": 1e-3, "steps": 40, "burn_in": 20, "seed": 0}
    alone = factors.work(job | {"method": "SGLD"})
    assert [rmse for *_, rmse in alone["curve"]] == pytest.approx([30, 35])
    assert (alone["rmse"], alone["last"]) == (35, 40)
    pair = factors.work(job | {"method": "SGRRLD"})
    steps = np.array([25, 30, 35, 40])
    means = np.cumsum(-89.0 * steps) / np.arange(1, 5)
    assert [rmse for *_, rmse in pair["curve"]] == pytest.approx(means)
    assert [seconds for seconds, *_ in pair["curve"]] == steps.tolist()


def test_windows_of_bpmf(monkeypatch):
    """Expect the mean prediction after the burn-in, and the share of accepted proposals."""
    ratings(monkeypatch, bpmf)
    monkeypatch.setattr(bpmf, "optimum", lambda target, theta, steps: theta)
    monkeypatch.setattr(bpmf, "point_outside", lambda target, theta, seed: theta)
    monkeypatch.setattr(bpmf, "burn_in", lambda job: 4)
    monkeypatch.setattr(bpmf, "sampler_of", lambda job: None)
    script(
        monkeypatch, bpmf, lambda k: np.array([float(k)]), accepted=lambda k: np.array([k / 2, k])
    )
    job = {"users": None, "variance": 1.0, "variance_x": 1.0, "seed": 0, "samples": 10}
    found = bpmf.work(job | {"method": "HMC"})
    assert [rmse for _, rmse in found["curve"]] == pytest.approx([5, 5.5, 6, 6.5, 7, 7.5])
    assert (found["rmse"], found["rmse_of_last"], found["acceptance"]) == (7.5, 10, 0.75)


def test_windows_of_gaussian_qn(monkeypatch):
    """Expect the second half, and a burn-in up to the first state in the region of 99 %."""
    monkeypatch.setattr(gaussian, "axis_coordinates", lambda theta, target: theta)
    monkeypatch.setattr(gaussian, "seconds_per_step", lambda *given: [[2.0]])
    monkeypatch.setattr(gaussian, "sampler_of", lambda job: None)
    monkeypatch.setattr(gaussian.diagnostics, "ess", lambda draws: draws.mean((0, 1)))
    rng = np.random.default_rng(0)
    places = rng.standard_normal((40, 1, 3))
    places[..., 2] = np.where(np.arange(40) < 7, 1e3, 1.0)[:, None]  # the energy
    script(monkeypatch, gaussian, lambda k: places[k - 1], accepted=lambda k: np.array([k / 4]))
    job = {"method": "HMC", "size": 5, "samples": 40, "chains": 1, "seed": 0}
    found = gaussian.work(job)
    assert (found["kept"], found["burn_in"], found["acceptance"]) == (20, [8], 0.25)
    assert found["variance"] == pytest.approx([places[20:, 0, 0].var() / 9])
    assert found["ess_long"] == pytest.approx([places[20:, 0, 0].mean()])
    assert found["ess_across"] == pytest.approx([places[20:, 0, 1].mean()])
    assert found["energy"][-1] == [40, 1.0] and found["energy"][0] == [1, 1e3]


def test_windows_of_mnist(monkeypatch):
    """Expect predictions and weights of the latter half, and errors by the right answers."""
    x, y = np.array([[1.0], [-1.0]]), np.array([1.0, 0.0])
    monkeypatch.setattr(mnist, "data", lambda rows: (x, y, np.eye(1), np.array([True])))
    monkeypatch.setattr(mnist, "sampler_of", lambda job: None)
    monkeypatch.setattr(mnist, "seconds_per_step", lambda *given: [[1.0]])
    # Wrong in the first half, right in the second.
    script(
        monkeypatch, mnist, lambda k: np.array([[-9.0 if k <= 8 else 9.0 + k]]),
        accepted=lambda k: np.array([k / 2]),
    )  # fmt: skip
    monkeypatch.setattr(gaussian.diagnostics, "ess", lambda draws: draws.mean((0, 1)))
    job = {"rows": 2, "variance": 1.0, "method": "HMC", "samples": 16, "chains": 1, "seed": 0}
    found = mnist.work(job)
    assert [step for step, _ in found["curve"]] == [1, 2, 4, 8, 16]
    assert [errors for _, errors in found["curve"]] == [[1.0]] * 4 + [[0.0]]
    assert (found["errors"], found["kept"], found["acceptance"]) == ([0.0], 8, 0.5)
    assert found["ess"] == pytest.approx([9 + np.arange(9, 17).mean()])


def test_windows_of_normal(monkeypatch):
    """Expect draws after the burn-in, against the true values and the posterior's mean."""
    script(monkeypatch, synthetic, lambda k: np.full((2, 2), [float(k), 0.0]))
    monkeypatch.setattr(synthetic, "_problem", lambda job: (None, np.zeros((2, 2))))
    monkeypatch.setattr(synthetic, "times", lambda *given: {"milliseconds": [1.0]})
    monkeypatch.setattr(synthetic, "_sampler", lambda job, method: None)
    exact = np.array([2.0, 0.0]), np.array([4.0, 1.0]), 7.0
    monkeypatch.setattr(synthetic, "exact_moments", lambda target: exact)
    monkeypatch.setattr(synthetic.diagnostics, "ess", lambda draws: np.array([3.0, 6.0]))
    job = {"experiment": "logistic-2d", "method": "HMC", "burn_in": 4, "keep": 6, "seed": 0}
    found = synthetic.work(job)
    kept = np.arange(5, 11)
    rmse = [np.sqrt(((kept - 1) ** 2).mean()), 1.0]  # the true weights are 1 and -1
    np.testing.assert_allclose(found["rmse"], np.transpose([rmse] * 2))
    np.testing.assert_allclose(found["exact"], [np.sqrt(5), np.sqrt(2)])
    np.testing.assert_allclose(found["of_mean"], [(kept.mean() - 2) / 2 / 2] * 2)
    assert found["ess"] == pytest.approx(3 / 6 / 2 * 1000) and found["exact_condition"] == 7


def test_windows_of_topics(monkeypatch):
    """Expect a point for every `thin` states after the burn-in, though all are added."""
    added = []
    record = SimpleNamespace(
        add=lambda state, target: added.append(state.step), perplexity=property(None)
    )
    record.perplexity = 5.0
    target = SimpleNamespace(unpack=lambda theta: SimpleNamespace(r=theta))
    script(monkeypatch, topics, lambda k: np.full(2, float(k)))
    monkeypatch.setattr(topics, "OneBatch", lambda target, leaps: target)
    job = {"settings": {"leaps": 1}, "burn_in": 4, "keep": 6, "thin": 3, "seed": 0}
    state, _, curve, totals = topics._sample(job, target, None, np.zeros(2), record)
    assert added == list(range(1, 11)) and state.step == 10
    assert [(past, perplexity) for past, _, perplexity in curve] == [(3, 5.0), (6, 5.0)]
    assert totals == [14.0, 20.0]


def test_windows_of_richardson(monkeypatch):
    """Expect bias and error of the variance of the kept steps, at the powers of two."""
    places = np.random.default_rng(1).standard_normal((9, 4, 1))
    script(
        monkeypatch, richardson, lambda k: places[k - 1], middle=lambda k: places[k - 1],
        coarse=lambda k: places[k - 1],
    )  # fmt: skip
    job = {"figure": "step", "method": "SGLD", "size": 1, "gamma": 1e-3, "seed": 0}
    found = richardson.work(job | {"steps": 9, "burn_in": 1, "chains": 4})
    assert found["kept"] == [1, 2, 4, 8]
    moved = places[1:, :, 0]
    variance = richardson.PRIOR_VARIANCE * moved.var(0)
    exact = found["truth"][1]
    assert found["bias"][-1] == pytest.approx((variance - exact).mean())
    assert found["error"][-1] == pytest.approx(variance.std(ddof=1) / 2)
    assert found["mse"][-1] == pytest.approx(((variance - exact) ** 2).mean())
    assert found["found"][1] == pytest.approx(variance[0])


def of_times():
    """Yield every function that measures a time, with samplers whose leaps may be compiled."""
    target = linear.target_of(2, 0)
    for method in linear.METHODS:
        sampler = linear.METHODS[method](2)
        yield lambda sampler=sampler: seconds_per_step(target, [sampler], 20)
    job = synthetic.logistic_jobs(False, 0)[0] | {"timed": 5, "chains": 2, "points": 300}
    for method in methods.METHODS:
        kind = methods.base_method(method)
        one = job | {"method": method, "settings": synthetic.LOGISTIC[kind] | {"leaps": 2}}
        problem = synthetic._problem(one)
        yield lambda one=one, problem=problem: synthetic.times(one, *problem)
    short = {"size": 1, "steps": 4, "burn_in": 1, "chains": 2}
    for one in richardson.jobs(False, 0):
        yield lambda one=one: richardson.work(one | short)
    sampler = gaussian.sampler_of(gaussian.jobs(False, 0)[0])
    yield lambda: seconds_per_step(gaussian.Gaussian(5), [sampler], 3)


def test_times_are_of_samplers_that_all_take_the_same_way(monkeypatch):
    """All in NumPy: of a few the leaps are compiled, which would say nothing of the others."""
    if not leaps.COMPILED:
        pytest.skip("no leaps were compiled")

    def compiled(*given):
        raise AssertionError("leaps were compiled where a time was measured")

    start = generator(0).standard_normal(2)
    moved = leaps.leap_many(generator(0), linear.target_of(2, 0), start, leaps.Leap(1e-5, 0, 0, 1))
    assert moved is not None  # what is compiled elsewhere
    monkeypatch.setattr(leaps._leaps, "leap", compiled)
    monkeypatch.setattr(leaps, "_leaps", SimpleNamespace(leap=compiled))
    for measure in of_times():
        measure()
    assert leaps.COMPILED


def test_every_module_that_takes_the_time_of_steps_is_among_these():
    """A module that has both a chain and a clock measures in NumPy, or on targets of its own."""
    folder = ROOT / "alphamf/research/experiments"
    texts = {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*.py")}
    timed = {name for name, text in texts.items() if "_time()" in text or "perf_counter()" in text}
    in_numpy = {name for name, text in texts.items() if "@in_numpy()" in text}
    # Targets that no compiled loop can read: topics, films, sounds, digits without minibatches.
    others = {
        "hamcmc/speech_search.py", "mass_em/topics.py", "quasi_newton/bpmf.py",
        "quasi_newton/mnist.py", "richardson/factors.py",
    }  # fmt: skip
    assert timed == in_numpy | others
