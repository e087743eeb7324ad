r"""Sample channels that share a voice in one alpha-MF, with independent components as its rows.

In each bin, the channels :math:`x` have a covariance R of the speech and N of the noise. With
:math:`N = L L^H` and the unitary U of eigenvectors of :math:`L^{-1} R L^{-H}`, the columns of
:math:`A = L U`, scaled to norm one, are a basis in common,

.. math:: R = A \, \mathrm{diag}(r) \, A^H, \qquad N = A \, \mathrm{diag}(n) \, A^H,

so that the components :math:`y = A^{-1} x` are uncorrelated in the speech and in the noise. In this
model they are independent alpha-stable mixtures of sources s, which share the activations H:

.. math:: y_m \mid \Phi \sim \mathcal{N}_c\Bigl(0, \sum_s \Phi^s_m
   \bigl(W^s_m H^s\bigr)^{2/\alpha_s}\Bigr), \qquad
   W^\mathrm{speech}_m = \Bigl(\frac{r_m}{\sum_k r_k}\Bigr)^{\alpha/2} W .

:math:`r` says in which components the speech is strong: from these H is learnt for all of them.
The components are rows of one ordinary alpha-MF (`sample` with `shares`), whose chain takes as long
as those of all channels alone. W of the noise has rows for every component, and is learnt as usual.

The gain of a channel is the mean of the posterior gains g of the components, weighted with their
power in the channel,

.. math:: g_c = \sum_m |A_{cm} y_m|^2\, E[g_m \mid x] \Big/ \sum_m |A_{cm} y_m|^2 .

The spatial filter (`spatial`) is computed from these gains in place of those of each channel alone.
A comes from a first estimate, a short chain for each channel.

Derived here from the model of FastMNMF (Sekiguchi et al.), which has one H and a common basis in
each bin, for Gaussian sources. Elliptically stable channels (Leglaive et al.) would have one Phi
for all components of a cell; here each has its own, as the cells of an alpha-MF do.

References
----------
Sekiguchi, Nugraha, Bando and Yoshii, "Fast multichannel source separation based on jointly
diagonalizable spatial covariance matrices", EUSIPCO 2019; Leglaive, Simsekli, Liutkus, Badeau and
Richard, "Alpha-stable multichannel audio source separation", ICASSP 2017.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphamf.audio.stft import Complexes
from alphamf.denoising import high_bands, spatial
from alphamf.denoising.gain import SegmentPosterior
from alphamf.denoising.grids import grid_of
from alphamf.denoising.posterior import Chains, Posterior, agreements, sample_posterior
from alphamf.denoising.sampling import QUIETEST, Progress
from alphamf.denoising.settings import Settings
from alphamf.denoising.weights import Weights
from alphamf.factorization.alpha_mf import FLOOR
from alphamf.inference.diagnostics import Moments
from alphamf.learnt.dictionary import Dictionary
from alphamf.tools.arrays import Array, Floats, Reals, to_host
from alphamf.tools.machine import one_thread

LOADING = 1e-3
"""Added to the diagonal of a covariance, in units of the diagonal's mean; also the lower limit of
the speech's variance in a component, as a fraction of the largest."""

TINY = np.float32(1e-30)


class Basis(NamedTuple):
    """A common basis of the covariances of speech and noise, in each bin."""

    # A, shape (bins, channels, components), with columns of norm one; the ratio of the speech to
    # the noise falls from the first component to the last.
    columns: Complexes
    # speech, noise: variances of both sources in the components, shape (components, bins).
    speech: Reals
    noise: Reals

    def components(self, spectra: Complexes) -> Complexes:
        """Return the components y of spectra x, both of the shape (channels, bins, frames)."""
        inverse = np.linalg.inv(self.columns).astype(spectra.dtype)
        return np.einsum("bmc,cbf->mbf", inverse, spectra)


def common_basis(speech: Complexes, noise: Complexes) -> Basis:
    """Return the basis in which two covariances are diagonal.

    `speech`, `noise`: hermitian matrices for each bin, shape (bins, channels, channels); that of
    the noise is positive definite.
    """
    root = np.linalg.cholesky(noise)
    inverse = np.linalg.inv(root)
    ratio, vectors = np.linalg.eigh(inverse @ speech @ inverse.conj().swapaxes(1, 2))
    columns = (root @ vectors)[..., ::-1]
    square = (np.abs(columns) ** 2).sum(axis=1)
    return Basis(columns / np.sqrt(square)[:, None], (ratio[:, ::-1] * square).T, square.T)


def covariance(spectra: Complexes) -> Complexes:
    """Return the covariance of channels in each bin, made positive definite by `LOADING`.

    `spectra`: shape (channels, bins, frames). Returns: shape (bins, channels, channels),
    complex128.
    """
    rows = spectra.swapaxes(0, 1).astype(complex)
    matrix: Complexes = rows @ rows.conj().swapaxes(1, 2) / spectra.shape[-1]
    load = LOADING * np.trace(matrix, axis1=1, axis2=2).real / len(spectra) + FLOOR
    matrix += load[:, None, None] * np.eye(len(spectra))
    return matrix


