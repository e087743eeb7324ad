"""The experiments of the HAMCMC paper at small sizes, and the Gibbs sampler's exact laws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from alphamf.factorization.alpha_mf import FLOOR, AlphaMF, Source
from alphamf.factorization.priors import Gamma, GeneralizedGamma
from alphamf.inference.random import generator
from alphamf.research.experiments.base import Record, markdown
from alphamf.research.experiments.catalogue import EXPERIMENTS
from alphamf.research.experiments.hamcmc import linear, quartic, speech
from alphamf.research.experiments.hamcmc.gibbs import Gibbs
from tests.support.laws import P_LEAST, Z_MOST

LINEAR, SPEECH = (EXPERIMENTS[name] for name in ("linear-gaussian", "alpha-mf-speech"))


# --- The Gibbs sampler ---------------------------------------------------------------------------


def test_gibbs_draws_the_conjugate_posterior():
    """Alpha = 2 and a single component: s is X, and 1 / H and 1 / W have Gamma laws given it."""
    rng = generator(0)
    power = rng.standard_exponential((6, 4000))
    basis = rng.random((6, 1)) + 0.2
    prior = GeneralizedGamma(2.0, 0.7, -1.0)
    target = AlphaMF(power, [Source(2.0, 1, basis, prior_gains=prior)])
    chain = Gibbs(target, rng, target.start(rng))
    chain.sweep(rng)
    scale = 0.7 + (power / (2 * basis)).sum(0)
    found = stats.invgamma.cdf(chain.theta, 2 + 6, scale=scale)
    assert stats.kstest(found, "uniform").pvalue > P_LEAST

    target = AlphaMF(power.T.copy(), [Source(2.0, 1, None, prior, prior)])
    chain = Gibbs(target, rng, target.start(rng))
    chain.sweep(rng)
    ((w, h),) = target.unpack(chain.theta)
    scale = 0.7 + (power.T / (2 * h)).sum(1)
    found = stats.invgamma.cdf(w[:, 0], 2 + 6, scale=scale)
    assert stats.kstest(found, "uniform").pvalue > P_LEAST


def test_gibbs_draws_the_components_of_a_cell():
    """Alpha = 2, three components: E |s|^2 given X, and the sum of s, written out."""
    rng = generator(1)
    basis = np.array([[0.3, 1.0, 2.0]])
    power = np.full((1, 40_000), 3.0)
    target = AlphaMF(power, [Source(2.0, 3, basis)])
    theta = target.start(rng)
    theta[...] = 1.0
    chain = Gibbs(target, rng, theta)
    (found,) = chain._draw_sources(rng, chain._variances())
    v = 2 * basis[0]
    share = v / (v.sum() + FLOOR)
    expected = v * (1 - share) + share**2 * 3.0
    z = (found[:, 0] - expected[:, None]).mean(1) / found[:, 0].std(1) * np.sqrt(power.size)
    assert np.abs(z).max() < Z_MOST


@pytest.mark.parametrize("conjugate", [True, False])
def test_gibbs_keeps_the_joint_law(conjugate):
    """Geweke's test: H, Phi and X from their joint law; sweeps leave it as it was."""
    rng, alphas, rows, columns = generator(2), (1.2, 1.89), 5, 5000
    sources = [
        Source(
            alpha,
            2,
            rng.random((rows, 2)) + 0.2,
            prior_gains=GeneralizedGamma(2.5, 0.7, -2 / alpha) if conjugate else Gamma(2.5, 3.0),
        )
        for alpha in alphas
    ]
    target = AlphaMF(np.ones((rows, columns)), sources)
    theta = target.start(rng)
    for (_, h), alpha in zip(target.unpack(theta), alphas, strict=True):
        gamma = rng.standard_gamma(2.5, h.shape)
        h[...] = 0.7 * gamma ** (-alpha / 2) if conjugate else gamma / 3
    chain = Gibbs(target, rng, theta)
    parts = zip(chain.phi, chain._variances(), strict=True)
    sigma2 = FLOOR + sum((phi * c).sum(0) for phi, c in parts)
    chain.amplitude[...] = np.sqrt(sigma2 * rng.standard_exponential(sigma2.shape))
    chain.sweep(rng)
    chain.sweep(rng)
    heard = np.log(chain.amplitude).mean(0)
    old, new = target.unpack(theta), target.unpack(chain.theta)
    for alpha, phi, (_, before), (_, after) in zip(alphas, chain.phi, old, new, strict=True):
        gamma = (after / 0.7) ** (-2 / alpha) if conjugate else after * 3
        assert min(stats.kstest(g, stats.gamma(2.5).cdf).pvalue for g in gamma) > P_LEAST
        change = (np.log(after) - np.log(before)) * heard
        z = [change.mean(1) / change.std(1) * np.sqrt(columns)]
        laplace = np.exp(-phi) - np.exp(-(2 ** (alpha / 2)))
        z.append(laplace.mean() / laplace.std() * np.sqrt(laplace.size))
        assert max(np.abs(np.hstack(z))) < Z_MOST
        assert np.corrcoef(np.log(before[0]), np.log(after[0]))[0, 1] < 0.95  # it does move


