"""The Monte Carlo EM paper's experiments on the smallest sizes."""

import json

import numpy as np
import pytest

from alphamf.errors import AlphaMFError
from alphamf.inference.metric import Dense
from alphamf.inference.random import generator
from alphamf.inference.samplers.langevin import SGLDState
from alphamf.inference.samplers.masses import MassEM
from alphamf.inference.targets.logistic import LogisticRegression
from alphamf.inference.targets.normal_wishart import NormalWishart
from alphamf.inference.targets.topics import TopicModel
from alphamf.research.experiments import base
from alphamf.research.experiments.base import JobRecord
from alphamf.research.experiments.catalogue import MASS_EM
from alphamf.research.experiments.mass_em import methods, synthetic, topics
from tests.support import posteriors

NORMAL, _, TOPICS, _ = MASS_EM


@pytest.fixture(scope="module")
def data(shared):
    patch = pytest.MonkeyPatch()
    patch.setenv("ALPHAMF_DATA", str(shared))
    yield
    patch.undo()


def done(experiment, jobs):
    """Run jobs, and return their records as a file would give them back."""
    return [JobRecord(*json.loads(json.dumps([job, experiment.work(job)]))) for job in jobs]


SMALL = {"burn_in": 150, "keep": 200, "chains": 4, "timed": 5}


@pytest.fixture(scope="module")
def normal():
    methods = ("HMC", "RHMC", "SGHMC")
    return done(NORMAL, [job | SMALL for job in NORMAL.jobs(False, 0) if job["method"] in methods])


@pytest.mark.slow
def test_exact_samplers_have_the_posterior_s_rmse(normal):
    for job, numbers in normal:
        if job["method"] in ("HMC", "RHMC"):
            np.testing.assert_allclose(np.mean(numbers["rmse"], 1), numbers["exact"], rtol=0.15)
            assert numbers["accepted"] > 0.9


@pytest.mark.slow
def test_gradient_noise_heats_sghmc_as_printed(normal):
    """Temperature 1 + h V / (2 A) = 126 in mu; the paper's table prints an RMSE of .1590."""
    (numbers,) = (n for job, n in normal if job["method"] == "SGHMC")
    mu = np.mean(numbers["rmse"][0])
    assert mu / numbers["exact"][0] > 8
    assert mu == pytest.approx(np.sqrt(126 / 5000), rel=0.2)


@pytest.mark.slow
def test_positions_teach_the_posterior_s_shape_and_momenta_do_not():
    """From where the posterior is, in a problem whose widths differ by a factor ten."""
    rng = generator(1)
    features = rng.standard_normal((500, 2)) * [3.0, 0.3]
    target = LogisticRegression(features, (rng.random(500) < 0.5).astype(float))
    covariance = np.linalg.inv(target.draw(rng, np.zeros(2)).metric(np.zeros(2)).g)
    start = rng.standard_normal((10, 2)) * np.sqrt(covariance.diagonal())
    shapes = {}
    for method in ("HMC-EM", "HMC (positions)"):
        sampler = methods.sampler(
            method, {"step_size": 0.02}, samples=200, freeze=1000, dense=True, variance=1e-3
        )
        state = sampler.init(rng, start)
        for _ in range(600):
            state = sampler.step(rng, state, target)
        shapes[method] = methods.condition(sampler, state)
        if method == "HMC (positions)":
            np.testing.assert_allclose(np.linalg.det(sampler.mass.inverse(state.mass).g), 1)
    assert shapes["HMC (positions)"] == pytest.approx(np.linalg.cond(covariance), rel=0.3)
    assert shapes["HMC-EM"] < 0.1 * np.linalg.cond(covariance)


def test_unit_scale_of_a_diagonal_mass():
    mass = methods.PositionMass(MassEM(samples=2, source="positions"))
    theta = np.array([[1.0, 2.0, -3.0]])
    state = mass.init(theta)
    for scale in (1.0, -2.0):
        state = mass.update(generator(0), state, scale * theta, theta)
    assert mass.inverse(state).g.prod() == pytest.approx(1)
    assert not np.allclose(mass.inverse(state).g, 1)


def test_condition_of_the_normal_law_is_that_of_theta():
    target = NormalWishart(3 * generator(4).standard_normal(50))
    covariance = np.cov(posteriors.normal_wishart_draws(target, generator(5), (100_000,)).T)
    assert synthetic.exact_moments(target)[2] == pytest.approx(np.linalg.cond(covariance), rel=0.05)


