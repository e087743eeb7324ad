"""The estimator: equal to scikit-learn where the models are; exact posteriors elsewhere."""

from functools import partial

import numpy as np
import pytest
from scipy import integrate, sparse
from sklearn.base import clone
from sklearn.decomposition import NMF
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

from alphamf import AlphaMF, AlphaMFError
from alphamf.factorization.alpha_mf import AlphaMFTarget
from alphamf.factorization.likelihood import log_density
from alphamf.factorization.priors import Gamma, Source
from alphamf.factorization.stable import positive_stable
from alphamf.separation.fitting import draws_of

POINT = partial(AlphaMF, alpha=2.0, sampler="em", draws=1)


def draw(alpha, shape=(100, 200), rank=4, seed=0):
    """Return powers of a model of known alpha, and their scale."""
    rng = np.random.default_rng(seed)
    dispersion = rng.gamma(0.5, 1, (shape[0], rank)) @ rng.gamma(0.5, 1, (rank, shape[1])) + 1e-3
    phi = positive_stable(rng, alpha, np.empty(shape)) if alpha < 2 else 2.0
    scale = (2 if alpha == 2 else 1) * dispersion ** (2 / alpha)
    return phi * dispersion ** (2 / alpha) * rng.exponential(size=shape), scale


@pytest.mark.filterwarnings("ignore:Maximum number of iterations")
def test_em_of_a_gaussian_model_is_itakura_saito_nmf():
    # Where no cell is so faint that the model's floor, 90 dB below the mean, counts.
    rng = np.random.default_rng(1)
    V = (rng.random((30, 3)) @ rng.random((3, 40)) + 0.1) * rng.exponential(size=(30, 40))
    W, H = rng.random((30, 3)) + 0.1, rng.random((3, 40)) + 0.1
    given = {"init": "custom", "solver": "mu", "beta_loss": "itakura-saito", "tol": 0}
    theirs = NMF(3, max_iter=25, **given)
    activations = theirs.fit_transform(300 * V, W=W.copy(), H=H.copy())
    ours = POINT(3, steps=25)
    found = ours.fit_transform(300 * V, W=W, H=H)
    sums = theirs.components_.sum(1)
    np.testing.assert_allclose(ours.components_ * sums[:, None], theirs.components_, rtol=1e-6)
    np.testing.assert_allclose(found, activations * sums, rtol=1e-6)
    scale = ours.inverse_transform(found)
    np.testing.assert_allclose(scale, theirs.inverse_transform(activations), rtol=1e-6)
    np.testing.assert_allclose(ours.posterior_.scale, scale, rtol=1e-9)


