"""Every constant of the experiments, held against what the papers print.

The numbers here are copied from the papers: from their texts, their tables and the appendices. What
the papers do not print has its own place, docs/experiments/searches.md, and its own tests.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from alphamf.inference.random import generator
from alphamf.inference.samplers.hamcmc import HAMCMC, NaiveQN
from alphamf.inference.samplers.langevin import PSGLD, RSGLD, SGLD
from alphamf.inference.schedule import Polynomial
from alphamf.research.experiments.catalogue import EXPERIMENTS
from alphamf.research.experiments.hamcmc import (
    distributed_mf,
    linear,
    speech,
    speech_chain,
)
from alphamf.research.experiments.mass_em import synthetic, topics
from alphamf.research.experiments.quasi_newton import bpmf, gaussian, mnist
from alphamf.research.experiments.richardson import gaussian as richardson
from alphamf.research.experiments.richardson import laws, rates


def full_jobs(name, **wanted):
    """Return the jobs of an experiment's full form that have the given values."""
    found = [
        job
        for job in EXPERIMENTS[name].jobs(True, 0)
        if all(job.get(key) == value for key, value in wanted.items())
    ]
    assert found
    return found


def the(jobs, *keys):
    """Return the single value that all jobs have, under a path of keys."""
    values = []
    for job in jobs:
        value = job
        for key in keys:
            value = value[key]
        values.append(value)
    assert all(value == values[0] for value in values)
    return values[0]


# --- Simsekli et al., ICML 2016 ------------------------------------------------------------------

# Appendix B, table 1: D, then a of SGLD, PSGLD, SGRLD and HAMCMC.
TABLE_1 = {
    2: (1e-5, 5e-2, 5e-2, 1e-6),
    10: (1e-6, 1e-1, 5e-1, 1e-8),
    100: (8e-6, 1e-1, 5e-1, 1e-8),
}


@pytest.mark.parametrize("size", TABLE_1)
def test_linear_gaussian_has_table_1(size):
    sgld, psgld, sgrld, hamcmc = (Polynomial(a, 0.51) for a in TABLE_1[size])
    n = linear.POINTS  # of the mean gradient; not printed
    assert {name: make(size) for name, make in linear.METHODS.items() if "search" not in name} == {
        "SGLD": SGLD(sgld),
        "PSGLD": PSGLD(psgld, decay=0.9, damping=1e-3, scale=n),
        "PSGLD, lagged": PSGLD(psgld, decay=0.9, damping=1e-3, scale=n, lagged=True),
        "SGRLD": RSGLD(sgrld),
        "HAMCMC, M = 2": HAMCMC(hamcmc, memory=2, gamma=50.0, trust=1.0),
        "HAMCMC, M = 3": HAMCMC(hamcmc, memory=3, gamma=50.0, trust=1.0),
        "naive quasi-Newton, M = 2": NaiveQN(hamcmc, memory=2, gamma=50.0, trust=1.0),
    }
    searched = tuple(make(size) for name, make in linear.METHODS.items() if "search" in name)
    assert searched == linear.SEARCHED[size]


def test_linear_gaussian_has_the_sizes_of_section_4_1():
    assert set(TABLE_1) == set(linear.PRINTED)
    jobs = [job for job in full_jobs("linear-gaussian") if job["size"] in TABLE_1]
    assert the(jobs, "steps") == 20_000
    for size in TABLE_1:
        target = linear.target_of(size, 0)
        assert target.variance == 10  # sigma_x^2
        assert target.batch == len(target.x) // 100  # N / 100
        # theta ~ N(0, I): the prior's part of the precision is I.
        data = target.a.T @ target.a / 10
        np.testing.assert_allclose(target.precision - data, np.eye(size), atol=1e-8)


def test_speech_has_table_2_and_section_4_2(shared, monkeypatch):
    monkeypatch.setenv("ALPHAMF_DATA", str(shared))
    cells = 256 * 140
    printed = {
        "SGLD": SGLD(Polynomial(1e-6, 0.51)),
        "PSGLD": PSGLD(Polynomial(2e-5, 0.51), decay=0.9, damping=1e-3, scale=cells),
        "PSGLD, lagged": PSGLD(
            Polynomial(2e-5, 0.51), decay=0.9, damping=1e-3, scale=cells, lagged=True
        ),
        "HAMCMC": HAMCMC(Polynomial(1e-8, 0.51), memory=5, gamma=0.01, trust=1000.0),
    }
    assert {name: speech.PRINTED[name] for name in printed} == printed
    for name, sampler in printed.items():
        for job in full_jobs("alpha-mf-speech", method=f"{name}, printed"):
            assert job["steps"] == 2500
        assert speech.METHODS[f"{name}, printed"].sampler == sampler
    settings = speech_chain.SETTINGS
    assert (settings.steps, settings.keep, settings.blocks) == (2500, 200, 10)
    assert (settings.alpha_speech, settings.alpha_noise) == (1.2, 1.89)
    assert settings.noise_rank == 5  # K = 105, of which 100 are speech
    assert speech_chain.KEPT == 200 / 2500


