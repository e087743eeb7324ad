r"""Alpha-stable matrix factorization as an estimator with the habits of scikit-learn.

The rows of V are samples, its columns features. A cell is the squared magnitude of a complex
isotropic :math:`\alpha`-stable number,

.. math:: V_{nm} = |X_{nm}|^2, \qquad X_{nm} \mid \Phi \sim \mathcal{N}_c\left(0,
   \tfrac12 \Phi_{nm} D_{nm}^{2/\alpha}\right), \qquad D = W H,

with the activations W and the components H. At alpha = 2, Phi is 2 and D is the mean of V:
Itakura-Saito NMF. Below 2, V has no mean, and :math:`D^{2/\alpha}` is its scale.

References
----------
Simsekli, Liutkus, Cemgil, "Alpha-stable matrix factorization", IEEE SPL 22 (2015).
Fevotte, Bertin, Durrieu, "Nonnegative matrix factorization with the Itakura-Saito divergence",
Neural Computation 21 (2009).
"""

from __future__ import annotations

import sys
from inspect import signature
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from alphamf.denoising.settings import kernel
from alphamf.errors import AlphaMFError
from alphamf.factorization.alpha_mf import AlphaMFTarget
from alphamf.factorization.priors import Flat, Prior, Source
from alphamf.factorization.stable import check_alpha
from alphamf.inference.diagnostics import Summary
from alphamf.inference.protocols import Sampler
from alphamf.separation.fitting import (
    Draws,
    Plan,
    diagnose,
    draws_of,
    estimate_alpha,
    moments,
    sample_theta,
    scale_moments,
)
from alphamf.tools.arguments import shown_value, whole_number
from alphamf.tools.arrays import Array, namespace

MOST_RANK = 10_000
"""Maximum number of components."""


class Posterior(NamedTuple):
    r"""Means and standard deviations over the draws of a posterior.

    Attributes
    ----------
    activations, activations_std
        Of W, shape (samples, n_components).
    components, components_std
        Of H, whose rows sum to one, shape (n_components, features).
    scale, scale_std
        Of the scale of V, :math:`(W H)^{2/\alpha}`, shape (samples, features).

    Examples
    --------
    >>> V = np.random.default_rng(0).exponential(size=(30, 20))
    >>> found = AlphaMF(1, steps=60, draws=20).fit(V).posterior_
    >>> bool((found.scale_std < found.scale).all())
    True
    """

    activations: Array
    activations_std: Array
    components: Array
    components_std: Array
    scale: Array
    scale_std: Array