OTHER = {
    "check_dtype_object": "text in a matrix is refused in one sentence, by an AlphaMFError",
    "check_array_api_input": "NumPy and CuPy only",
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks():
    # For EM; of a sampler, two passes over the same rows differ by chance.
    found = check_estimator(POINT(2, steps=200), expected_failed_checks=OTHER, on_skip=None)
    assert len(found) > 40


def test_it_works_without_scikit_learn_and_in_its_pipelines():
    V, _ = draw(1.5, (20, 30))
    model = AlphaMF(2, steps=30, draws=5, alpha=1.5)
    steps = make_pipeline(FunctionTransformer(np.abs), clone(model))
    found = steps.fit_transform(V)
    np.testing.assert_array_equal(found, model.fit_transform(V))
    assert repr(model) == "AlphaMF(n_components=2, alpha=1.5, steps=30, draws=5)"


@pytest.mark.parametrize("alpha", [2.0, 1.2])
def test_a_single_activation_has_its_exact_posterior(alpha):
    """Given H, the posterior of w has one dimension; the law of Phi is integrated out."""
    V = np.array([[0.3, 2.0, 40.0]])
    model = AlphaMF(
        1,
        alpha=alpha,
        sampler="hmc-positive",
        steps=150,
        draws=10,
        chains=400,
        prior_activations=Gamma(2.0, 0.5),
    )
    model.fit(np.ones((2, 3)))
    model.components_ = np.array([[0.2, 0.3, 0.5]])
    unit = (V**0.25).mean() ** 4

    def weight(w, power):
        # Prior and likelihood of W in the units of the target.
        dispersion = 3 * model.components_[0] * w
        cells = log_density(V[0] / unit, dispersion, alpha).sum()
        return w**power * np.exp(cells + np.log(w) - 0.5 * w)

    moments = [integrate.quad(weight, 1e-9, 200, args=(k,), limit=300)[0] for k in range(3)]
    mean = moments[1] / moments[0]
    std = np.sqrt(moments[2] / moments[0] - mean**2)
    found = model.transform(V)[0, 0] / (3 * (2 * unit) ** (alpha / 2))
    # 400 independent chains, each with the mean of its draws.
    assert abs(found - mean) < 4 * std / np.sqrt(400)
    assert abs(found - 1.3 * mean) > 4 * std / np.sqrt(400)


@pytest.mark.parametrize("alpha", [0.8, 1.8])
def test_alpha_is_estimated(alpha):
    V, _ = draw(alpha, seed=3)
    assert abs(AlphaMF(4, alpha="estimate", steps=1, draws=1).fit(V).alpha_ - alpha) < 0.1


@pytest.mark.slow
def test_alpha_is_estimated_on_twenty_draws():
    alphas = np.linspace(0.7, 2, 20)
    model = AlphaMF(4, alpha="estimate", steps=1, draws=1)
    found = [model.fit(draw(alpha, seed=k)[0]).alpha_ for k, alpha in enumerate(alphas)]
    assert np.abs(found - alphas).max() < 0.1


def test_posterior_deviation_covers_the_truth():
    # Four chains of SGRLD.
    rng = np.random.default_rng(0)
    W, H = rng.gamma(2.0, 1.0, (60, 2)), rng.gamma(0.5, 1.0, (2, 40)) + 0.05
    scale = (W @ H) ** (2 / 1.5)
    V = positive_stable(rng, 1.5, np.empty(scale.shape)) * scale / 2
    V *= rng.exponential(size=V.shape)
    model = AlphaMF(2, alpha=1.5, steps=600, draws=60, chains=4).fit(V)
    w, h = model.sample(200)
    low, high = np.quantile((w @ h) ** (2 / 1.5), [0.05, 0.95], axis=0)
    assert 0.8 < np.mean((low < scale) & (scale < high)) < 0.97
    assert model.posterior_.scale_std.shape == V.shape
    assert np.median(model.diagnostics_.rhat) < 1.1
    assert np.median(model.diagnostics_.ess) > 20


def test_components_of_all_chains_are_in_one_order():
    rng = np.random.default_rng(0)
    target = AlphaMFTarget(np.ones((6, 9)), [Source(2.0, 3)])
    w, h = rng.random((6, 3)), rng.random((3, 9))
    order = [2, 0, 1]
    theta = np.stack(
        [
            np.concatenate([w.ravel(), h.ravel()]),
            np.concatenate([w[:, order].ravel(), h[order].ravel()]),
        ]
    )
    activations, components = draws_of(target, [theta, theta], 3.0)
    np.testing.assert_allclose(components.sum(-1), 1)
    np.testing.assert_allclose(components[:, 0], components[:, 1])
    np.testing.assert_allclose(activations @ components, 3 * np.broadcast_to(w @ h, (2, 2, 6, 9)))


def test_scaled_powers_scale_the_result():
    V, _ = draw(1.5, (20, 30))
    one, other = (AlphaMF(2, alpha=1.5, steps=30, draws=5).fit(k * V) for k in (1, 256.0))
    np.testing.assert_allclose(other.components_, one.components_, rtol=1e-6)
    np.testing.assert_allclose(other.posterior_.scale, 256 * one.posterior_.scale, rtol=1e-6)
    activations = 256**0.75 * one.posterior_.activations
    np.testing.assert_allclose(other.posterior_.activations, activations, rtol=1e-6)


def test_minibatches_reach_the_same_scale():
    V, scale = draw(2.0, (200, 30))
    found = [
        AlphaMF(4, alpha=2.0, steps=300, blocks=blocks).fit(V).posterior_.scale for blocks in (1, 4)
    ]
    errors = [np.median(np.abs(np.log(each / scale))) for each in found]
    assert errors[1] < 1.3 * errors[0] < 1


def test_float32_stays_float32_and_a_zero_row_is_near_zero():
    V, _ = draw(2.0, (20, 30))
    V = V.astype(np.float32)
    V[3] = 0
    model = POINT(2, steps=100)
    found = model.fit_transform(V)
    assert found.dtype == model.components_.dtype == np.float32
    assert found[3].max() < 1e-6 * found.mean()


GOOD = np.ones((4, 3)) + np.eye(4, 3)


BAD = [
    (-GOOD, {}, "Negative values"),
    (GOOD * np.nan, {}, "NaN or infinite"),
    (sparse.csr_matrix(GOOD), {}, r"sparse.*X\.toarray\(\)"),
    (GOOD[0], {}, "Expected 2D array, but X has the shape"),
    (GOOD * 1j, {}, "Complex data not supported"),
    (GOOD[:, :0], {}, r"0 feature\(s\)"),
    (0 * GOOD, {}, "zero everywhere"),
    (GOOD, {"alpha": "estimate"}, "use fewer components"),
]


@pytest.mark.parametrize(("given", "settings", "sentence"), BAD)
def test_bad_input_is_refused_in_one_sentence(given, settings, sentence):
    with pytest.raises(AlphaMFError, match=sentence):
        AlphaMF(**settings).fit(given)


def test_wrong_starts_and_widths_are_refused():
    model = POINT(2, steps=5)
    with pytest.raises(AlphaMFError, match="both W and H"):
        model.fit(GOOD, W=np.ones((4, 2)))
    with pytest.raises(AlphaMFError, match=r"shapes \(4, 2\) and \(2, 3\)"):
        model.fit(GOOD, W=np.ones((4, 2)), H=np.ones((3, 3)))
    with pytest.raises(ValueError, match="not fitted yet"):
        model.transform(GOOD)
    with pytest.raises(AlphaMFError, match="X has 2 features"):
        model.fit(GOOD).transform(GOOD[:, :2])
    with pytest.raises(AlphaMFError, match="Invalid parameter 'rank'"):
        model.set_params(rank=2)
