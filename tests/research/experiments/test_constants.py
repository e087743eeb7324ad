"""Constants of the experiments, held against the texts, tables and appendices of the papers.

What the papers do not print has its own place, docs/experiments/searches.md, and its own tests.
"""

from fractions import Fraction

import numpy as np
import pytest

from alphamf.inference.random import generator
from alphamf.inference.samplers.hamcmc import HAMCMC, NaiveQN
from alphamf.inference.samplers.langevin import PSGLD, RSGLD, SGLD
from alphamf.inference.schedule import Polynomial
from alphamf.research.experiments.catalogue import EXPERIMENTS
from alphamf.research.experiments.hamcmc import distributed_mf, linear, speech, speech_search
from alphamf.research.experiments.mass_em import synthetic, topics
from alphamf.research.experiments.quasi_newton import bpmf, gaussian, mnist
from alphamf.research.experiments.richardson import gaussian as richardson
from alphamf.research.experiments.richardson import rates


def full_jobs(name, **wanted):
    """Return the jobs of an experiment's full form that have the given values."""
    found = [
        job
        for job in EXPERIMENTS[name].jobs(True, 0)
        if all(job.get(key) == value for key, value in wanted.items())
    ]
    assert found
    return found


PRINTED = [
    # Simsekli et al., ICML 2016: section 4.3, figure 4 (4 x 4 blocks), and appendix B, table 3.
    *(
        ("distributed-mf", {"method": method, "kind": "printed"},
         {"step_size": epsilon, "burn_in": 100, "blocks": 4})
        for method, epsilon in
        {"DSGLD": 1e-4, "PSGLD": 1e-3, "PSGLD, lagged": 1e-3, "HAMCMC": 3e-4}.items()
    ),
    *(("linear-gaussian", {"size": size}, {"steps": 20_000}) for size in (2, 10, 100)),
    *(("alpha-mf-speech", {"method": f"{name}, printed"}, {"steps": 2500})
      for name in ("SGLD", "PSGLD", "HAMCMC")),
    # Roychowdhury & Parthasarathy, NIPS 2017: sections 4.1 to 4.3.
    ("normal-1d", {}, {"points": 5000, "burn_in": 5000, "keep": 5000, "leaps": 10}),
    ("normal-1d", {"method": "SGHMC-EM"}, {"friction": 10.0, "batch": 100}),
    ("normal-1d", {"method": "HMC"}, {"step_size": 1e-2, "batch": None}),
    ("normal-1d", {"method": "RHMC"}, {"fixed_points": 1, "batch": None}),
    ("normal-1d", {"method": "SGNHT"}, {"diffusion": 1.0}),
    ("normal-1d", {"method": "SGR-NPHMC"}, {"fixed_points": 1, "thermostat_friction": 0.01}),
    ("logistic-2d", {"data": "synthetic"}, {"points": 2000, "leaps": 10}),
    ("logistic-2d", {"data": "synthetic", "method": "HMC"}, {"burn_in": 10_000, "samples": 300}),
    # The Riemannian samplers make a tenth, as docs/experiments/mass_em.md says.
    ("logistic-2d", {"data": "synthetic", "method": "RHMC"}, {"burn_in": 1000}),
    ("logistic-2d", {"data": "synthetic", "method": "SG-NPHMC"}, {"samples": 200, "batch": 100}),
    ("topics", {}, {"rank": 100, "burn_in": 1500, "keep": 1500, "thin": 100}),
    ("topics", {"method": "SGHMC-EM"}, {"samples": 100}),
    ("topics", {"method": "SG-NPHMC-EM"}, {"samples": 50}),
    ("topics-reuters", {}, {"rank": 100, "burn_in": 2500, "corpus": "reuters"}),
    # Fu, Luo & Zhang, UAI 2016: sections 5.1 to 5.3.
    ("gaussian-qn", {"method": "QNHMC"},
     {"step": 0.01, "leaps": 10, "size": 100, "samples": 100_000}),
    ("mnist-7v9", {}, {"step": 0.1, "leaps": 5, "rows": None}),
    ("bpmf", {}, {"step": 0.01, "leaps": 10, "users": None}),
    # Durmus et al., NIPS 2016: sections 5.1 and 5.2; 100 runs are averaged; figure 3 has K = 1e6.
    ("richardson", {"figure": "step", "method": "SGLD"},
     {"steps": 21_000, "burn_in": 1000, "chains": 100}),
    ("richardson", {"figure": "step", "method": "SGRRLD"}, {"steps": 10_500, "burn_in": 500}),
    ("richardson", {"figure": "dimension"}, {"gamma": 1e-3}),
    ("richardson-rate", {}, {"steps": 1_000_000, "chains": 100}),
    ("richardson-mf", {"method": "SGLD"}, {"steps": 10_500, "burn_in": 500, "gamma": 2e-6}),
    ("richardson-mf", {"method": "SGRRLD"}, {"steps": 5250, "burn_in": 250, "gamma": 2e-6}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "wanted", "printed"), PRINTED, ids=str)
def test_jobs_have_what_the_papers_print(name, wanted, printed, shared, monkeypatch):
    monkeypatch.setenv("ALPHAMF_DATA", str(shared))
    for job in full_jobs(name, **wanted):
        assert printed.items() <= (job | job.get("settings", {})).items()


# Appendix B, table 1: D, then a of SGLD, PSGLD, SGRLD and HAMCMC.
TABLE_1 = {
    2: (1e-5, 5e-2, 5e-2, 1e-6),
    10: (1e-6, 1e-1, 5e-1, 1e-8),
    100: (8e-6, 1e-1, 5e-1, 1e-8),
}


