"""Short-time spectra of sounds in PyTorch: those of `alphamf.audio.stft`, differentiable."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from alphamf.audio.stft import SYNTHESIS_HOPS, Frame, frame_count, sqrt_hann, windows
from alphamf.tools.arrays import Floats


def constant(values: Floats, like: Tensor) -> Tensor:
    """Return an array as a tensor on the device of another tensor."""
    return torch.from_numpy(values).to(like.device)


def blocks(sounds: Tensor, length: int, step: int) -> Tensor:
    """Return overlapping blocks of sounds, shape (clips, blocks, length)."""
    return sounds.unfold(-1, length, step)


def forward(sounds: Tensor, frame: Frame) -> Tensor:
    """Compute the STFT, as `alphamf.audio.stft.forward` does.

    `sounds`: shape (clips, samples). `frame`: window length and hop in samples. Returns `Tensor`:
    shape (clips, bins, frames), complex.
    """
    n_fft, hop_length = frame
    frames = frame_count(sounds.shape[1], frame)
    left = n_fft // 2
    right = (frames - 1) * hop_length + n_fft - left - sounds.shape[1]
    padded = functional.pad(sounds, (left, right))
    window = constant(sqrt_hann(n_fft), sounds)
    found: Tensor = torch.fft.rfft(blocks(padded, n_fft, hop_length) * window)
    return found.transpose(1, 2)


def inverse(spectra: Tensor, frame: Frame) -> Tensor:
    """Invert the STFT as `alphamf.audio.stft.inverse` does, without half a window at each end.

    `spectra`: shape (clips, bins, frames), complex. Returns `Tensor`: shape (clips, (frames - 1) *
    hop_length).
    """
    n_fft, hop_length = frame
    window = constant(sqrt_hann(n_fft), spectra)
    found = torch.fft.irfft(spectra.transpose(1, 2), n_fft) * window
    sound = _added(found, hop_length)
    weight = _added((window**2).expand(1, found.shape[1], -1), hop_length)
    inner = slice(n_fft // 2, sound.shape[1] - n_fft // 2)
    return sound[:, inner] / weight[:, inner]


def causal_forward(sounds: Tensor, hop: int) -> Tensor:
    """Compute spectra of complete hops in the analysis window of `alphamf.audio.stft.windows`.

    `sounds`: shape (clips, samples). `hop`: in samples. Returns `Tensor`: shape (clips, bins,
    frames), complex.
    """
    window = constant(windows(hop).analysis, sounds)
    padded = functional.pad(sounds, (len(window) - hop, 0))
    found: Tensor = torch.fft.rfft(blocks(padded, len(window), hop) * window)
    return found.transpose(1, 2)


def causal_inverse(spectra: Tensor, hop: int) -> Tensor:
    """Reconstruct sound from spectra of `causal_forward`, without the incomplete ends.

    `spectra`: shape (clips, bins, frames), complex. `hop`: in samples. Returns `Tensor`: shape
    (clips, (frames - SYNTHESIS_HOPS + 1) * hop).
    """
    window, used = constant(windows(hop).synthesis, spectra), SYNTHESIS_HOPS * hop
    found = torch.fft.irfft(spectra.transpose(1, 2), len(window)) * window
    sound = _added(found[..., -used:], hop)
    return sound[:, used - hop : hop - used]


def _added(found: Tensor, hop_length: int) -> Tensor:
    """Overlap-add blocks, shape (clips, blocks, length), every hop; return (clips, samples)."""
    parts = found.unflatten(-1, (-1, hop_length))
    several = parts.shape[2]
    total = functional.pad(parts[:, :, 0], (0, 0, 0, several - 1))
    for k in range(1, several):
        total = total + functional.pad(parts[:, :, k], (0, 0, k, several - 1 - k))
    return total.flatten(1)


def power(spectra: Tensor) -> Tensor:
    """Return the squares of complex numbers' magnitudes."""
    return spectra.real**2 + spectra.imag**2