def test_dictionary_of_speech_has_100_columns_at_alpha_1_2(shared, monkeypatch):
    asked = {}
    monkeypatch.setenv("ALPHAMF_DATA", str(shared))
    monkeypatch.setattr(speech_chain, "train", lambda paths, **settings: asked.update(settings))
    speech_chain.dictionary.__wrapped__()
    assert (asked["rank"], asked["alpha"], asked["rate"], asked["context"]) == (100, 1.2, 8000, 1)


# Appendix B, table 3: epsilon of each method.
TABLE_3 = {"DSGLD": 1e-4, "PSGLD": 1e-3, "PSGLD, lagged": 1e-3, "HAMCMC": 3e-4}


@pytest.mark.parametrize("method", TABLE_3)
def test_distributed_mf_has_table_3_and_section_4_3(method):
    jobs = full_jobs("distributed-mf", method=method, kind="printed")
    assert the(jobs, "step_size") == TABLE_3[method]
    assert the(jobs, "burn_in") == 100
    assert the(jobs, "blocks") == 4  # figure 4: 4 x 4
    assert {job["rank"] for job in jobs} == {10, 50}  # printed, and the first version
    sampler = distributed_mf.sampler_of(jobs[0], 1000)
    assert (
        sampler
        == {
            "DSGLD": SGLD(1e-4),
            "PSGLD": PSGLD(1e-3, decay=0.9, damping=5.0, scale=1000.0),
            "PSGLD, lagged": PSGLD(1e-3, decay=0.9, damping=5.0, scale=1000.0, lagged=True),
            "HAMCMC": HAMCMC(3e-4, memory=2, gamma=1.0, trust=100.0),
        }[method]
    )


# --- Roychowdhury & Parthasarathy, NIPS 2017 -----------------------------------------------------


def test_normal_1d_has_section_4_1():
    """5000 points and iterations, 10 leaps, batches of 100; the steps and noise terms printed."""
    jobs = full_jobs("normal-1d")
    for key, value in {"points": 5000, "burn_in": 5000, "keep": 5000}.items():
        assert the(jobs, key) == value
    assert the(jobs, "settings", "leaps") == 10
    assert {job["batch"] for job in jobs if not job["method"].startswith(("HMC", "RHMC"))} == {100}
    printed = {
        "HMC": {"step_size": 1e-2},
        "RHMC": {"fixed_points": 1},
        "SGHMC": {"friction": 10.0},
        "SGNHT": {"diffusion": 1.0},
        "SGR-NPHMC": {"fixed_points": 1, "thermostat_friction": 0.01},
    }
    for method, settings in printed.items():
        for job in jobs:
            if job["method"] in (method, f"{method}-EM"):
                assert settings.items() <= job["settings"].items()
    assert synthetic.TRUE["normal-1d"] == (0.0, 1.0)  # N(0, 1)


def test_logistic_2d_has_section_4_2():
    """2000 points, 10 000 of burn-in, 10 leaps, batches of 100, S_count; steps from the grids."""
    jobs = full_jobs("logistic-2d", data="synthetic")
    assert the(jobs, "points") == 2000
    assert the(jobs, "settings", "leaps") == 10
    for job in jobs:
        # The Riemannian samplers make a tenth, as docs/experiments/mass_em.md says.
        tenth = 10 if job["method"] in ("RHMC", "SGR-NPHMC") else 1
        assert job["burn_in"] == 10_000 // tenth
        assert job["samples"] == (200 if job["method"].startswith("SG-NPHMC") else 300)
        assert job["batch"] == (None if job["method"].startswith(("HMC", "RHMC")) else 100)
        settings = job["settings"]
        if tenth == 1:
            assert settings["step_size"] in (1e-2, 1e-4, 1e-6)
        else:
            assert settings["fixed_points"] in (2, 3)
        for name in ("friction", "diffusion", "thermostat_friction"):
            assert settings.get(name, 1) in (0.001, 0.01, 0.1, 1, 10)
    target, _ = synthetic._problem(jobs[0])
    assert target.prior_variance == 10  # N(0, 10 I)
    assert synthetic.TRUE["logistic-2d"] == (1.0, -1.0)
    features, _ = synthetic.draw_synthetic(generator(0), 20_000)
    side = np.sign(features @ [1.0, -1.0])
    # Two normal laws about (1, -1) and (-1, 1), each with the covariance I.
    assert abs((features[:, 0] + features[:, 1]).std() - 2**0.5) < 0.05
    assert abs((features[side > 0] @ [1.0, -1.0]).mean() - 2) < 0.15
    assert abs((side > 0).mean() - 0.5) < 0.02