@pytest.mark.parametrize("size", TABLE_1)
def test_linear_gaussian_has_table_1_and_section_4_1(size):
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
    target = linear.target_of(size, 0)
    assert target.variance == 10  # sigma_x^2
    assert target.batch == len(target.x) // 100  # N / 100
    # theta ~ N(0, I): the prior's part of the precision is I.
    np.testing.assert_allclose(
        target.precision - target.a.T @ target.a / 10, np.eye(size), atol=1e-8
    )


def test_speech_has_table_2_and_section_4_2():
    psgld = {"decay": 0.9, "damping": 1e-3, "scale": 256 * 140}
    printed = {
        "SGLD": SGLD(Polynomial(1e-6, 0.51)),
        "PSGLD": PSGLD(Polynomial(2e-5, 0.51), **psgld),
        "PSGLD, lagged": PSGLD(Polynomial(2e-5, 0.51), **psgld, lagged=True),
        "HAMCMC": HAMCMC(Polynomial(1e-8, 0.51), memory=5, gamma=0.01, trust=1000.0),
    }
    for name, sampler in printed.items():
        assert speech.PRINTED[name] == speech.METHODS[f"{name}, printed"].sampler == sampler
    settings = speech_search.SETTINGS
    assert (settings.steps, settings.keep, settings.blocks) == (2500, 200, 10)
    assert (settings.alpha_speech, settings.alpha_noise) == (1.2, 1.89)
    assert settings.noise_rank == 5  # K = 105, of which 100 are speech


def test_dictionary_of_speech_has_100_columns_at_alpha_1_2(shared, monkeypatch):
    asked = {}
    monkeypatch.setenv("ALPHAMF_DATA", str(shared))
    monkeypatch.setattr(speech_search, "train", lambda paths, **settings: asked.update(settings))
    speech_search.dictionary.__wrapped__()
    assert (asked["rank"], asked["alpha"], asked["rate"], asked["context"]) == (100, 1.2, 8000, 1)


def test_distributed_mf_has_table_3():
    samplers = {
        "DSGLD": SGLD(1e-4),
        "PSGLD": PSGLD(1e-3, decay=0.9, damping=5.0, scale=1000.0),
        "PSGLD, lagged": PSGLD(1e-3, decay=0.9, damping=5.0, scale=1000.0, lagged=True),
        "HAMCMC": HAMCMC(3e-4, memory=2, gamma=1.0, trust=100.0),
    }
    jobs = full_jobs("distributed-mf", kind="printed")
    assert {job["rank"] for job in jobs} == {10, 50}  # printed, and the first version
    assert {job["method"]: distributed_mf.sampler_of(job, 1000) for job in jobs} == samplers


def test_mass_em_has_the_problems_of_section_4():
    assert synthetic.TRUE == {"normal-1d": (0.0, 1.0), "logistic-2d": (1.0, -1.0)}
    target, _ = synthetic._problem(full_jobs("logistic-2d", data="synthetic")[0])
    assert target.prior_variance == 10  # N(0, 10 I)
    features, _ = synthetic.draw_synthetic(generator(0), 20_000)
    side = np.sign(features @ [1.0, -1.0])
    # Two normal laws about (1, -1) and (-1, 1), each with the covariance I.
    assert abs((features[:, 0] + features[:, 1]).std() - 2**0.5) < 0.05
    assert abs((features[side > 0] @ [1.0, -1.0]).mean() - 2) < 0.15
    assert abs((side > 0).mean() - 0.5) < 0.02
    sampler = topics._sampler(full_jobs("topics", method="SGHMC-EM")[0])
    assert np.isinf(sampler.mass.learner.growth)  # S_count stays as it is


def test_quasi_newton_has_its_pairs_and_ensembles():
    for name, module in (("mnist-7v9", mnist), ("bpmf", bpmf)):
        assert module.sampler_of(full_jobs(name, method="QNHMC")[0]).memory == 7
        assert module.sampler_of(full_jobs(name, method="HMC-BFGS")[0]).ensemble == 5
    assert (gaussian.ENSEMBLE, gaussian.LAGS) == (5, 500)
    # The demo code's precision of the ratings.
    assert (bpmf.RANK, bpmf.DEMO_VARIANCE_X) == (10, 1 / 2)


def test_richardson_has_section_5_1():
    for figure, ends in (("step", (1e-6, 1e-3)), ("momentum", (1e-4, 1e-2))):
        steps = [job["gamma"] for job in full_jobs("richardson", figure=figure)]
        assert (min(steps), max(steps)) == ends  # the axes of figures 2 and 4
    target = richardson.model(1)
    assert (len(target.x), target.batch) == (1000, 100)  # N, and B = N / 10
    assert (richardson.PRIOR_VARIANCE, target.variance) == (10, 1)
    spread = (richardson.model(20).a / richardson.SCALE).var()
    assert spread == pytest.approx(0.5, rel=0.05)  # N(0, I / 2)
    assert richardson.RUNS == 100
    # Figure 3: gamma_b = 2e-3 with 1/3 and gamma_M = 1e-3 with 0.2 among the exponents.
    for quantity, constant, best in (("bias", 2e-3, 1 / 3), ("mse", 1e-3, 0.2)):
        jobs = full_jobs("richardson-rate", figure=quantity)
        (own,) = [job for job in jobs if abs(job["exponent"] - best) < 1e-3]
        assert own["gamma"] == pytest.approx(constant * 1e6**-best, rel=1e-3)
        assert rates.BEST[quantity] == Fraction(best).limit_denominator(10)