class AlphaMF:
    r"""Factorization of a matrix of powers, V, into activations and components, with uncertainty.

    It has scikit-learn's conventions and works in its pipelines, but does not need it. V may be a
    CuPy array; results then are CuPy arrays, too. Chains run in float32 where alpha is below 2.

    Parameters
    ----------
    n_components
        Number of components.
    alpha
        Index of the stable law, from 0.5 (heavy tails) to 2 (Gaussian), or ``"estimate"``.
    sampler
        Kernel of W and H: a name in `alphamf.SAMPLERS` that suits positive factors, such as
        ``"sgrld"``, ``"hamcmc-positive"``, ``"sgld"``, or a sampler such as ``SGLD(1e-4)``.
        ``"em"`` gives a point estimate.
    steps
        Steps of each chain. Samplers start after 50 steps of EM, and their first third is dropped.
    draws
        Number of draws that each chain keeps, at equal distances.
    chains
        Number of independent chains, which move together.
    blocks
        Number of minibatches of rows: each step reads every `blocks`-th row.
    prior_activations, prior_components
        Priors of the entries of W and of H, such as ``Gamma(0.5, 1.0)``, for V in units in which
        the mean of its fourth root is one; None: flat.
    random_state
        Seed of the random numbers; None for another one at each fit.

    Attributes
    ----------
    components_
        Posterior mean of H, whose rows sum to one, shape (n_components, features).
    alpha_
        The index alpha.
    posterior_
        Means and deviations: a `Posterior`. Those of EM are over its last steps.
    diagnostics_
        R-hat, effective sample size and Monte Carlo error of the log scale in up to 500 random
        cells: a `Summary` of arrays of shape (cells,). None for EM, or under four draws.
    n_features_in_, n_iter_
        Number of columns of V, and of steps.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> scale = rng.gamma(0.5, size=(200, 2)) @ rng.gamma(0.5, size=(2, 30))
    >>> V = scale * rng.exponential(size=scale.shape)
    >>> model = AlphaMF(n_components=2, alpha=2.0).fit(V)
    >>> model.transform(V).shape, model.components_.sum(1).round(3)
    ((200, 2), array([1., 1.]))
    """

    components_: Array
    alpha_: float
    posterior_: Posterior
    diagnostics_: Summary | None
    n_features_in_: int
    n_iter_: int

    def __init__(
        self,
        n_components: int = 8,
        *,
        alpha: float | Literal["estimate"] = 1.2,
        sampler: str | Sampler[Any] = "sgrld",
        steps: int = 300,
        draws: int = 40,
        chains: int = 1,
        blocks: int = 1,
        prior_activations: Prior | None = None,
        prior_components: Prior | None = None,
        random_state: int | None = 0,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.sampler = sampler
        self.steps = steps
        self.draws = draws
        self.chains = chains
        self.blocks = blocks
        self.prior_activations = prior_activations
        self.prior_components = prior_components
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, W: Any = None, H: Any = None) -> Self:
        """Sample the posterior of W and H given powers V.

        Parameters
        ----------
        X
            V, finite and not negative, shape (samples, features).
        y
            Ignored.
        W, H
            Start of the activations and components; both or neither.

        Raises
        ------
        AlphaMFError
            An argument is invalid, or the chain diverged.
        """
        power = _powers(X)
        plan = self._plan(len(power))
        kind, unit = power.dtype, _unit(power)
        power = power / unit
        estimated = isinstance(self.alpha, str)
        alpha = estimate_alpha(power, self.n_components, plan) if estimated else float(self.alpha)
        power = power.astype(_precision(alpha, kind))
        source = Source(
            alpha,
            self.n_components,
            prior_basis=self.prior_activations or Flat(),
            prior_gains=self.prior_components or Flat(),
        )
        target = AlphaMFTarget(power, [source], blocks=self.blocks)
        # At alpha = 2, Phi is 2.
        level = (2 * unit) ** (alpha / 2)
        thetas = sample_theta(target, plan, _start(target, W, H, level, plan.chains))
        self._draws = Draws(*(each.astype(kind) for each in draws_of(target, thetas, level)))
        self.posterior_ = Posterior(
            *moments(self._draws.activations),
            *moments(self._draws.components),
            *scale_moments(self._draws, alpha),
        )
        self.alpha_, self.components_ = alpha, self.posterior_.components
        self.diagnostics_ = None if self.sampler == "em" else diagnose(self._draws, alpha)
        self.n_features_in_, self.n_iter_ = power.shape[1], self.steps
        return self

    def fit_transform(self, X: Any, y: Any = None, *, W: Any = None, H: Any = None) -> Array:
        """Fit to V, and return the posterior mean of its activations; arguments as in `fit`."""
        return self.fit(X, W=W, H=H).posterior_.activations

    def transform(self, X: Any) -> Array:
        """Return the posterior mean of the activations of V, given the components of `fit`.

        Parameters
        ----------
        X
            V as in `fit`, shape (samples, features).

        Returns
        -------
        ndarray
            Shape (samples, n_components).
        """
        self._require_fit()
        power = _powers(X)
        if power.shape[1] != self.n_features_in_:
            raise AlphaMFError(
                f"X has {power.shape[1]} features, but AlphaMF is expecting "
                f"{self.n_features_in_} features as input"
            )
        kind, unit = power.dtype, _unit(power)
        power = (power / unit).astype(_precision(self.alpha_, kind))
        # Columns of mean one, which suit the start of the activations.
        basis = self.components_.T.astype(power.dtype) * self.n_features_in_
        source = Source(
            self.alpha_, self.n_components, basis, prior_gains=self.prior_activations or Flat()
        )
        target = AlphaMFTarget(power.T, [source])
        thetas = sample_theta(target, self._plan(len(power)))
        gains = sum(target.unpack(theta)[0][1].mean(0) for theta in thetas) / len(thetas)
        return gains.T.astype(kind) * (self.n_features_in_ * (2 * unit) ** (self.alpha_ / 2))

    def inverse_transform(self, X: Any) -> Array:
        r"""Return the scale of V for activations W: :math:`(W H)^{2/\alpha}`.

        Parameters
        ----------
        X
            W, shape (samples, n_components).

        Returns
        -------
        ndarray
            Shape (samples, features).
        """
        self._require_fit()
        components = self.components_
        return (namespace(components).asarray(X) @ components) ** (2 / self.alpha_)

    def sample(self, size: int = 1, random_state: int | None = 0) -> tuple[Array, Array]:
        """Choose draws of the posterior at random, with replacement.

        Parameters
        ----------
        size
            Number of draws.
        random_state
            Seed of the choice; None for another one at each call.

        Returns
        -------
        tuple
            W, shape (size, samples, n_components); H, shape (size, n_components, features).
        """
        self._require_fit()
        w, h = (each.reshape(-1, *each.shape[-2:]) for each in self._draws)
        chosen = np.random.default_rng(random_state).integers(len(w), size=size)
        chosen = namespace(w).asarray(chosen)
        return w[chosen], h[chosen]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments of the constructor by name; `deep` changes nothing."""
        return {name: getattr(self, name) for name in signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        """Set arguments of the constructor by name; an unknown one raises an AlphaMFError."""
        for name, value in params.items():
            if name not in self.get_params():
                raise AlphaMFError(f"Invalid parameter {name!r} for estimator {self!r}")
            setattr(self, name, value)
        return self

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return names of the columns of the activations: alphamf0, alphamf1 and so on."""
        self._require_fit()
        return np.array([f"alphamf{k}" for k in range(self.n_components)], dtype=object)

    def __repr__(self) -> str:
        defaults = {key: each.default for key, each in signature(type(self)).parameters.items()}
        own = [f"{k}={v!r}" for k, v in self.get_params().items() if repr(v) != repr(defaults[k])]
        return f"AlphaMF({', '.join(own)})"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "components_")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=["float64", "float32"]),
            input_tags=InputTags(positive_only=True),
        )

    def _require_fit(self) -> None:
        if not self.__sklearn_is_fitted__():
            known = sys.modules.get("sklearn.exceptions")
            error = AlphaMFError if known is None else known.NotFittedError
            raise error("This AlphaMF instance is not fitted yet; call fit first")

    def _plan(self, rows: int) -> Plan:
        """Return how to sample a matrix of `rows` rows; raise an AlphaMFError if it is invalid."""
        whole_number("n_components", self.n_components, 1, MOST_RANK)
        for name in ("draws", "chains"):
            whole_number(name, getattr(self, name), 1)
        whole_number("steps", self.steps, self.draws)
        whole_number("blocks", self.blocks, 1, rows)
        if not (isinstance(self.alpha, str) and self.alpha == "estimate"):
            check_alpha(self.alpha)
        if not hasattr(self.sampler, "step"):
            kernel(self.sampler)
        for name in ("prior_activations", "prior_components"):
            if not isinstance(prior := getattr(self, name), Prior | None):
                raise AlphaMFError(f"{name} must be a prior or None, not {shown_value(prior)}")
        seed = self.random_state
        if seed is None:
            seed = int(np.random.default_rng().integers(1 << 31))
        elif hasattr(seed, "randint"):  # of scikit-learn's pipelines
            seed = int(seed.randint(1 << 31))
        seed = whole_number("random_state", seed, 0)
        return Plan(self.sampler, self.steps, self.draws, self.chains, seed)