# --- linear-gaussian -----------------------------------------------------------------------------


def linear_gaussian(method: str, size: int, steps: int):
    return linear.work({"method": method, "size": size, "steps": steps, "seed": 0})


def test_linear_posterior_is_correlated_and_runs_are_repeatable():
    target = linear.target_of(2, 0)
    c = target.covariance
    assert c[0, 1] / np.sqrt(c[0, 0] * c[1, 1]) < -0.8
    first, second = (linear_gaussian("HAMCMC, M = 2", 10, 60) for _ in range(2))
    assert first["running"] == second["running"]


@pytest.mark.slow
def test_linear_right_and_wrong_samplers_are_told_apart():
    """SGRLD reaches the posterior; PSGLD at the printed step is far too wide, SGLD too narrow."""
    spread = {name: linear_gaussian(name, 2, 1500)["spread"] for name in ("SGLD", "PSGLD", "SGRLD")}
    assert spread["PSGLD"] > 10
    assert 0.2 < spread["SGRLD"] < 3
    assert spread["SGLD"] < spread["SGRLD"]
    found = linear_gaussian("SGRLD", 2, 1500)
    assert found["running"][-1] < 0.2 * found["running"][0]
    assert len(found["covariance"]) == len(found["windows"])


def test_linear_chains_that_explode_are_reported(monkeypatch):
    monkeypatch.setitem(linear.METHODS, "SGLD", lambda size: linear.SGLD(1e3))
    job = {"method": "SGLD", "size": 2, "steps": 200, "seed": 0}
    target = linear.target_of(2, 0)
    numbers = linear._follow(target, linear.SGLD(1e3), job["steps"], 0)
    assert numbers["exploded"]


@pytest.mark.slow
def test_naive_chain_is_biased_and_hamcmc_is_not():
    job = {"size": quartic.SIZE, "step_size": 0.08, "time": 4.0, "chains": 1000, "seed": 0}
    bias = {name: LINEAR.work({**job, "method": name})["bias"] for name in quartic.METHODS}
    assert bias.pop("naive quasi-Newton, M = 2") > 0.2
    assert max(map(abs, bias.values())) < 0.1


@pytest.mark.slow
def test_linear_table_and_figure():
    jobs = []
    for job in LINEAR.jobs(False, 0):
        small = {"time": 1.0, "chains": 20} if "time" in job else {"steps": 30}
        jobs += [{**job, **small}] if job["seed"] == 0 else []
    records = [Record(job, LINEAR.work(job)) for job in jobs]
    rows = LINEAR.table(records)
    assert len(rows) == 3 * len(linear.METHODS) + len(quartic.METHODS)
    assert "below SGLD, PSGLD" in markdown(rows)
    assert len({tuple(row) for row in rows}) == 1
    assert LINEAR.figure(records).get_axes()


# --- alpha-mf-speech -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_dictionary(shared):
    paths = sorted((shared / "corpora" / "noizeus" / "clean").glob("sp0[23].flac"))
    return speech.train(paths, rank=10, alpha=1.2, context=1, steps=20)


@pytest.mark.slow
def test_speech(shared, small_dictionary, monkeypatch):
    """The five methods on a signal, from one start, with few steps."""
    monkeypatch.setenv("ALPHAMF_DATA", str(shared))
    monkeypatch.setattr(speech, "dictionary", lambda: small_dictionary)
    jobs = SPEECH.jobs(True, 0)
    signals = {job["noisy"] for job in jobs}
    assert len(signals) == 80 and len(jobs) == 80 * len(speech.METHODS)
    assert all(noisy.split("/")[0].endswith("_5dB") for noisy in signals)
    first = [{**job, "steps": 60, "sweeps": 1} for job in jobs if job["noisy"] == jobs[0]["noisy"]]
    records = [Record(job, SPEECH.work(job)) for job in first]
    found = {job["method"]: numbers["sdr"] for job, numbers in records}
    assert 3 < found["noisy"] < 7
    assert np.isfinite(list(found.values())).all()
    em = {**first[0], "method": "EM", "steps": 800}
    assert SPEECH.work(em)["sdr"] > max(found["noisy"], found["start"])
    rows = SPEECH.table(records)
    assert [row["method"] for row in rows] == list(speech.METHODS)
    assert SPEECH.figure(records).get_axes()
