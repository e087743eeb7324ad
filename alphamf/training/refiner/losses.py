"""Losses of refiners and second stages: distances between their output and the clean speech."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from alphamf.audio.stft import Frame
from alphamf.learnt import layers, network, second_stage
from alphamf.learnt.causal import fill_band_end
from alphamf.training.refiner import spectra
from alphamf.training.refiner.clips import (
    CausalClip,
    CausalSecondStageClip,
    FirstStageClip,
    TrainingClip,
)
from alphamf.training.refiner.intelligibility import estoi
from alphamf.training.refiner.pesq import BEST_OPINION, opinion, rough_disturbance
from alphamf.training.refiner.torch_layers import outputs

RESOLUTIONS = (0.008, 0.02, 0.05)
"""Lengths of the windows of the loss ``resolutions``, in seconds; windows overlap by half."""

COMPRESSED = 0.3
"""Exponent of the magnitudes in the losses ``compression`` and ``resolutions``; because of it, a
cell 30 dB softer than another counts only 9 dB less."""

RARELY_HEARD, NEVER_HEARD = 1e-3, 1e-5
"""Powers, relative to the mean of clean speech, below which a cell of speech is faint, and below
which the output in faint cells hardly counts: some 60 and 80 dB below speech's loudest cell."""

FAINT = 1e-7
"""Number added to powers and energies before a root or a division, to bound the gradient; in a cell
it is 70 dB below the mixture's mean power."""


class TrainingGrid(NamedTuple):
    """The STFT in which a network reads and changes sound, in PyTorch."""

    frame: Frame  # Window and hop in samples
    rate: int  # Sampling rate in Hz
    causal: bool = False  # Whether the network reads no later frames
    # Whether the windows are the asymmetric ones of `alphamf.audio.stft.windows`.
    asymmetric: bool = False

    def forward(self, sounds: Tensor) -> Tensor:
        """Return complex spectra, (clips, bins, frames), of sounds of shape (clips, samples)."""
        if self.asymmetric:
            return spectra.causal_forward(sounds, self.frame.hop_length)
        return spectra.forward(sounds, self.frame)

    def inverse(self, found: Tensor) -> Tensor:
        """Return sounds (clips, samples) of spectra as from `forward`, without incomplete ends."""
        if self.asymmetric:
            return spectra.causal_inverse(found, self.frame.hop_length)
        return spectra.inverse(found, self.frame)


class BatchPart(NamedTuple):
    """The part of the clips that a step uses, with a random equaliser."""

    frames: slice  # Frames to read
    # Addition to the log powers that the network reads, of a shape that broadcasts to (clips,
    # bins, frames). The true gain does not depend on this addition.
    levels: Any = 0.0


class NetworkSpeech(NamedTuple):
    """The output of a network for clips, and the clean target."""

    # clean, estimate: complex spectra in units in which the mixture's mean power is 1, shape
    # (clips, bins, frames).
    clean: Tensor
    estimate: Tensor


def run_network(
    parameters: Mapping[str, Tensor],
    clips: TrainingClip,
    grid: TrainingGrid,
    part: BatchPart,
    exponent: float = 1.0,
) -> NetworkSpeech:
    """Run a refiner or a second stage on the `part` of clips, and return its output.

    `parameters`: named as in `alphamf.learnt.network.shapes`. `exponent`: of a refiner's gain.
    """
    if isinstance(clips, FirstStageClip | CausalClip):
        return _refined(parameters, clips, grid, part, exponent)
    return _corrected(parameters, clips, grid, part)


def _refined(
    parameters: Mapping[str, Tensor],
    clips: FirstStageClip | CausalClip,
    grid: TrainingGrid,
    part: BatchPart,
    exponent: float,
) -> NetworkSpeech:
    noisy, clean = _in_units_of_first(_spectra((clips.noisy, clips.clean), grid, part.frames))
    gain, gain_std, log_speech, log_noise = (each.float()[..., part.frames] for each in clips[2:6])
    power = spectra.power(noisy) + network.SILENT
    louder = part.levels
    if isinstance(clips, CausalClip):
        log_power = clips.log_power.float()[..., part.frames]
    else:
        log_power = torch.log(power)
    read = network.features(
        log_power + louder, gain, gain_std, log_speech + louder, log_noise + louder, torch
    )
    if isinstance(clips, CausalClip):
        read = fill_band_end(read, torch)
    made = outputs(parameters, read, grid.causal)
    predicted = layers.logistic(network.logits(made, read).swapaxes(1, 2), torch)
    return NetworkSpeech(clean, predicted**exponent * noisy)


