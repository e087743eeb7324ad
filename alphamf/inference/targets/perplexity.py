"""Held-out words of documents, and how well a topic model predicts them."""

from typing import Any

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.inference.random import generator
from alphamf.inference.ranges import at_least, check_range
from alphamf.inference.records import Kept
from alphamf.inference.targets.bpmf import products
from alphamf.inference.targets.topics import TopicModel, assign, count_table, tokens
from alphamf.tools.arrays import Array


def split(rng: Any, counts: Any, share: float = 0.8) -> tuple[Any, Any]:
    """Return a random `share` of each document's tokens, rounded down, and the rest: CSR arrays."""
    from scipy.sparse import csr_array

    words, offsets = tokens(counts)
    lengths = np.diff(offsets)
    documents = np.repeat(np.arange(len(lengths)), lengths)
    order = np.lexsort((rng.random(len(words)), documents))
    place = np.arange(len(words)) - offsets[documents]
    observed = place < np.floor(share * lengths)[documents]

    def part(chosen: Array) -> Any:
        index = (documents[chosen], words[order][chosen])
        return csr_array((np.ones(len(index[0]), np.int32), index), shape=counts.shape)

    return part(observed), part(~observed)


class Perplexity(Kept):
    r"""A record of how well held-out words of documents are predicted from their observed words.

    For each kept state and chain, m, of a `TopicModel`, phi is drawn, `sweeps` Gibbs sweeps move
    the observed words to topics (x_kn of document n to k), and vartheta_kn ~ Gamma(r_k + x_kn,
    scale p_n) with p_n ~ Beta(a_0 + sum_k x_kn, b_0 + sum_k r_k) is drawn. With held-out counts y,

    .. math:: \exp\!\Big(-\frac{1}{\sum y} \sum_{vn} y_{vn} \log f_{vn}\Big), \qquad
       f_{vn} = \frac{\sum_m \sum_k \phi^m_{vk} \vartheta^m_{kn}}
       {\sum_m \sum_k \vartheta^m_{kn}}

    (Zhou & Carin, IEEE TPAMI 37 (2015), section 6).
    """

    sweeps: int  # Gibbs sweeps per kept state; they start from the topics of the kept state before
    seed: int  # Seed of the draws, together with the step

    def __init__(
        self,
        observed: Any,
        held: Any,
        *,
        burn_in: int = 0,
        thin: int = 1,
        sweeps: int = 5,
        seed: int = 0,
    ) -> None:
        if observed.shape != held.shape:
            raise AlphaMFError(
                f"observed and held must have the same shape, not {observed.shape} and {held.shape}"
            )
        super().__init__(burn_in, thin)
        check_range("sweeps", sweeps, at_least(1))
        self.sweeps, self.seed = sweeps, seed
        self._words, self._offsets = tokens(observed)
        self._held = held.tocoo()
        self._arrays: dict[str, Array] = {}

    def __repr__(self) -> str:
        return (
            f"Perplexity(burn_in={self.burn_in}, thin={self.thin}, sweeps={self.sweeps}, "
            f"seed={self.seed})"
        )

    def add(self, state: Any, target: TopicModel) -> None:
        if not self.keeps(state.step):
            return
        rng = generator(self.seed, state.step)
        phi, r = target.dictionary(rng), target.unpack(state.theta).r[..., None, :]
        lengths = np.diff(self._offsets)
        rows = np.repeat(np.arange(len(lengths)), lengths)
        # At first the observed words alone decide.
        factors = np.ones((*r.shape[:-2], len(lengths), target.rank), target.dtype)
        if "topics" in self._arrays:
            x = count_table(rows, self._arrays["topics"], len(lengths), target.rank)
            factors = rng.standard_gamma(r + x, dtype=target.dtype)
        for _ in range(self.sweeps):
            topics = assign(rng, phi, factors, self._words, rows)
            x = count_table(rows, topics, len(lengths), target.rank)
            factors = rng.standard_gamma(r + x, dtype=target.dtype)
        a, b = target.beta
        p = rng.standard_gamma(a + lengths, (*r.shape[:-2], len(lengths)))
        p /= p + rng.standard_gamma(b + np.broadcast_to(r.sum(-1), p.shape))
        factors *= p[..., None]
        rates = np.zeros(self._held.nnz)
        for chain in np.ndindex(r.shape[:-2]):
            rates += products(phi[chain], factors[chain], self._held.col, self._held.row)
        axes = (*range(r.ndim - 2), -1)
        totals = factors.sum(axes, dtype=np.float64)
        past = self._arrays
        self._arrays = {
            "topics": topics,
            "rates": rates + past.get("rates", 0.0),
            "totals": totals + past.get("totals", 0.0),
        }

    @property
    def perplexity(self) -> float:
        """Perplexity of the held-out words, over the states kept so far."""
        self._require(self._arrays)
        f = self._arrays["rates"] / self._arrays["totals"][self._held.row]
        return float(np.exp(-(self._held.data * np.log(f)).sum() / self._held.data.sum()))

    def arrays(self) -> dict[str, Array]:
        return self._arrays

    def load(self, arrays: dict[str, Array]) -> None:
        self._arrays = arrays
