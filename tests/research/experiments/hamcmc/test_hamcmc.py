"""The experiments of the HAMCMC paper at small sizes, and the Gibbs sampler's exact laws."""

import csv

import numpy as np
import pytest
from scipy import stats

from alphamf.errors import AlphaMFError
from alphamf.factorization.alpha_mf import FLOOR, AlphaMFTarget, Source
from alphamf.factorization.priors import Gamma, GeneralizedGamma
from alphamf.inference.checks import P_LEAST, Z_MOST
from alphamf.inference.random import generator
from alphamf.inference.samplers.hamcmc import HAMCMC
from alphamf.research.experiments.base import JobRecord
from alphamf.research.experiments.catalogue import EXPERIMENTS
from alphamf.research.experiments.hamcmc import (
    linear,
    speech,
    speech_search,
)
from alphamf.research.experiments.hamcmc.gibbs import Gibbs, Interleaved
from tests.support.places import ROOT

LINEAR, SPEECH = EXPERIMENTS["linear-gaussian"], EXPERIMENTS["alpha-mf-speech"]


# --- The Gibbs sampler ---------------------------------------------------------------------------


def test_gibbs_draws_the_conjugate_posterior():
    """Alpha = 2 and a single component: s is X, and 1 / H and 1 / W have Gamma laws given it."""
    rng = generator(0)
    power = rng.standard_exponential((6, 4000))
    basis = rng.random((6, 1)) + 0.2
    prior = GeneralizedGamma(2.0, 0.7, -1.0)
    target = AlphaMFTarget(power, [Source(2.0, 1, basis, prior_gains=prior)])
    chain = Gibbs(target, rng, target.start(rng))
    chain.sweep(rng)
    scale = 0.7 + (power / (2 * basis)).sum(0)
    found = stats.invgamma.cdf(chain.theta, 2 + 6, scale=scale)
    assert stats.kstest(found, "uniform").pvalue > P_LEAST

    target = AlphaMFTarget(power.T.copy(), [Source(2.0, 1, None, prior, prior)])
    chain = Gibbs(target, rng, target.start(rng))
    chain.sweep(rng)
    ((w, h),) = target.unpack(chain.theta)
    scale = 0.7 + (power.T / (2 * h)).sum(1)
    found = stats.invgamma.cdf(w[:, 0], 2 + 6, scale=scale)
    assert stats.kstest(found, "uniform").pvalue > P_LEAST


@pytest.mark.parametrize("collapsed", [True, False])
@pytest.mark.parametrize("conjugate", [True, False])
def test_gibbs_keeps_the_joint_law(conjugate, collapsed):
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
    target = AlphaMFTarget(np.ones((rows, columns)), sources)
    theta = target.start(rng)
    for (_, h), alpha in zip(target.unpack(theta), alphas, strict=True):
        gamma = rng.standard_gamma(2.5, h.shape)
        h[...] = 0.7 * gamma ** (-alpha / 2) if conjugate else gamma / 3
    chain = Gibbs(target, rng, theta, collapsed=collapsed)
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


def test_collapsed_gibbs_moves_phi_under_the_variance_of_the_whole_cell():
    """Two components in a cell: the law of Phi given X is that of importance-weighted priors."""
    rng, n, alpha, power = generator(3), 40_000, 1.2, 6.0
    target = AlphaMFTarget(np.full((1, n), power), [Source(alpha, 2, np.array([[0.5, 1.0]]))])
    theta = target.start(rng)
    theta[...] = 1.0
    chain = Gibbs(target, rng, theta, collapsed=True)
    (c,) = chain._variances()
    sigma2 = FLOOR + (chain.phi[0] * c).sum(0)
    weight = np.exp(-power / sigma2) / sigma2
    expected = (np.exp(-chain.phi[0]) * weight).sum((1, 2)) / weight.sum()
    for _ in range(30):
        chain._move_phi_given_x(rng, [c])
    found = np.exp(-chain.phi[0])[:, 0]
    # The error of the weights is about as large as that of the chains.
    z = (found.mean(1) - expected) / found.std(1) * np.sqrt(n / 3)
    assert np.abs(z).max() < Z_MOST
    from_prior = np.exp(-(2 ** (alpha / 2)))
    assert np.abs((found.mean(1) - from_prior) / found.std(1) * np.sqrt(n)).max() > 3 * Z_MOST


# --- linear-gaussian -----------------------------------------------------------------------------


def linear_gaussian(method: str, size: int, steps: int):
    return linear.work({"method": method, "size": size, "steps": steps, "seed": 0})


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


def test_linear_chains_that_explode_are_reported():
    assert linear._follow(linear.target_of(2, 0), linear.SGLD(1e3), 200, 0)["exploded"]


# --- alpha-mf-speech -----------------------------------------------------------------------------


@pytest.fixture
def small(shared, monkeypatch):
    """Make the experiment use a dictionary of two sentences."""
    monkeypatch.setenv("ALPHAMF_DATA", str(shared))
    folder = shared / "corpora" / "noizeus"
    paths = [folder / path for path in speech_search.training_files()[:2]]
    trained = speech_search.train(paths, rank=10, alpha=1.2, context=1, steps=20)
    monkeypatch.setattr(speech_search, "dictionary", lambda: trained)
    return trained


