"""Topics with gamma-process weights: the prior, the potential, the Gibbs moves and perplexity.

Geweke's joint test: parameters, topics and words from the prior, then moves of topics and
parameters given the words, leave the joint law as it was.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.sparse import csr_array

from alphamf.errors import AlphaMFError
from alphamf.inference.checks import P_LEAST, Z_MOST
from alphamf.inference.random import generator
from alphamf.inference.targets import perplexity, topics
from alphamf.inference.targets.perplexity import Perplexity, split
from alphamf.inference.targets.topics import (
    TopicModel,
    TopicPotential,
    assign,
    count_table,
    tails_of,
    tokens,
)

COUNTS = np.array([[3, 0, 1, 0, 0], [0, 2, 0, 0, 4], [0, 0, 0, 0, 0], [1, 1, 1, 5, 0]])


def model(batch=None, dtype=np.float64, rank=4, **changes):
    settings = {"rounds": 2, "concentration": 0.3, "beta": (2.0, 3.0), "dtype": dtype, **changes}
    return TopicModel(csr_array(COUNTS), rank, batch=batch, **settings)


def started(chains=(), seed=1, **changes):
    """Return a target, a start whose scales are no longer one, and a potential."""
    target, rng = model(**changes), generator(seed)
    theta = target.start(rng, chains)
    theta += rng.standard_normal(theta.shape, dtype=theta.dtype) * theta.dtype.type(0.5)
    return target, theta, target.draw(rng, theta)


# The prior of the weights


def test_start_has_the_prior_mean_of_the_total_weight():
    target = model(rank=20, rounds=5)
    total = target.unpack(target.start(generator(3), (20_000,))).r.sum(-1)
    assert abs(total.mean() - 4 * (1 - 0.5**5)) < Z_MOST * total.std() / np.sqrt(20_000)


# The potential


def test_value_is_the_log_density_of_the_model():
    """By scipy: densities of the prior, negative binomial counts and an integral over p_n."""
    target, theta, potential = started((3,))
    x = count_table(
        np.repeat(np.arange(4), COUNTS.sum(1)), target.latents["topics"], len(COUNTS), 4
    )

    def log_density(theta, x):
        t, e, alpha, c, _ = weights = target.unpack(theta)
        log_p = stats.gamma.logpdf(t, [1, 1, 2, 2], scale=1 / alpha).sum()
        log_p += stats.expon.logpdf(e, scale=1 / c).sum()
        log_p += stats.expon.logpdf(np.concatenate([alpha, c])).sum() + theta.sum()
        for row in x:

            def integrand(p, row=row):
                return stats.beta.pdf(p, 2, 3) * stats.nbinom.pmf(row, weights.r, 1 - p).prod()

            log_p += np.log(integrate.quad(integrand, 0, 1, epsabs=0, epsrel=1e-8)[0])
        return log_p

    for chain in range(3):
        other = theta + 0.3
        values = potential.value(theta)[chain] - potential.value(other)[chain]
        by_scipy = log_density(other[chain], x[chain]) - log_density(theta[chain], x[chain])
        assert values == pytest.approx(by_scipy, rel=1e-6)


def test_potentials_of_each_document_average_to_the_full_one(monkeypatch):
    target, theta, full = started((2,))
    one = model(batch=1)
    one.latents = target.latents
    monkeypatch.setattr(topics, "assign", lambda rng, phi, factors, words, rows: old[..., place])
    old, gradients, values = target.latents["topics"].copy(), [], []
    for document in range(4):
        place = slice(*target.offsets[document : document + 2])
        order = np.ones(4)
        order[document] = 0
        rng = SimpleNamespace(
            random=lambda n, order=order: order, standard_gamma=generator(0).standard_gamma
        )
        potential = one.draw(rng, theta)
        gradients.append(potential.grad(theta))
        values.append(potential.value(theta))
    np.testing.assert_array_equal(target.latents["topics"], old)
    np.testing.assert_allclose(np.mean(gradients, 0), full.grad(theta), rtol=1e-10)
    np.testing.assert_allclose(np.mean(values, 0), full.value(theta), rtol=1e-10)


def test_metric_is_the_curvature_that_tables_would_give():
    """Fisher information of Poisson tables, by their score at many draws of p_n and of tables."""
    target, theta, potential = started()
    rng, n = generator(4), 100_000
    t, e, alpha, c, _ = weights = target.unpack(theta)
    r = weights.r
    score = np.zeros((n, 4))
    expected = np.zeros(4)
    for length in COUNTS.sum(1):
        odds = -np.log(rng.beta(3 + r.sum(), 2 + length, n))  # of 1 - p_n
        score += rng.poisson(odds[:, None] * r) - odds[:, None] * r
        expected += odds.mean() * r
    information = score.var(0)
    g = potential.metric(theta).g
    np.testing.assert_allclose(g[4:8], information + c * e + 1, rtol=0.03)
    np.testing.assert_allclose(g[:4], information * t**2 + alpha * t + [1, 1, 2, 2], rtol=0.03)
    np.testing.assert_allclose(g[4:8], expected + c * e + 1, rtol=0.01)


# The Gibbs moves


def test_tables_follow_the_topics():
    rng = generator(5)
    target = model(batch=2)
    theta = target.start(rng, (3,))
    for _ in range(20):
        target.draw(rng, theta)
    counts = np.zeros((3, 5, 4), int)
    for chain in range(3):
        np.add.at(counts[chain], (target.words, target.latents["topics"][chain]), 1)
    np.testing.assert_array_equal(target.latents["counts"], counts)
    np.testing.assert_array_equal(counts.sum(-1), np.tile(COUNTS.sum(0), (3, 1)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_assigned_topics_have_their_probabilities(dtype, monkeypatch):
    monkeypatch.setattr("alphamf.inference.targets.topics.CHUNK", 6_000)
    phi = np.array([[0.1, 0.0, 0.5], [0.0, 0.7, 0.2]], dtype)
    factors = np.array([[2.0, 1.0, 0.3], [0.4, 0.0, 0.0], [1.0, 1.0, 0.0]], dtype)
    words, documents = (x.ravel() for x in np.indices((2, 3)))
    keep = (words == 0) | (documents != 1)  # word 1 cannot stand in document 1
    words, documents = words[keep], documents[keep]
    n = 20_000
    drawn = assign(generator(6), phi, factors, np.repeat(words, n), np.repeat(documents, n))
    for word, document, part in zip(words, documents, drawn.reshape(-1, n), strict=True):
        p = phi[word].astype(float) * factors[document]
        p /= p.sum()
        seen = np.bincount(part, minlength=3)
        assert (seen[p == 0] == 0).all()
        if (p > 0).sum() > 1:
            assert stats.chisquare(seen[p > 0], n * p[p > 0]).pvalue > P_LEAST


def replicate(seed, batch, moves=3, tries=2):
    """One draw from the joint prior, moved: parameters before and after, and of both a statistic.

    Alpha and c are drawn from the model's Exp(1), restricted to [0.3, 3] to keep words few; the
    Metropolis moves of theta are restricted in the same way.
    """
    rng = generator(seed)
    words, n, rank, eta, beta = 6, 8, 4, 0.3, (6.0, 4.0)
    low, high = -np.expm1(-np.array([0.3, 3.0]))
    hyper = -np.log1p(-rng.uniform(low, high, 2))
    t = rng.standard_gamma([1, 1, 2, 2]) / hyper[0]
    e = rng.standard_exponential(rank) / hyper[1]
    theta = np.log(np.concatenate([t, e, hyper]))
    p = rng.beta(*beta, n)
    factors = rng.standard_gamma(e * np.exp(-t), (n, rank)) * (p / (1 - p))[:, None]
    phi = rng.dirichlet(np.full(words, eta), rank)
    x = rng.poisson(phi[None] * factors[:, :, None])  # documents x topics x words
    target = TopicModel(
        csr_array(x.sum(1)), rank, rounds=2, concentration=eta, beta=beta, batch=batch
    )
    drawn = np.concatenate([np.repeat(np.tile(np.arange(rank), words), d.T.ravel()) for d in x])
    target.latents = {
        "topics": drawn.astype(np.int16),
        "counts": x.sum(0).T.astype(np.int32).copy(),
    }
    order = np.concatenate([np.repeat(np.arange(words), d) for d in x.sum(1)])
    np.testing.assert_array_equal(order, target.words)

    rows = np.repeat(np.arange(n), np.diff(target.offsets))

    def per_document():
        return count_table(rows, target.latents["topics"], n, rank)

    def statistic(theta):
        r, counts = target.unpack(theta).r, target.latents["counts"]
        return np.array(
            [
                np.log1p((counts**2.0).sum()),
                np.log1p((per_document() ** 2.0).sum()),
                (counts[0] * r).sum() / (1 + counts[0].sum()),
                np.tanh(counts.sum(0)) @ np.tanh(theta[4:8] - np.exp(theta[:4])),
            ]
        )

    before, start = statistic(theta), theta
    for _ in range(moves):
        target.draw(rng, theta)
        # Theta moves by all documents, whatever part of the topics has moved.
        tails = tails_of(per_document()).astype(float)
        potential = TopicPotential(target, tails, target.lengths, target.repeats)
        for _ in range(tries):
            proposal = theta + 0.8 * rng.standard_normal(10)
            drop = potential.value(theta) - potential.value(proposal)
            inside = np.abs(proposal[-2:] - np.log(0.9) / 2).max() < np.log(10) / 2
            if inside and np.log(rng.random()) < drop:
                theta = proposal
    return start, theta, before, statistic(theta)


@pytest.mark.parametrize("batch", [pytest.param(None, marks=pytest.mark.slow), 2])
def test_joint_law_is_kept(batch):
    """After moves theta has its prior law, and the statistic has not changed."""
    draws = [replicate(seed, batch) for seed in range(400)]
    _, theta, before, after = (np.array(x) for x in zip(*draws, strict=True))
    alpha, c = np.exp(theta[:, -2]), np.exp(theta[:, -1])
    hyper = stats.truncexpon(2.7, loc=0.3).cdf
    p = [stats.kstest(alpha, hyper).pvalue, stats.kstest(c, hyper).pvalue]
    for k, shape in enumerate([1, 1, 2, 2]):
        p.append(stats.kstest(alpha * np.exp(theta[:, k]), stats.gamma(shape).cdf).pvalue)
        p.append(stats.kstest(c * np.exp(theta[:, 4 + k]), "expon").pvalue)
    change = after - before
    z = np.abs(change.mean(0)) / (change.std(0) / np.sqrt(len(change)))
    assert min(p) > P_LEAST and z.max() < Z_MOST


# As a target of the library


def corpus(n=60, rank=4, words=30, seed=7):
    """Documents of about 40 words from topics that share few of them."""
    rng = np.random.default_rng(seed)
    phi = rng.dirichlet(np.full(words, 0.1), rank)
    return csr_array(rng.poisson(40 * rng.dirichlet(np.full(rank, 0.3), n) @ phi))


# Held-out words


def test_split_parts_every_document():
    counts = corpus()
    heard, held = split(generator(10), counts)
    np.testing.assert_array_equal((heard + held).toarray(), counts.toarray())
    np.testing.assert_array_equal(heard.sum(1), np.floor(0.8 * counts.sum(1)))
    # Each token is as likely to be held as any other.
    share = np.mean([split(generator(s), counts)[1].toarray() for s in range(400)], 0)
    expected = counts.toarray() * (held.sum(1) / counts.sum(1))[:, None]
    assert np.abs(share - expected).max() < 0.3


def test_perplexity_is_its_formula(monkeypatch):
    heard, held = split(generator(11), corpus(6))
    target = TopicModel(corpus(), 4, rounds=2)
    theta = target.start(generator(12), (2,))
    record = Perplexity(heard, held, sweeps=2)
    seen = []
    right = perplexity.products

    def spy(phi, factors, words, documents):
        seen.append((phi.copy(), factors.copy()))
        return right(phi, factors, words, documents)

    monkeypatch.setattr(perplexity, "products", spy)
    for step in (1, 2):
        record.add(SimpleNamespace(theta=theta, step=step), target)
    rates = sum(factors @ phi.T for phi, factors in seen)
    f = rates / rates.sum(1, keepdims=True)
    y = held.toarray()
    assert len(seen) == 4
    assert record.perplexity == pytest.approx(np.exp(-(y * np.log(f)).sum() / y.sum()))


def test_refuses_what_does_not_fit():
    counts = csr_array(COUNTS)
    with pytest.raises(AlphaMFError, match=r"rank must be a multiple of rounds \(10\), not 4"):
        TopicModel(counts, 4)
    with pytest.raises(AlphaMFError, match="concentration must be positive, not 0"):
        TopicModel(counts, 10, concentration=0)
    with pytest.raises(AlphaMFError, match="beta must be two positive numbers"):
        TopicModel(counts, 10, beta=(1, 0))
    with pytest.raises(AlphaMFError, match="batch must be from 1 to 4, not 5"):
        TopicModel(counts, 10, batch=5)
    with pytest.raises(AlphaMFError, match=r"scipy\.sparse CSR array, not ndarray"):
        TopicModel(COUNTS, 10)
    with pytest.raises(AlphaMFError, match="counts must be non-negative whole numbers"):
        tokens(csr_array(COUNTS * 0.5))
    with pytest.raises(AlphaMFError, match="observed and held must have the same shape"):
        Perplexity(counts, counts[:2])
    for name, wrong in (("burn_in", -3), ("thin", 0), ("sweeps", 0)):
        with pytest.raises(AlphaMFError, match=rf"{name} must .*, not {wrong}"):
            Perplexity(counts, counts, **{name: wrong})
    with pytest.raises(AlphaMFError, match="no state was kept yet: burn_in is 3"):
        _ = Perplexity(counts, counts, burn_in=3).perplexity
