r"""Two channels as one alpha-MF: what `benchmarks.stereo` measures beside linked channels.

In every cell, the channels x are one vector, elliptically stable for each source:

.. math:: x \mid \Phi \sim \mathcal{N}_c\Bigl(0, \sum_s \Phi^s v_s^{2/\alpha_s} R_s\Bigr),

with one :math:`\Phi^s` and one :math:`v_s = W_s H_s` for both channels, and for each bin a
Hermitian matrix R_s of speech and of noise. Two such matrices have a basis in common,
:math:`R_s = A \Lambda_s A^H`, in which the components of :math:`y = A^{-1} x` are independent:
the likelihood of x is that of the rows of one alpha-MF whose cells share Phi, exactly and for the
price of two channels. `benchmarks.joint_posterior` samples it.

References
----------
Leglaive, Simsekli, Liutkus, Badeau and Richard, "Alpha-stable multichannel audio source
separation", ICASSP 2017; Duong, Vincent and Gribonval, IEEE TASLP 18 (2010), for matrices of full
rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from alphamf.audio.stft import Complexes
from alphamf.factorization import cells
from alphamf.factorization.cells import FLOOR, TINY, Cells, Want
from alphamf.factorization.stable import positive_stable
from alphamf.tools.arrays import Floats

LOADING = 1e-3
"""Added to the diagonal of a covariance, in units of its mean."""


def components(speech: Complexes, noise: Complexes) -> tuple[Complexes, Floats, Floats]:
    """Return the common basis of two covariances in each bin, and the variances in it.

    Parameters
    ----------
    speech, noise
        Spectra of two channels, shape (2, bins, frames).

    Returns
    -------
    basis : ndarray
        A, shape (bins, 2, 2), with columns of norm one, that of the most speech first.
    of_speech, of_noise : ndarray
        Diagonals of Lambda, shape (2, bins).
    """
    first, second = (_covariance(each) for each in (speech, noise))
    root = np.linalg.cholesky(second)
    inverse = np.linalg.inv(root)
    ratio, vectors = np.linalg.eigh(inverse @ first @ inverse.conj().swapaxes(1, 2))
    basis = (root @ vectors)[..., ::-1]
    square = (np.abs(basis) ** 2).sum(axis=1)
    return basis / np.sqrt(square)[:, None], (ratio[:, ::-1] * square).T, square.T


def _covariance(spectra: Complexes) -> Complexes:
    matrix: Complexes = np.einsum("abf,cbf->bac", spectra, spectra.conj()).astype(complex)
    matrix /= spectra.shape[-1]
    load = LOADING * np.trace(matrix, axis1=1, axis2=2).real / 2 + FLOOR
    matrix += load[:, None, None] * np.eye(len(spectra))
    return matrix


class SharedPhi:
    """The steps of `alphamf.factorization.cells` where two channels share Phi.

    Parameters
    ----------
    context
        Frames stacked in a column: rows are (context, channel, bin).
    """

    states = staticmethod(cells.states)

    def __init__(self, context: int) -> None:
        self._context = context

    def stable(self, rng: Any, alpha: float, out: Floats) -> Floats:
        """Fill an array with draws of Phi from its prior."""
        split = self._split(out)
        split[:] = positive_stable(rng, alpha, np.empty_like(split[:, :1]))
        return out

    def evaluate(
        self,
        want: Want,
        power: Floats,
        sources: Sequence[Cells],
        *,
        scale: float = 1.0,
        states: Sequence[Any] | None = None,
    ) -> list[Any]:
        """Move Phi, if asked to, and then evaluate the cells: see `cells.evaluate`."""
        accepted = [0] * len(sources)
        for s, state in enumerate(states or ()):
            if state is not None:
                accepted[s] = self._move(state, power, sources, s)
        if want != Want.MOVE:
            cells.evaluate(want, power, sources, scale=scale)
        return accepted

    def _move(self, rng: Any, power: Floats, sources: Sequence[Cells], own: int) -> int:
        rest = FLOOR + sum(_part(each) for k, each in enumerate(sources) if k != own)
        phi: Any = sources[own].phi
        split = self._split(phi)
        proposal = positive_stable(rng, sources[own].alpha, np.empty_like(split[:, :1]))
        variance = np.maximum(sources[own].v, TINY) ** (2 / sources[own].alpha)
        old = rest + phi * variance
        new = rest + (proposal * self._split(variance)).reshape(old.shape)
        gain = np.log(old / new) + power * (1 / old - 1 / new)
        ratio = self._split(gain).sum(axis=1, keepdims=True)
        accept = np.log(rng.random(ratio.shape, dtype=ratio.dtype)) < ratio
        split[:] = np.where(accept, proposal, split[:, :1])
        return 2 * int(accept.sum())

    def _split(self, array: Floats) -> Floats:
        """Return a view of shape (context, 2, bins, columns)."""
        return array.reshape(self._context, 2, -1, array.shape[-1])


def _part(source: Cells) -> Floats:
    phi = 2.0 if source.phi is None else source.phi
    part: Floats = phi * np.maximum(source.v, TINY) ** (2 / source.alpha)
    return part
