"""Methods of benchmarks: those of `alphamf evaluate`, and parts of alphamf by themselves."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

from alphamf import PRESETS, Stream, denoise
from alphamf.denoising import estimate
from alphamf.denoising.late_reverberation import late_reverberation
from alphamf.denoising.posterior import Posterior
from alphamf.denoising.weights import find, find_online
from alphamf.errors import AlphaMFError
from alphamf.evaluation.baselines.base import Clip as Noisy
from alphamf.evaluation.methods import all_methods
from alphamf.tools.arrays import Floats
from benchmarks.clips import Clip


def chain(clip: Clip) -> Floats:
    """Denoise at low latency by the chain alone, without networks."""
    return streamed(Stream(clip.rate, 1, "plain", latency="low"), clip)


def one_gain(clip: Clip) -> Floats:
    """Denoise without the bands above 7.5 kHz; sound there gets the gain just below them."""
    weights = find(clip.rate)
    bare = replace(weights, dictionary=replace(weights.dictionary, above=None), high_band=None)
    return denoise(clip.noisy, clip.rate, model=bare).audio


def low_one_gain(clip: Clip) -> Floats:
    """Denoise at low latency without the bands above 7.5 kHz."""
    bare = replace(find_online(clip.rate), causal_high_band=None)
    return streamed(Stream(clip.rate, 1, model=bare, latency="low"), clip)


def streamed(stream: Stream, clip: Clip) -> Floats:
    """Return the output of a stream for the noisy sound of a clip."""
    return np.concatenate([stream.process(clip.noisy), stream.flush()])


def late(clip: Clip) -> Floats:
    """Only remove late reverberation, by the linear prediction with heavy tails."""
    return clip.noisy - late_reverberation([clip.noisy], clip.rate)[0].below


def changed(clip: Clip, **settings: Any) -> Floats:
    """Denoise with some settings of `fast` changed."""
    return denoise(clip.noisy, clip.rate, replace(PRESETS["fast"], **settings)).audio


def wpe(clip: Clip) -> Floats:
    """Remove late reverberation by weighted prediction error, at 16 kHz.

    Nakatani et al., IEEE TASLP 18 (2010); Drude et al., ITG 2018 (the package nara_wpe).
    """
    from nara_wpe.utils import istft, stft
    from nara_wpe.wpe import wpe as predict

    frames = {"size": 1024, "shift": 256}
    spectrum = stft(clip.noisy[None].astype(float), **frames).transpose(2, 0, 1)
    found = predict(spectrum, taps=10, delay=4, iterations=3, statistics_mode="full")
    return np.asarray(istft(found.transpose(1, 2, 0), **frames)[0, : len(clip.noisy)], np.float32)


def subtraction(clip: Clip) -> Floats:
    """Denoise with a spectral subtraction in place of the chain, before the same networks."""

    def posterior(power: Floats, *_: Any) -> Posterior:
        noise = np.broadcast_to(2 * np.quantile(power, 0.2, axis=-1, keepdims=True), power.shape)
        gain = np.clip(1 - noise / (power + noise.mean() * 1e-6), 0.05, 1).astype(np.float32)
        found = gain, 0 * gain, gain * power, noise.astype(np.float32)
        return Posterior(*found, acceptance=[1.0, 1.0], draws=0)

    with patch.object(estimate, "sample_posterior", posterior):
        return denoise(clip.noisy, clip.rate).audio


PARTS: dict[str, Callable[[Clip], Floats]] = {
    "chain": chain,
    "one-gain": one_gain,
    "low-one-gain": low_one_gain,
    "late": late,
    "dereverb": partial(changed, dereverb=1.0),
    "em": partial(changed, sampler="em"),
    "gaussian": partial(changed, alpha_speech=2.0),
    "chain-of-fast": partial(changed, refine=False),
    "wpe": wpe,
    "subtraction": subtraction,
}


def names_of(text: str) -> list[str]:
    """Return the methods of a comma-separated list; raise an AlphaMFError for an unknown one."""
    names = text.split(",")
    if unknown := [name for name in names if name not in (*all_methods(), *PARTS)]:
        raise AlphaMFError(f"there is no method {unknown[0]!r}")
    return names


def run(name: str, clip: Clip) -> Floats:
    """Denoise a clip by a method; the result is as long as the clip."""
    if name in PARTS:
        return PARTS[name](clip)[: len(clip.clean)]
    return all_methods()[name].run(Noisy(clip.noisy, clip.rate, clip.clean))[: len(clip.clean)]