def test_speech_parts_share_no_sentence(shared, monkeypatch):
    monkeypatch.setenv("ALPHAMF_DATA", str(shared))
    training = {path.split("/")[1] for path in speech_search.training_files()}
    tuning = {noisy.split("/")[1] for noisy, _ in speech_search.tuning_clips()}
    test = {noisy.split("/")[1] for noisy, _ in speech_search.test_clips()}
    assert (len(training), len(tuning), len(test)) == (17, 3, 10)
    assert not training & tuning and not training & test and not tuning & test
    assert len(speech_search.test_clips()) == 80
    assert all("_5dB/" in noisy for noisy, _ in speech_search.test_clips())


@pytest.mark.parametrize("content", [None, b"path,speaker\na.wav,sp01\n", b"\xff\n"])
def test_folder_without_a_list_of_its_recordings_is_one_sentence(content, tmp_path, monkeypatch):
    monkeypatch.setenv("ALPHAMF_DATA", str(tmp_path))
    path = tmp_path / "corpora" / "noizeus" / "MANIFEST.csv"
    path.parent.mkdir(parents=True)
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(AlphaMFError, match=r"noizeus/MANIFEST\.csv cannot be read"):
        SPEECH.jobs(False, 0)


def test_unit_of_power_changes_the_factors_and_not_the_posterior(small, shared):
    noisy, _ = speech_search.waves(speech_search.tuning_clips()[0])
    power = np.abs(speech_search.stft.forward(noisy, small.frame)) ** 2
    one, other = (speech_search.start(power, small, 0, unit=unit, blocks=1) for unit in (1.0, 1e4))
    np.testing.assert_allclose(one.target.gain(one.theta), other.target.gain(other.theta), 1e-3)
    scales = other.theta / one.theta
    w_noise, h_speech = one.target.unpack(scales)[1][0], one.target.unpack(scales)[0][1]
    np.testing.assert_allclose(h_speech, 1e4**0.6, 1e-4)
    np.testing.assert_allclose(w_noise, 1e4 ** (1.89 / 4), 1e-4)
    # U d theta is a number without a unit.
    slopes = [b.target.potential().grad(b.theta) * b.theta for b in (one, other)]
    np.testing.assert_allclose(*slopes, rtol=2e-2, atol=1e-2 * np.abs(slopes[0]).max())


def test_tuned_settings_are_the_best_of_the_search():
    """docs/benchmarks has the table that the search wrote; the experiment takes the first rows."""
    with open(ROOT / "docs/benchmarks/alpha-mf-speech-search.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for method in speech_search.METHODS:
        own = [row for row in rows if row["method"] == method]
        assert len(own) == speech_search.TRIALS
        scores = [
            -99.0 if row["SDR in dB"] == "diverged" else float(row["SDR in dB"]) for row in own
        ]
        assert scores == sorted(scores, reverse=True)
        names = ("unit", "step_size", "damping", "gamma", "trust", "memory")
        best = {name: float(own[0][name]) for name in names if own[0][name]}
        assert best == pytest.approx(speech.TUNED[method])


def test_interleaved_is_hamcmc_with_an_identity_and_one_gradient():
    target = linear.target_of(2, 0)
    ours, theirs = Interleaved(2e-4, memory=3), HAMCMC(2e-4 / 50, memory=3, gamma=50.0)
    start = target.start(generator(0))
    # The first step of HAMCMC has no pair yet.
    rng, again = generator(1), generator(1)
    first = ours.step(rng, ours.init(rng, start), target).theta
    np.testing.assert_allclose(first, theirs.step(again, theirs.init(again, start), target).theta)
    # Each chain is one of SGLD, of every third step.
    rng, chain = generator(1), [start] * 3
    for step in range(7):
        origin = chain[step % 3]
        gradient = target.draw(rng, origin).grad(origin)
        kick = np.sqrt(4e-4) * rng.standard_normal(2)
        chain[step % 3] = origin - 2e-4 * gradient + kick
    rng = generator(1)
    state = ours.init(rng, start)
    for _ in range(7):
        state = ours.step(rng, state, target)
    np.testing.assert_allclose(state.theta, chain[0])


@pytest.mark.slow
def test_speech(small):
    """All methods on a signal, from one start, with few steps."""
    first = speech_search.test_clips()[0][0]
    records = []
    for job in SPEECH.jobs(True, 0):
        if job["noisy"] == first:
            passes = "Gibbs" in job["method"]
            short = {"steps": min(job["steps"], 1 if passes else 60)}
            records.append(JobRecord(job | short, SPEECH.work(job | short)))
    found = {job["method"]: numbers["sdr"] for job, numbers in records}
    assert list(found) == list(speech.METHODS)
    assert 3 < found["noisy"] < 7
    assert np.isfinite(list(found.values())).all()
    assert found["EM"] > max(found["noisy"], found["start"])