def _powers(given: Any) -> Array:
    """Return V as an array of floats; raise an AlphaMFError unless it is a matrix of powers."""
    if hasattr(given, "tocsr"):
        raise AlphaMFError("X is a sparse matrix, which AlphaMF cannot use; give X.toarray()")
    array: Any = given if namespace(given).__name__ == "cupy" else np.asarray(given)
    xp = namespace(array)
    if array.dtype.kind == "c":
        raise AlphaMFError("Complex data not supported; give the squared magnitudes")
    if array.dtype != np.float32:
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise AlphaMFError(
                f"X must be a matrix of numbers, not {shown_value(given)}"
            ) from error
    if array.ndim != 2:
        raise AlphaMFError(
            f"Expected 2D array, but X has the shape {array.shape}. Reshape your data"
        )
    for count, what in zip(array.shape, ("sample", "feature"), strict=True):
        if not count:
            raise AlphaMFError(
                f"X has 0 {what}(s) (shape={array.shape}) while a minimum of 1 is required."
            )
    if not xp.isfinite(array).all():
        raise AlphaMFError("X contains NaN or infinite values (inf)")
    if (array < 0).any():
        raise AlphaMFError("Negative values in data passed to AlphaMF; give powers")
    if not array.any():
        raise AlphaMFError("X is zero everywhere, so there is nothing to factorize")
    return array


def _precision(alpha: float, kind: Any) -> Any:
    """Return float32 where Phi is sampled, which is ten times as fast, else V's own dtype."""
    return kind if alpha == 2 else np.dtype(np.float32)


def _unit(power: Array) -> float:
    """Return a scale of powers that few outliers move, unlike the mean where alpha is low."""
    return float((power**0.25).mean()) ** 4


def _start(target: AlphaMFTarget, W: Any, H: Any, level: float, chains: int) -> Array | None:
    """Return theta, shape (chains, D), for given factors; None if neither is given."""
    if W is None and H is None:
        return None
    if W is None or H is None:
        raise AlphaMFError("give both W and H, or neither")
    xp, (rows, columns) = target.xp, target.power.shape
    rank = target.sources[0].rank
    theta = xp.empty((chains, target.size), target.power.dtype)
    pair = zip(target.unpack(theta)[0], (W, H), (1.0, level), strict=True)
    for place, given, unit in pair:
        given = xp.asarray(given)
        if given.shape != place.shape[1:]:
            raise AlphaMFError(
                f"W and H must have the shapes {(rows, rank)} and {(rank, columns)}, not "
                f"{np.shape(W)} and {np.shape(H)}"
            )
        place[...] = given / unit
    return theta
