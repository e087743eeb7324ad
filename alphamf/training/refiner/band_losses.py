"""Run a high-band network on clips, and compute its losses from band energies.

A common gain g of a band's cells gives the energy g^2 N for a mixture of energy N, and the error
g^2 N - 2 g C + S for speech of energy S, where C is the inner product of both. So a clip needs no
sound.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from alphamf.learnt import bands, layers, network
from alphamf.training.refiner.clips import BandClip
from alphamf.training.refiner.torch_layers import outputs

FAINT = 1e-3
"""Fraction of the mixture's energy added to the speech's energy, by which an error is divided."""

LOST = 2.0
"""Factor for the difference in dB where the output is too soft, to preserve sibilants."""


class NetworkBandGains(NamedTuple):
    """The gains of a high-band network for clips."""

    gain: Tensor  # Gains of bands above 7.5 kHz, shape (clips, bands.ABOVE, frames)
    clips: BandClip  # The clips, stacked, with the energies of mixture and speech


def run_band_network(
    parameters: Mapping[str, Tensor], clips: BandClip, exponent: float = 1.0, *, causal: bool
) -> NetworkBandGains:
    """Run the high-band network on clips, and return its gains, raised to `exponent`.

    `parameters`: as in `alphamf.learnt.network.shapes`. `causal`: no tap reads later frames.
    """
    read = clips.features.float()
    logit = network.logits(outputs(parameters, read, causal), read)
    gain = layers.logistic(logit, torch).swapaxes(1, 2)[:, bands.BELOW :]
    return NetworkBandGains(gain**exponent, clips)


def losses(made: NetworkBandGains, wanted: Collection[str]) -> dict[str, Tensor]:
    """Return terms of the objective by name, averaged over clips; bands without sound do not count.

    `wanted`: ``distortion`` is the log of a band's squared error over its speech's energy, which
    saturates at 30 dB; ``distance`` is the log-spectral distance in dB (root mean square over
    bands, mean over frames), in which a band that is too soft counts `LOST` times.
    """
    terms = {"distortion": _distortion, "distance": _distance}
    return {name: terms[name](made) for name in wanted}


def _distortion(made: NetworkBandGains) -> Tensor:
    gain, clips = made
    error = gain**2 * clips.noisy - 2 * gain * clips.common + clips.clean
    ratio = error.sum(-1) / (clips.clean.sum(-1) + FAINT * clips.noisy.sum(-1) + 1e-9)
    return _mean(torch.log(ratio + 1e-3), clips)


def _distance(made: NetworkBandGains) -> Tensor:
    gain, clips = made
    floor = clips.floor[..., None]
    left, clean = (torch.log10(energy + floor) for energy in (gain**2 * clips.noisy, clips.clean))
    heard = (clips.noisy.sum(-1, keepdim=True) > 0).float()
    apart = 10 * (left - clean)
    apart = torch.where(apart < 0, LOST * apart, apart)
    square = (heard * apart**2).sum(1) / heard.sum(1).clamp(min=1)
    return torch.sqrt(square + 1e-2).mean()


def _mean(values: Tensor, clips: BandClip) -> Tensor:
    """Return the mean of values, shape (clips, bands), over the bands that contain sound."""
    heard = (clips.noisy.sum(-1) > 0).float()
    return (values * heard).sum() / heard.sum().clamp(min=1)
