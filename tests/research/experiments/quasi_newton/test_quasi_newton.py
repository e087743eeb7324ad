"""QNHMC's experiments at the smallest sizes: orderings that are certain, and the tables."""

import math

import numpy as np
import pytest

from alphamf.inference.random import generator
from alphamf.inference.targets.logistic import LogisticRegression
from alphamf.research.experiments.base import JobRecord
from alphamf.research.experiments.quasi_newton import bpmf, gaussian, mnist
from alphamf.research.experiments.ratings import RatingSplit


def test_gaussian_is_the_papers():
    target = gaussian.Gaussian(6)
    covariance = np.ones((6, 6)) + 4 * np.eye(6)
    theta = target.start(generator(0), (3,))
    solved = np.linalg.solve(covariance, theta.T).T
    np.testing.assert_allclose(target.grad(theta), solved)
    np.testing.assert_allclose(target.value(theta), 0.5 * (theta * solved).sum(-1))
    long, across, energy = gaussian.axis_coordinates(theta, target).T
    np.testing.assert_allclose(energy, (theta * solved).sum(-1))
    np.testing.assert_allclose(long**2, theta.sum(-1) ** 2 / 6)
    np.testing.assert_allclose(across, (theta[:, 0] - theta[:, 1]) / math.sqrt(2))


@pytest.mark.slow
def test_qnhmc_turns_the_long_axis_faster_than_hmc():
    records = []
    for job in gaussian.jobs(True, 0):
        job |= {"size": 60, "samples": 800, "chains": 2}
        records.append(JobRecord(job, gaussian.work(job)))
    of = {job["method"]: numbers for job, numbers in records}
    # At 10 leaps of 0.01 an axis of deviation s turns by 0.1 / s a step under HMC, 0.1 s under
    # QNHMC: s is 8 along and 2 across.
    assert max(of["QNHMC"]["sums"]) < 0.7 * min(of["HMC"]["sums"])
    assert of["QNHMC"]["acceptance"] > 0.95
    assert min(of["QNHMC"]["ess_long"]) > 2 * max(of["HMC"]["ess_long"])
    assert max(of["HMC"]["variance"]) < 0.3 < min(of["QNHMC"]["variance"])
    assert min(of["HMC, step 1"]["ess_long"]) > 2 * max(of["HMC"]["ess_long"])
    assert max(of["HMC, step 1"]["burn_in"]) < 100


def test_gradient_descent_falls_at_every_step_and_reaches_the_optimum():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((80, 3)) * [1.0, 3.0, 0.3]
    y = (x @ [1.0, -0.5, 2.0] + rng.standard_normal(80) > 0).astype(float)
    target = LogisticRegression(x, y, prior_variance=1.0)
    potential = target.draw(None, np.zeros(3))
    values = [float(potential.value(mnist.descend(target, steps))) for steps in range(20)]
    assert all(np.diff(values) < 0)
    end = mnist.descend(target, 5000)
    np.testing.assert_allclose(potential.grad(end), 0, atol=1e-8)
    # By hand: step 1 / L of the whole gradient, from zero.
    length = 1 / (np.linalg.eigvalsh(x.T @ x).max() / 4 + 1)
    np.testing.assert_allclose(mnist.descend(target, 1), -length * (x.T @ (0.5 - y)))


@pytest.mark.slow
def test_digits_are_told_apart(datasets):
    x, y, x_test, y_test = mnist.data()
    assert x.shape == (12214, 784) and x_test.shape == (2037, 784)
    assert (y == 0).sum() == 6265 and (y_test == 1).sum() == 1009
    # Pixels from 0 to 1, less the means of the training ones, of which each is 0 somewhere.
    np.testing.assert_allclose(x.mean(0, dtype=float), 0, atol=1e-6)
    for pixels in (x, x_test):
        unshifted = pixels - x.min(0)
        assert unshifted.min() > -1e-6 and unshifted.max() == pytest.approx(1)
    records = []
    for job in mnist.jobs(False, 0):
        job |= {"rows": 600, "samples": 64, "chains": 2}
        records.append(JobRecord(job, mnist.work(job)))
    of = {job["method"]: numbers for job, numbers in records}
    assert 0.02 < of["GD"]["errors"][0] < 0.12
    assert max(of["HMC"]["errors"]) < 0.15
    for method in ("HMC", "QNHMC", "HMC-BFGS"):
        assert of[method]["acceptance"] > 0.3
        # A posterior's typical set lies above its mode.
        assert min(of[method]["energy"]) > of["optimum"]["energy"][0]
    # Descent is on its way to the optimum.
    assert of["optimum"]["energy"][0] < of["GD"]["energy"][0] < 600 * np.log(2)


@pytest.mark.parametrize(("experiment", "share"), [(mnist, 1 / 2), (bpmf, 1 / 5)])
@pytest.mark.parametrize("full", [False, True])
def test_c_rests_before_samples_count(experiment, share, full):
    # C that learns has another law (tests/inference/samplers/test_qnhmc.py).
    job = next(job for job in experiment.jobs(full, 0) if job["method"] == "QNHMC")
    assert experiment.sampler_of(job).freeze == share * job["samples"]


@pytest.mark.slow
def test_averaged_samples_predict_ratings_better_than_one(datasets):
    records = []
    for job in bpmf.jobs(False, 0):
        job |= {"users": 100, "samples": 30}
        records.append(JobRecord(job, bpmf.work(job)))
    of = {job["method"]: numbers for job, numbers in records}
    for method in ("HMC", "QNHMC", "HMC-BFGS", bpmf.HYPER):
        assert of[method]["acceptance"] > 0.3
        # An average of samples predicts better than one of them.
        assert of[method]["rmse"] < of[method]["rmse_of_last"]
    assert 0.9 < of["MAP"]["rmse"] < 1.1


@pytest.mark.slow
def test_ratings_are_split_as_published_and_held_out_ones_are_training_ratings(datasets):
    ratings = RatingSplit()
    assert (len(ratings.train[0]), len(ratings.test[0])) == (900_000, 100_209)
    assert ratings.shape == (6040, 3706)
    held = RatingSplit(hold_out=0.1)
    assert len(held.train[0]) + len(held.test[0]) == 900_000
    assert len(held.test[0]) == pytest.approx(90_000, rel=0.02)
    few = RatingSplit(100)
    assert few.shape[0] == 100 and max(few.test[0]) < 100
    assert few.rmse(few.test[2] + 0.0) == 0
    assert few.rmse(np.full(len(few.test[0]), 9.0)) < few.rmse(np.full(len(few.test[0]), 9), False)
    target = few.target(rank=2)
    theta = np.zeros(target.size, np.float32)
    assert target.predict(theta, *few.test[:2])[0] == pytest.approx(few.train[2].mean(), abs=1e-5)


def test_burn_in_and_ess_per_second_of_the_table_are_of_these_times():
    numbers = {
        "kept": 1000,
        "sums": [1.5, 1.5],
        "burn_in": [10, None],
        "seconds": 0.004,
        "ess_long": [1.0],
        "ess_across": [1.0],
        "variance": [1.0],
        "acceptance": 0.9,
    }
    (row,) = gaussian.table([JobRecord({"method": "HMC"}, numbers)])
    # ESS 1000 / (1 + 2 * 1.5) = 250 in 4 s; 10 steps of burn-in take 40 ms.
    assert float(row["ESS"].split()[0]) == 250
    assert float(row["ESS per second"].split()[0]) == pytest.approx(62.5, abs=0.5)
    assert float(str(row["burn-in (s)"]).split()[0]) == pytest.approx(0.04)
    assert row["ms per sample"] == pytest.approx(4)
