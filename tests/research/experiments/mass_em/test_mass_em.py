"""The Monte Carlo EM paper's experiments on the smallest sizes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from alphamf.errors import AlphaMFError
from alphamf.inference.metric import Dense
from alphamf.inference.random import generator
from alphamf.inference.samplers.langevin import SGLDState
from alphamf.inference.samplers.masses import MassEM
from alphamf.inference.targets.logistic import LogisticRegression
from alphamf.inference.targets.topics import TopicModel
from alphamf.research.experiments.base import JobRecord, markdown
from alphamf.research.experiments.catalogue import MASS_EM
from alphamf.research.experiments.mass_em import methods, synthetic, topics

NORMAL, LOGISTIC, TOPICS, REUTERS = MASS_EM


@pytest.fixture(scope="module")
def data(shared):
    patch = pytest.MonkeyPatch()
    patch.setenv("ALPHAMF_DATA", str(shared))
    yield
    patch.undo()


def done(experiment, jobs):
    """Run jobs, and return their records as a file would give them back."""
    return [JobRecord(*json.loads(json.dumps([job, experiment.work(job)]))) for job in jobs]


def smaller(job, **changes):
    return {**job, "burn_in": 150, "keep": 200, "chains": 4, "timed": 5, **changes}


@pytest.fixture(scope="module")
def normal():
    few = {"burn_in": 10, "keep": 10}
    jobs = [
        smaller(job, **({} if job["method"] in ("HMC", "RHMC", "SGHMC") else few))
        for job in NORMAL.jobs(False, 0)
    ]
    return done(NORMAL, jobs)


@pytest.mark.slow
def test_all_rows_of_table_1(normal):
    rows = NORMAL.table(normal)
    names = [row["method"] for row in rows]
    assert names[0] == "posterior"
    assert set(synthetic.PAPER["normal-1d"]) <= set(names)
    assert [n for n in names if n.endswith("(positions)")] == [
        f"{n} (positions)" for n in methods.ADAPTIVE
    ]
    assert len({tuple(row) for row in rows}) == 1
    for row in rows[1:]:
        assert (row["ratio"] is None) == (methods.base_method(row["method"]) == row["method"])
    assert "0.1590" in markdown(rows)


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
def test_figure_of_table_1(normal, tmp_path):
    figure = NORMAL.figure(normal)
    assert len(figure.axes) == 2
    figure.savefig(tmp_path / "figure.png")


def test_jobs_hold_the_paper_s_sizes():
    for job in NORMAL.jobs(True, 3):
        assert (job["points"], job["burn_in"], job["settings"]["leaps"]) == (5000, 5000, 10)
        assert job["batch"] == (
            None if methods.base_method(job["method"]) in ("HMC", "RHMC") else 100
        )
    sizes = {
        (job["documents"], job["rank"], job["burn_in"], job["keep"], job["thin"])
        for job in TOPICS.jobs(True, 0)
    }
    assert sizes == {(None, 100, 1500, 1500, 100)}
    burn_in = {
        job["method"]: job["burn_in"]
        for job in LOGISTIC.jobs(True, 0)
        if job["data"] == "synthetic"
    }
    assert burn_in["HMC"] == 10_000 and burn_in["RHMC"] == 1000
    for experiment in MASS_EM:
        keys = [json.dumps(job, sort_keys=True) for job in experiment.jobs(False, 0)]
        assert len(keys) == len(set(keys))
        assert not set(keys) & {json.dumps(j, sort_keys=True) for j in experiment.jobs(False, 9)}


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


@pytest.mark.slow
def test_tables_2_and_3(data):
    wanted = ("HMC", "HMC-EM", "RHMC", "SGHMC")
    jobs = [job for job in LOGISTIC.jobs(False, 0) if job["method"] in wanted]
    jobs = [
        {**job, "timed": 5, "burn_in": 60 * (job["keep"] > 0), "keep": 60 * (job["keep"] > 0)}
        for job in jobs
    ]
    records = done(LOGISTIC, jobs)
    rows = {row["method"]: row for row in LOGISTIC.table(records)}
    assert list(rows) == ["posterior", *wanted]
    assert rows["RHMC"]["paper ms heart"] == "209"
    for name in ("ms", "ms australian-credit", "ms heart"):
        assert all(rows[method][name] for method in wanted)
        assert rows["HMC-EM"][name.replace("ms", "ratio")]
    found = {job["method"]: n for job, n in records if "rmse" in n}
    # The noise of minibatches at this step makes the law five times as wide.
    assert np.mean(found["SGHMC"]["rmse"]) > 2 * np.mean(found["HMC"]["rmse"])
    assert np.mean(found["RHMC"]["milliseconds"]) > 3 * np.mean(found["HMC"]["milliseconds"])
    assert len(LOGISTIC.figure(records).axes) == 2


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
def test_all_rows_of_table_4(topic_records):
    rows = TOPICS.table(topic_records)
    assert set(topics.PAPER) <= {row["method"] for row in rows}
    assert {row["method"]: row["paper"] for row in rows}["SGNHT-EM"] == "719"
    assert len({tuple(row) for row in rows}) == 1


@pytest.mark.slow
def test_topics_predict_better_than_a_flat_distribution(topic_records):
    for job, numbers in topic_records:
        steps, seconds, perplexity = np.array(numbers["curve"]).T
        np.testing.assert_array_equal(steps, [10, 20])
        assert seconds[0] < seconds[1]
        assert 300 < perplexity[1] < perplexity[0] < 1995, job["method"]
        assert numbers["perplexity"] == perplexity[1]


@pytest.mark.slow
def test_figure_1(topic_records):
    figure = TOPICS.figure(topic_records)
    assert [len(axis.lines) for axis in figure.axes] == [len(topics.METHODS)] * 2


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


@pytest.mark.slow
def test_reuters_is_learnt(data):
    """A few iterations, of two methods; the table has the paper's other corpus beside it."""
    small = {"documents": 150, "rank": 10, "batch": 50, "burn_in": 15, "keep": 20, "thin": 10}
    jobs = [
        {**job, **small, "samples": 5}
        for job in REUTERS.jobs(False, 0)
        if job["seed"] == 0 and job["method"] in ("SGHMC", "SGNHT-EM")
    ]
    records = done(REUTERS, jobs)
    for _, numbers in records:
        first, last = (point[2] for point in numbers["curve"])
        assert 300 < last < first < 10_000  # that of a flat distribution
    rows = {row["method"]: row for row in REUTERS.table(records)}
    assert rows["SGHMC"]["paper, RCV1"] == "996" and rows["SGNHT-EM"]["paper, RCV1"] == "968"
    assert "paper ms" not in rows["SGHMC"]


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

    monkeypatch.setattr(methods.time, "process_time", lambda: clock[0])
    found = methods.milliseconds(None, [Ticking(2.0), Ticking(3.0)], np.zeros(1), 20)
    np.testing.assert_allclose(found, [[2.0] * 5, [3.0] * 5])
    assert made[10:] == ([2.0] * 4 + [3.0] * 4) * 5
    assert methods.ratio({"milliseconds": found[1], "plain": found[0]}) == "1.50"