@pytest.mark.slow
def test_grid_moments_of_a_logistic_posterior():
    """By importance sampling from the normal law at the highest point."""
    features, labels = synthetic.draw_synthetic(generator(2), 60)
    target = LogisticRegression(features, labels, batch=5)
    mean, variance, shape = synthetic.exact_moments(target)
    full = LogisticRegression(features, labels).draw(None, mean)
    metric = Dense(full.metric(mean).g / 2)
    theta = mean + metric.inverse_root(generator(3).standard_normal((200_000, 2)))
    log_weight = ((theta - mean) * metric.apply(theta - mean)).sum(-1) / 2 - full.value(theta)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    by_draws = weight @ theta
    covariance = np.cov(theta.T, aweights=weight)
    np.testing.assert_allclose(mean, by_draws, atol=0.02 * np.sqrt(variance.max()))
    np.testing.assert_allclose(variance, covariance.diagonal(), rtol=0.03)
    assert shape == pytest.approx(np.linalg.cond(covariance), rel=0.05)


@pytest.fixture(scope="module")
def topic_records(data):
    jobs = [
        {
            **job,
            "documents": 150,
            "rank": 10,
            "batch": 50,
            "burn_in": 15,
            "keep": 20,
            "thin": 10,
            "samples": 5,
        }
        for job in TOPICS.jobs(False, 0)
        if job["seed"] == 0
    ]
    return done(TOPICS, jobs)


@pytest.mark.slow
def test_topics_predict_better_than_a_flat_distribution(topic_records):
    for job, numbers in topic_records:
        steps, seconds, perplexity = np.array(numbers["curve"]).T
        np.testing.assert_array_equal(steps, [10, 20])
        assert seconds[0] < seconds[1]
        assert 300 < perplexity[1] < perplexity[0] < 1995, job["method"]
        assert numbers["perplexity"] == perplexity[1]


@pytest.mark.slow
def test_a_chain_that_diverges_is_a_row(topic_records):
    job, _ = next(r for r in topic_records if r.job["method"] == "SGNHT")
    job = {**job, "settings": {**job["settings"], "step_size": 1e6}}
    with np.errstate(all="ignore"):
        records = [*topic_records[:1], *done(TOPICS, [job])]
    assert "diverged" in records[1].numbers["diverged"]
    assert TOPICS.table(records)[1]["perplexity"] == "diverged"
    assert len(TOPICS.figure(records).axes[0].lines) == 1


def test_a_mistake_is_no_row_of_a_chain_that_diverged(data, monkeypatch):
    def mistaken(*arguments):
        raise AlphaMFError("a mistake")

    monkeypatch.setattr(topics, "_sample", mistaken)
    job = {**TOPICS.jobs(False, 0)[0], "documents": 150, "rank": 10}
    with pytest.raises(AlphaMFError, match="a mistake"):
        topics.work(job)


def test_reuters_is_split_by_date_and_has_10_000_words(data):
    """21 577 documents, the first 60 % for training; every word of the vocabulary is used."""
    train, test = topics.corpus(None, "reuters")
    assert train.shape == (12_946, 10_000) and test.shape == (8631, 10_000)
    assert round(0.6 * (12_946 + 8631)) == 12_946
    assert min(train.sum(), test.sum()) > 500_000 and train.sum() + test.sum() == 1_603_544
    used = np.asarray((train > 0).sum(0)).ravel() + np.asarray((test > 0).sum(0)).ravel()
    assert used.min() >= 7


def test_one_minibatch_an_iteration(data):
    train, test = topics.corpus(100)
    assert train.shape[0] == 100
    assert test.shape[1] == train.shape[1] == 1995
    target = TopicModel(train, 10, batch=20)
    rng = generator(0)
    theta = target.start(rng)
    held = topics.OneBatch(target, 3)
    potentials = [held.draw(rng, theta) for _ in range(6)]
    assert potentials[0] is potentials[2]
    assert potentials[3] is potentials[5]
    assert potentials[2] is not potentials[3]


def test_mass_of_log_e_rests():
    learner = MassEM(samples=1, growth=np.inf)
    mass = topics.PartlyAdaptiveMass(learner, 2)
    theta = np.ones((1, 6))
    state = mass.update(generator(0), mass.init(theta), theta, 3 * theta)
    inverse = mass.inverse(state).g
    np.testing.assert_array_equal(inverse[0, 2:4], 1)
    assert (inverse[0, [0, 1, 4, 5]] < 1).all()


def test_times_of_an_iteration_are_processor_time_in_turns(monkeypatch):
    """Each sampler's first five steps are left out, then both make five parts in turn."""
    clock = [0.0]
    made = []

    class Ticking:
        needs = ()

        def __init__(self, milliseconds):
            self.milliseconds = milliseconds

        def init(self, rng, theta):
            return SGLDState(theta, 0)

        def step(self, rng, state, target):
            clock[0] += self.milliseconds / 1e3 * (10 if state.step < 5 else 1)
            made.append(self.milliseconds)
            return SGLDState(state.theta, state.step + 1)

    monkeypatch.setattr(base.time, "process_time", lambda: clock[0])
    found = base.seconds_per_step(None, [Ticking(2.0), Ticking(3.0)], 20, np.zeros(1))
    np.testing.assert_allclose(found, [[2e-3] * 5, [3e-3] * 5])
    assert made[10:] == ([2.0] * 4 + [3.0] * 4) * 5
    assert methods.ratio(found[1], found[0]) == "1.50"