def test_topics_has_section_4_3():
    jobs = full_jobs("topics")
    for key, value in {"rank": 100, "burn_in": 1500, "keep": 1500, "thin": 100}.items():
        assert the(jobs, key) == value
    for job in jobs:
        assert job["samples"] == (50 if job["method"].startswith("SG-NPHMC") else 100)
    reuters = full_jobs("topics-reuters")
    for key, value in {"rank": 100, "burn_in": 2500, "corpus": "reuters"}.items():
        assert the(reuters, key) == value
    sampler = topics._sampler(full_jobs("topics", method="SGHMC-EM")[0])
    assert np.isinf(sampler.mass.learner.growth)  # S_count stays as it is


# Tables 1 to 3: RMSE of both parameters, and milliseconds.
# Table 4: perplexity on 20 Newsgroups and on Reuters, and seconds on the first.


# --- Fu, Luo & Zhang, UAI 2016 -------------------------------------------------------------------


def test_gaussian_qn_has_section_5_1():
    jobs = [job for job in full_jobs("gaussian-qn") if job["method"] != "HMC, step 1"]
    for key, value in {"step": 0.01, "leaps": 10, "size": 100, "samples": 100_000}.items():
        assert the(jobs, key) == value
    assert (gaussian.ENSEMBLE, gaussian.LAGS) == (5, 500)


def test_mnist_has_section_5_2():
    jobs = full_jobs("mnist-7v9")
    for key, value in {"step": 0.1, "leaps": 5, "rows": None}.items():
        assert the(jobs, key) == value
    assert mnist.sampler_of(full_jobs("mnist-7v9", method="QNHMC")[0]).memory == 7
    assert mnist.sampler_of(full_jobs("mnist-7v9", method="HMC-BFGS")[0]).ensemble == 5


def test_bpmf_has_section_5_3():
    jobs = full_jobs("bpmf")
    for key, value in {"step": 0.01, "leaps": 10, "users": None}.items():
        assert the(jobs, key) == value
    assert bpmf.RANK == 10
    # The demo code's precision of the ratings; m is printed for section 5.2 only.
    assert bpmf.DEMO_VARIANCE_X == 1 / 2
    assert bpmf.sampler_of(full_jobs("bpmf", method="QNHMC")[0]).memory == 7
    assert bpmf.sampler_of(full_jobs("bpmf", method="HMC-BFGS")[0]).ensemble == 5


# --- Durmus et al., NIPS 2016 --------------------------------------------------------------------


def test_richardson_has_section_5_1():
    step = full_jobs("richardson", figure="step")
    for method, steps, burn_in in (("SGLD", 21_000, 1000), ("SGRRLD", 10_500, 500)):
        own = [job for job in step if job["method"] == method]
        assert (the(own, "steps"), the(own, "burn_in")) == (steps, burn_in)
        assert max(job["gamma"] for job in own) == 1e-3  # that of figure 1 (a)
        assert min(job["gamma"] for job in own) == 1e-6  # the axis of figure 2
    assert the(step, "chains") == 100  # "we average 100 runs"
    assert the(full_jobs("richardson", figure="dimension"), "gamma") == 1e-3
    momentum = [job["gamma"] for job in full_jobs("richardson", figure="momentum")]
    assert (min(momentum), max(momentum)) == (1e-4, 1e-2)  # the axis of figure 4
    assert richardson.RUNS == 100
    target = laws.model(1)
    assert (len(target.x), target.batch) == (1000, 100)  # N, and B = N / 10
    assert laws.PRIOR_VARIANCE == 10
    assert target.variance == 1  # sigma_x^2
    regressors = laws.model(20).a / laws.SCALE
    assert regressors.var() == pytest.approx(0.5, rel=0.05)  # a_n ~ N(0, I / 2)


def test_figure_3_has_its_k_and_its_constants():
    """K = 1e6, gamma_b = 2e-3 with 1/3 and gamma_M = 1e-3 with 0.2 among the exponents."""
    for quantity, constant, best in (("bias", 2e-3, 1 / 3), ("mse", 1e-3, 0.2)):
        jobs = full_jobs("richardson-rate", figure=quantity)
        assert (the(jobs, "steps"), the(jobs, "chains")) == (1_000_000, 100)
        (own,) = [job for job in jobs if abs(job["exponent"] - best) < 1e-3]
        assert own["gamma"] == pytest.approx(constant * 1e6**-best, rel=1e-3)
        assert min(job["exponent"] for job in jobs) < best < max(job["exponent"] for job in jobs)
        assert rates.BEST[quantity] == Fraction(best).limit_denominator(10)


def test_richardson_mf_has_section_5_2():
    for method, steps, burn_in in (("SGLD", 10_500, 500), ("SGRRLD", 5250, 250)):
        jobs = full_jobs("richardson-mf", method=method)
        assert (the(jobs, "steps"), the(jobs, "burn_in")) == (steps, burn_in)
        assert the(jobs, "gamma") == 2e-6