def _corrected(
    parameters: Mapping[str, Tensor], clips: TrainingClip, grid: TrainingGrid, part: BatchPart
) -> NetworkSpeech:
    heard = _spectra(clips[:3], grid, part.frames)
    noisy, first, clean = _in_units_of_first(heard)
    pair = noisy, first
    if isinstance(clips, CausalSecondStageClip):
        level = torch.exp(clips.log_level.float()[:, None, part.frames] / 2)
        pair = heard[0] / level, heard[1] / level
    read = second_stage.features(*pair, part.levels, torch)
    read = read[..., : len(parameters["in.weight"]) // grid.frame.bins]
    factors = second_stage.coefficients(outputs(parameters, read, grid.causal), torch)
    return NetworkSpeech(clean, second_stage.speech(noisy, first, factors, torch))


def _spectra(sounds: Any, grid: TrainingGrid, frames: slice) -> list[Tensor]:
    return [grid.forward(sound.float())[..., frames] for sound in sounds]


def _in_units_of_first(each: list[Tensor]) -> list[Tensor]:
    """Return spectra divided by the root of the first one's mean power, which is the mixture's."""
    unit = torch.sqrt(spectra.power(each[0]).mean((1, 2), keepdim=True)) + 1e-12
    return [spectrum / unit for spectrum in each]


def losses(found: NetworkSpeech, grid: TrainingGrid, wanted: Collection[str]) -> dict[str, Tensor]:
    """Return terms of the objective by name, each a mean over clips.

    `wanted`: names of terms. ``distortion`` is the log of the squared error over the clean
    speech's power, and saturates at 30 dB.
    """
    clean, estimate = (grid.inverse(x) for x in (found.clean, found.estimate))
    terms = {
        "distortion": lambda: _distortion(found),
        "waveform": lambda: _waveform(clean, estimate),
        "compression": lambda: _compression(found.clean, found.estimate),
        "resolutions": lambda: _resolutions(clean, estimate, grid),
        "intelligibility": lambda: (1 - estoi(clean, estimate, grid.rate)).mean(),
        "pesq": lambda: BEST_OPINION - opinion(clean, estimate, grid.rate).mean(),
        "perception": lambda: rough_disturbance(clean, estimate, grid.rate).mean(),
        "residue": lambda: _residue(found),
    }
    return {name: terms[name]() for name in wanted}


def _distortion(found: NetworkSpeech) -> Tensor:
    error, whole = (
        spectra.power(each).sum((1, 2)) for each in (found.clean - found.estimate, found.clean)
    )
    return torch.log(error / (whole + 1e-3) + 1e-3).mean()


def _waveform(clean: Tensor, estimate: Tensor) -> Tensor:
    error, whole = ((each**2).sum(-1) for each in (clean - estimate, clean))
    return torch.log(error / (whole + FAINT) + 1e-3).mean()


def _compression(clean: Tensor, estimate: Tensor) -> Tensor:
    loud, other = ((spectra.power(each) + FAINT) ** (COMPRESSED / 2) for each in (clean, estimate))
    error = ((loud - other) ** 2).mean((1, 2))
    return (error / (loud * loud).mean((1, 2))).mean()


def _residue(found: NetworkSpeech) -> Tensor:
    ours, theirs = (spectra.power(each) for each in (found.clean, found.estimate))
    mean = ours.mean((1, 2), keepdim=True) + FAINT
    least = NEVER_HEARD * mean
    excess = torch.log((theirs + least) / (ours + least)).clamp(min=0)
    return (excess * (ours < RARELY_HEARD * mean)).mean()


def _resolutions(clean: Tensor, estimate: Tensor, grid: TrainingGrid) -> Tensor:
    each = []
    for seconds in RESOLUTIONS:
        length = 2 * round(seconds * grid.rate / 2)
        unit = (grid.frame.n_fft / length) ** 0.5  # the mixture's mean power is one again
        frame = Frame(length, length // 2)
        loud, other = (spectra.forward(unit * sound, frame) for sound in (clean, estimate))
        each.append(_compression(loud, other))
    return torch.stack(each).mean()