class ChannelGains:
    """Turns gains of the components into those of the channels.

    A channel's gain is the mean of those of its components, weighted with their power in the
    channel's cell: the part of the speech in its power, as the gain of a single channel is.

    `parts`: the components' spectra, as from `Basis.components`. `columns`: as `Basis.columns`.
    """

    def __init__(self, parts: Complexes, columns: Complexes) -> None:
        images = np.einsum("bcm,mbf->cmbf", np.abs(columns) ** 2, np.abs(parts) ** 2)
        images += TINY
        self._weights: Floats = (images / images.sum(axis=1, keepdims=True)).astype(np.float32)

    def posterior(self, found: Posterior) -> Posterior:
        """Turn the components' posterior, and each chain's own, into posteriors of the channels.

        Returns `Posterior`: gain and standard deviation of each channel, shape (channels, bins,
        frames); the variances of speech and noise remain those of the components.
        """
        chains = found.chains
        if chains is not None:
            halves = chains.halves
            if halves is not None:
                halves = self._moments(halves[0]), self._moments(halves[1])
            chains = Chains([self.posterior(each) for each in chains.posteriors], halves)
        gain_std = np.sqrt(self._variance(found.gain_std**2))
        return found._replace(gain=self._mean(found.gain), gain_std=gain_std, chains=chains)

    def _moments(self, found: Moments) -> Moments:
        mean, variance = self._mean(found.mean), self._variance(found.variance)
        return found._replace(mean=mean, variance=variance)

    def _mean(self, gain: Array) -> Floats:
        return self._sum(self._weights, gain)

    def _variance(self, variance: Array) -> Floats:
        """Return the channels' variances: sums with squared weights, for independent components."""
        return self._sum(self._weights**2, variance)

    def _sum(self, weights: Floats, values: Array) -> Floats:
        apart = rows_of_each(values, weights.shape[1])[..., : weights.shape[2], :]
        return np.einsum("cmbf,...mbf->...cbf", weights, apart)


def rows_of_each(values: Array, components: int) -> Floats:
    """Reshape the rows of all components to (..., components, rows of each, frames) on the CPU."""
    host: Floats = to_host(values)
    return host.reshape(*host.shape[:-2], components, -1, host.shape[-1])


@one_thread()
def sample_components(
    channels: Sequence[SegmentPosterior],
    weights: Weights,
    settings: Settings,
    stream: tuple[int, int],
    xp: Any,
    progress: Progress,
) -> list[SegmentPosterior]:
    """Sample the gains of channels that share a voice as one alpha-MF of their components.

    Wide bands above the dictionary's (`high_bands`) have no phases: those of each channel are rows
    after the bins of one component, and share its H.
    """
    model = weights.dictionary
    grid = grid_of(model)
    spectra = np.stack([each.spectra.spectrum_on(grid) for each in channels])
    first = spatial.speech(spectra, np.stack([each.mean for each in channels]))
    basis = common_basis(covariance(first), covariance(spectra - first))
    parts = basis.components(spectra)
    above, speech_above = _above(channels, model)
    power = np.abs(parts) ** 2
    # Channels of one direction leave other components without sound, which no spectrum explains.
    power = np.concatenate([np.maximum(power, QUIETEST * power.sum(axis=0)), above], axis=1)
    heard = power.mean(axis=(0, 1)) > FLOOR * power.mean()
    found = sample_posterior(
        xp.asarray(power[..., heard].reshape(-1, heard.sum())),
        model.with_bands(above.shape[1]),
        settings,
        stream,
        progress,
        shares=_shares(np.concatenate([basis.speech, speech_above], axis=1), power.mean(axis=2)),
    )
    turned = ChannelGains(parts[..., heard], basis.columns).posterior(found)
    units = [float(each.scale) ** -2 for each in channels]
    agreeing = agreements([*spectra[..., heard]], turned, lambda one: one.gain, grid.frame, units)
    rows = [rows_of_each(each, len(channels))[:, model.bins :] for each in found.arrays]
    high = [_with_silence(*each, heard) for each in zip(rows, (1, 0, 0, 0), strict=True)]
    gains = _with_silence(turned.gain, 1, heard)
    deviations = _with_silence(turned.gain_std, 0, heard)
    return [
        one._replace(
            gain=gains[k],
            gain_std=deviations[k],
            mean=gains[k],
            high=_high(one.high, [each[k] for each in high], found),
            agreement=agreeing[k],
        )
        for k, one in enumerate(channels)
    ]


def _above(channels: Sequence[SegmentPosterior], model: Dictionary) -> tuple[Floats, Floats]:
    """Return the power in the wide bands, and the speech's mean power by the first estimates.

    Returns: shapes (channels, bands, frames) and (channels, bands), with as many bands as the
    channel that has most of them.
    """
    most = max(len(each.high.gain) for each in channels)
    power = np.stack(
        [high_bands.power(each.spectra, model, most)[model.bins :] for each in channels]
    )
    speech = np.zeros(power.shape[:2], power.dtype)
    for own, rows, each in zip(speech, power, channels, strict=True):
        gain = each.high.gain
        own[: len(gain)] = (gain * rows[: len(gain)]).mean(axis=1)
    return power, speech


def _shares(speech: Reals, power: Reals) -> Reals:
    """Return each component's proportion of the speech's power, which `LOADING` and `power` limit.

    `speech`, `power`: shape (components, rows).
    """
    bounded = np.minimum(np.maximum(speech, LOADING * speech.max(axis=0)), power)
    bounded = np.maximum(bounded, QUIETEST * bounded.max(axis=0) + TINY)
    return bounded / bounded.sum(axis=0)


def _with_silence(values: Floats, silent: float, heard: NDArray[np.bool_]) -> Floats:
    """Insert the frames in which `heard` is False, with the value `silent`."""
    found = np.full((*values.shape[:-1], len(heard)), silent, np.float32)
    found[..., heard] = values
    return found


def _high(first: Posterior, rows: Sequence[Floats], found: Posterior) -> Posterior:
    """Return the posterior of a channel's wide bands, as many as in its first estimate."""
    gain, gain_std, speech, noise = (each[: len(first.gain)] for each in rows)
    return Posterior(gain, gain_std, speech, noise, found.acceptance, found.draws)
