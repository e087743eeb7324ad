r"""Gamma-process Poisson factor analysis: topics whose weights follow a gamma process.

The count of word v in document n is the sum over topics k of Poisson counts x_vkn,

.. math:: x_{vkn} \sim \mathrm{Poi}(\phi_{vk} \vartheta_{kn}), \qquad
   \phi_{\cdot k} \sim \mathrm{Dir}(\eta, \dots, \eta), \qquad
   \vartheta_{kn} \sim \mathrm{Gamma}\!\left(r_k, \text{scale } \tfrac{p_n}{1-p_n}\right), \qquad
   p_n \sim \mathrm{Beta}(a_0, b_0),

with weights r_k from the construction of Roychowdhury & Kulis (AISTATS 2015): in round i = 1, 2,
... there are Poisson(gamma) atoms, each of weight

.. math:: r = E e^{-T}, \qquad E \sim \mathrm{Exp}(c), \qquad T \sim \mathrm{Gamma}(i, \alpha)

(shape, rate). The T of all rounds are a Poisson process of constant rate,
:math:`\gamma \sum_i \alpha^i t^{i-1} e^{-\alpha t} / (i-1)! = \alpha\gamma`. So the weights have
the rate measure :math:`\alpha\gamma\, r^{-1} e^{-cr}\, dr` of a gamma process (it is Bondesson's
series), and their total is Gamma(alpha gamma, c).

Here gamma atoms stand in each of R rounds, K = R gamma in all. The mean of the total,
:math:`\tfrac{\alpha\gamma}{c} (1 - (\tfrac{\alpha}{1+\alpha})^R)`, is that of the process but for
the omitted rounds; its variance is smaller, as the numbers of atoms do not vary. The law of the
process depends on alpha and gamma by their product alone, so gamma is held fixed, while alpha and c
have Exp(1) priors: choices of ours, as are eta, a_0 and b_0, since the paper states none.

See Roychowdhury & Parthasarathy, NIPS 2017, section 4.3; Zhou & Carin, IEEE TPAMI 37 (2015).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.inference.metric import Diagonal
from alphamf.inference.ranges import POSITIVE, check_range
from alphamf.tools.arrays import LOG_LIMIT, Array, parts

CHUNK = 200_000
"""Number of entries of the table of tokens by topics that are held at once, to fit in cache."""


def tokens(counts: Any) -> tuple[Array, Array]:
    """Check counts; return each token's word, by document, and the documents' offsets, (N + 1,)."""
    if getattr(counts, "format", None) != "csr":
        raise AlphaMFError(f"counts must be a scipy.sparse CSR array, not {type(counts).__name__}")
    number = counts.data.astype(np.int64)
    if (number != counts.data).any() or (number < 0).any():
        raise AlphaMFError("counts must be non-negative whole numbers")
    ends = np.concatenate([[0], number.cumsum()])
    return np.repeat(counts.indices.astype(np.int32), number), ends[counts.indptr]


def assign(rng: Any, phi: Array, factors: Array, words: Array, documents: Array) -> Array:
    """Draw each token's topic k, given word v and document n, in proportion to phi_vk theta_kn.

    `phi`, `factors`: shapes (*chains, V, K) and (*chains, N, K). Returns: shape (*chains, tokens):
    the first topic at which the cumulative sum reaches the total times a uniform number from (0,
    1], so that a topic of probability zero is never drawn.
    """
    chains, topics = phi.shape[:-2], phi.shape[-1]
    out = np.empty((*chains, len(words)), np.int16)
    step = max(1, CHUNK // (int(np.prod(chains)) * topics))
    for part in parts(len(words), step):
        table = phi.take(words[part], axis=-2)
        table *= factors.take(documents[part], axis=-2)
        table.cumsum(-1, out=table)
        level = 1 - rng.random(table.shape[:-1], dtype=table.dtype)
        level *= table[..., -1]
        out[..., part] = (table >= level[..., None]).argmax(-1)
    return out


def count_table(rows: Array, topics: Array, count: int, rank: int) -> Array:
    """Count tokens by row (word or document) and topic, shape (*chains, count, rank).

    `rows`: word or document of each token, shape (tokens,). `topics`: topic of each token, shape
    (*chains, tokens).
    """
    shape = (*topics.shape[:-1], count, rank)
    size = int(np.prod(shape))
    return (
        np.bincount(flat_index(rows, topics, shape), minlength=size).astype(np.int32).reshape(shape)
    )


def flat_index(rows: Array, topics: Array, shape: tuple[int, ...]) -> Array:
    """Return the index of each token of `count_table` in the flattened table of shape `shape`."""
    chains = np.arange(int(np.prod(shape[:-2]))).reshape(*shape[:-2], 1) * (shape[-2] * shape[-1])
    return (chains + rows.astype(np.int64) * shape[-1] + topics).reshape(-1)


def tails_of(x: Array) -> Array:
    """Count documents with > j tokens of a topic, j from 0: (*chains, N, K) to (*chains, K, J)."""
    most = max(1, int(x.max(initial=0)))
    cells = np.arange(int(np.prod(x.shape[:-2])) * x.shape[-1]).reshape(*x.shape[:-2], 1, -1)
    flat = (cells * (most + 1) + x).reshape(-1)
    heads = np.bincount(flat, minlength=cells.size * (most + 1))
    heads = heads.reshape(*x.shape[:-2], x.shape[-1], most + 1)
    return heads[..., ::-1].cumsum(-1)[..., ::-1][..., 1:]


class TopicWeights(NamedTuple):
    """T, E, alpha and c, whose logarithms are theta, with log r = log E - T."""

    # t, e: T and E, shape (*chains, K).
    t: Array
    e: Array
    # alpha, c: shape (*chains, 1).
    alpha: Array
    c: Array
    log_r: Array  # Logarithm of the weights, shape (*chains, K)

    @property
    def r(self) -> Array:
        """Weights of the topics, shape (*chains, K)."""
        return np.exp(np.minimum(self.log_r, LOG_LIMIT))


class TopicModel:
    r"""Posterior of :math:`\theta = (\log T, \log E, \log\alpha, \log c)`, of length 2 K + 2.

    Topic k has the weight r_k = E_k exp(-T_k). The latents are the topics of the tokens, which are
    occurrences of words. With x_kn tokens of topic k in document n, of L_n tokens, and
    :math:`s = \sum_k r_k`, U has a closed form, in which the factors theta_kn and p_n are
    integrated out; the Jacobian of the logarithms is part of log p(theta):

    .. math:: U = \sum_n \left[\log \frac{\Gamma(a_0 + b_0 + L_n + s)}{\Gamma(b_0 + s)}
       - \sum_k \log \frac{\Gamma(r_k + x_{kn})}{\Gamma(r_k)}\right] - \log p(\theta).

    If the factors were fixed instead, r could hardly move, and those of a small r_k, which are near
    :math:`e^{-1/r_k}`, would underflow. The second sum is computed as one over j, of
    :math:`\log(r_k + j)` times the number of documents with x_kn > j.

    `draw` makes one sweep of Gibbs steps over the tokens of a minibatch of documents: phi given all
    tokens' topics (Dirichlet), the factors given the topics in their document (Gamma, up to a scale
    that cancels), then each token's topic, in proportion to phi_vk theta_kn. Each is exact, so a
    draw leaves the posterior of the topics given theta as it is, for any minibatch: only the
    gradient is a stochastic estimate. Topics of other documents do not change.

    One sweep takes O((tokens read) K + V K) operations; memory is V K counts and two bytes per
    token, for each chain. NumPy only. All chains read the same minibatch.

    Parameters
    ----------
    counts
        Number of times each word occurs in each document: a scipy.sparse CSR array of shape (N, V).
    rank
        K, the number of topics, a multiple of `rounds`.
    rounds
        R, the number of rounds of the gamma process.
    concentration
        eta, the parameter of the prior of phi.
    beta
        a_0 and b_0, the parameters of the prior of p_n.
    batch
        Number of documents that a draw reads, without repetition. None: all.
    dtype
        Dtype of theta.

    Attributes
    ----------
    latents
        ``topics``, shape (*chains, tokens), and ``counts``, their table by word and topic, shape
        (*chains, V, K).

    Raises
    ------
    AlphaMFError
        The counts are not a CSR array of counts, or a number is out of range.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> counts = csr_array(np.array([[2, 1, 0], [0, 1, 3]]))  # two documents, three words
    >>> TopicModel(counts, rank=2, rounds=2).size
    6
    """

    words: Array
    offsets: Array
    vocabulary: Any
    rank: int
    concentration: float
    beta: tuple[float, float]
    batch: int | None
    lengths: Array

    positive = False

    def __init__(
        self,
        counts: Any,
        rank: int,
        *,
        rounds: int = 10,
        concentration: float = 0.05,
        beta: tuple[float, float] = (1.0, 1.0),
        batch: int | None = None,
        dtype: Any = np.float64,
    ) -> None:
        if rounds < 1 or rank < 1 or rank % rounds:
            raise AlphaMFError(f"rank must be a multiple of rounds ({rounds}), not {rank}")
        check_range("concentration", concentration, POSITIVE)
        if not min(beta) > 0:
            raise AlphaMFError(f"beta must be two positive numbers, not {beta}")
        self.words, self.offsets = tokens(counts)
        documents, self.vocabulary = counts.shape
        if batch is not None and not 1 <= batch <= documents:
            raise AlphaMFError(f"batch must be from 1 to {documents}, not {batch}")
        self.rank, self.concentration, self.beta, self.batch = rank, concentration, beta, batch
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.round: Array = np.repeat(np.arange(1, rounds + 1), rank // rounds).astype(dtype)
        self.lengths, repeats = np.unique(np.diff(self.offsets), return_counts=True)
        self.repeats: Array = repeats.astype(dtype)
        self.size: int = 2 * rank + 2
        self.latents: dict[str, Array] = {}

    def unpack(self, theta: Array) -> TopicWeights:
        """Return T, E, alpha, c and log r at theta."""
        k = self.rank
        t, e, alpha, c = (
            np.exp(np.minimum(part, LOG_LIMIT))
            for part in (theta[..., :k], theta[..., k:-2], theta[..., -2:-1], theta[..., -1:])
        )
        return TopicWeights(t, e, alpha, c, theta[..., k:-2] - t)

    def start(self, rng: Any, chains: tuple[int, ...] = ()) -> Array:
        """Draw T and E from their priors at alpha = c = 1, then topics given both and a flat phi.

        Topics that are uniform in every document would imply that all r are infinite.
        """
        shape = (*chains, self.rank)
        t = rng.standard_gamma(self.round, shape, dtype=self.dtype)
        e = rng.standard_exponential(shape, dtype=self.dtype)
        logs = np.log(np.maximum(np.concatenate([t, e], -1), np.finfo(self.dtype).tiny))
        theta = np.concatenate([logs, np.zeros((*chains, 2), self.dtype)], -1)
        sizes = np.diff(self.offsets)
        r = np.repeat(self.unpack(theta).r[..., None, :], len(sizes), -2)
        factors = rng.standard_gamma(r, dtype=self.dtype)
        rows = np.repeat(np.arange(len(sizes)), sizes)
        flat = np.ones((*chains, self.vocabulary, self.rank), self.dtype)
        topics = assign(rng, flat, factors, self.words, rows)
        counts = count_table(self.words, topics, self.vocabulary, self.rank)
        self.latents = {"topics": topics, "counts": counts}
        return theta

    def draw(self, rng: Any, theta: Array) -> TopicPotential:
        """Draw documents, move the topics of their tokens, and return the potential for both."""
        n = len(self.offsets) - 1
        chosen, lengths, repeats = np.arange(n), self.lengths, self.repeats
        if self.batch is not None:
            chosen = rng.random(n).argpartition(self.batch - 1)[: self.batch]
            lengths = np.diff(self.offsets)[chosen]
            repeats = np.ones(self.batch, self.dtype)
        sizes = np.diff(self.offsets)[chosen]
        rows = np.repeat(np.arange(len(chosen)), sizes)
        # Token by token: its place among those that are read, moved to where its document starts.
        starts = self.offsets[chosen] - (sizes.cumsum() - sizes)
        read = np.arange(len(rows)) + np.repeat(starts, sizes)
        words, old = self.words[read], self.latents["topics"][..., read]
        factors = (
            count_table(rows, old, len(chosen), self.rank) + self.unpack(theta).r[..., None, :]
        )
        factors = rng.standard_gamma(factors, dtype=self.dtype)
        new = assign(rng, self.dictionary(rng), factors, words, rows)
        self.latents["topics"][..., read] = new
        counts = self.latents["counts"]
        one = np.int32(1)  # of the dtype of the counts, without which numpy converts them
        np.subtract.at(counts.reshape(-1), flat_index(words, old, counts.shape), one)
        np.add.at(counts.reshape(-1), flat_index(words, new, counts.shape), one)
        tails = tails_of(count_table(rows, new, len(chosen), self.rank)).astype(self.dtype)
        return TopicPotential(self, tails, lengths, repeats)

    def dictionary(self, rng: Any) -> Array:
        """Draw phi given the topics of all tokens, shape (*chains, V, K)."""
        phi: Array = self.latents["counts"] + self.dtype.type(self.concentration)
        phi = rng.standard_gamma(phi, dtype=self.dtype)
        phi /= phi.sum(-2, keepdims=True)
        return phi


class TopicPotential:
    r"""U of a minibatch of documents given the topics of their tokens."""

    tails: Array  # Number of documents with more than j tokens of topic k, shape (*chains, K, J)
    # lengths, repeats: lengths of documents, and number of documents of each length.
    lengths: Array
    repeats: Array

    def __init__(self, target: TopicModel, tails: Array, lengths: Array, repeats: Array) -> None:
        self.target = target
        self.tails, self.lengths, self.repeats = tails, lengths, repeats
        self.weight: float = float((len(target.offsets) - 1) / repeats.sum())
        self.steps: Array = np.arange(1, tails.shape[-1], dtype=tails.dtype)

    def value(self, theta: Array) -> Array:
        from scipy.special import gammaln

        t, e, alpha, c, log_r = w = self.target.unpack(theta)
        rising = self.tails[..., 0] * log_r
        rising += (self.tails[..., 1:] * np.log(w.r[..., None] + self.steps)).sum(-1)
        a, b = self.target.beta
        s = w.r.sum(-1, keepdims=True) + b
        drop = gammaln(s + (a + self.lengths).astype(s.dtype)) - gammaln(s)
        likelihood = (self.repeats * drop).sum(-1) - rising.sum(-1)
        # -log of the Gamma and exponential densities, times each variable for its logarithm's.
        of_t = alpha * t - self.target.round * (theta[..., : self.target.rank] + theta[..., -2:-1])
        of_e = c * e - theta[..., self.target.rank : -2] - theta[..., -1:]
        hyper = alpha + c - theta[..., -2:].sum(-1, keepdims=True)
        return self.weight * likelihood + of_t.sum(-1) + of_e.sum(-1) + hyper[..., 0]

    def grad(self, theta: Array) -> Array:
        t, e, alpha, c, _ = w = self.target.unpack(theta)
        r = w.r
        by_log_r = r * self._log_odds(r, self.lengths, self.repeats)[0]
        by_log_r -= self.tails[..., 0]
        by_log_r -= (self.tails[..., 1:] * (r[..., None] / (r[..., None] + self.steps))).sum(-1)
        by_log_r *= self.weight
        of_alpha = alpha * (t.sum(-1, keepdims=True) + 1) - (self.target.round.sum() + 1)
        of_c = c * (e.sum(-1, keepdims=True) + 1) - (self.target.rank + 1)
        of_t = alpha * t - self.target.round - t * by_log_r
        return np.concatenate([of_t, c * e - 1 + by_log_r, of_alpha, of_c], -1)

    def _log_odds(self, r: Array, lengths: Array, repeats: Array) -> tuple[Array, Array]:
        """Return the posterior mean of the sum of -log(1 - p_n), and its derivative in s."""
        from scipy.special import digamma, polygamma

        a, b = self.target.beta
        s = r.sum(-1, keepdims=True) + b
        more = s + (a + lengths).astype(s.dtype)
        mean = (repeats * (digamma(more) - digamma(s))).sum(-1, keepdims=True)
        slope = (repeats * (polygamma(1, more) - polygamma(1, s))).sum(-1, keepdims=True)
        return mean, slope.astype(r.dtype)

    def metric(self, theta: Array) -> Diagonal:
        r"""Return the Fisher information, plus the prior's expected and observed information.

        The tokens of topic k in a document sit at Poisson(:math:`-r_k \log(1 - p_n)`) tables of a
        Chinese restaurant, whose number alone depends on r. So the information in log r_k is
        :math:`F_k = r_k \Lambda`, with :math:`\Lambda = \sum_n E[-\log(1 - p_n)] = \sum_n \psi(a_0
        + b_0 + L_n + s) - \psi(b_0 + s)` over all documents, psi: digamma. The prior's second
        derivatives vanish where T and E do; their expectations do not, and the sum of both bounds
        the step on either side. In the order of theta, with i the topics' rounds, the metric is

        .. math:: F T^2 + \alpha T + i, \quad F + c E + 1, \quad
           \alpha \Big(1 + \sum_k T_k\Big) + 1 + \sum_k i_k, \quad
           c \Big(1 + \sum_k E_k\Big) + 1 + K.
        """
        t, e, alpha, c, _ = w = self.target.unpack(theta)
        k, r, i = self.target.rank, w.r, self.target.round
        odds, slope = self._log_odds(r, self.target.lengths, self.target.repeats)
        fisher = r * odds
        of_t, of_e = alpha * t, c * e
        of_alpha = alpha + of_t.sum(-1, keepdims=True)
        of_c = c + of_e.sum(-1, keepdims=True)
        g = np.concatenate(
            [fisher * t * t + of_t + i, fisher + of_e + 1, of_alpha + 1 + i.sum(), of_c + 1 + k], -1
        )
        # by[..., j, i] is the derivative of F_i in log r_j.
        by = (slope * r)[..., :, None] * r[..., None, :]
        diagonal = np.arange(k)
        by[..., diagonal, diagonal] += fisher
        d = np.zeros((*g.shape, g.shape[-1]), g.dtype)
        square = (t * t)[..., None, :]
        d[..., :k, :k] = -t[..., :, None] * by * square
        d[..., :k, k:-2] = -t[..., :, None] * by
        d[..., k:-2, :k] = by * square
        d[..., k:-2, k:-2] = by
        d[..., diagonal, diagonal] += 2 * fisher * t * t + of_t
        d[..., k + diagonal, k + diagonal] += of_e
        d[..., -2, :k] = d[..., :k, -2] = of_t
        d[..., -1, k:-2] = d[..., k:-2, -1] = of_e
        d[..., -2, -2], d[..., -1, -1] = of_alpha[..., 0], of_c[..., 0]
        return Diagonal(g, d)
