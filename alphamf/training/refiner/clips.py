"""Training clips: what a network reads and its target, computed from a mixture and its speech.

Sounds are stored as samples, not as spectra, to save space.
"""

from typing import Any, NamedTuple

import numpy as np

from alphamf.audio import stft
from alphamf.audio.stft import (
    FRAME_HOPS,
    SYNTHESIS_HOPS,
    Complexes,
    Frame,
    frame_of,
    power_share,
    spectra,
)
from alphamf.denoising import high_bands
from alphamf.denoising.estimate import sample_gains
from alphamf.denoising.gain import native_gain, refine_gain, second_stage_coefficients
from alphamf.denoising.grids import Grid, Spectra, native_grid
from alphamf.denoising.late_reverberation import late_reverberation
from alphamf.denoising.posterior import Posterior, sample_posterior
from alphamf.denoising.settings import Settings
from alphamf.denoising.weights import Weights
from alphamf.learnt import bands, high_band
from alphamf.learnt import network as layers
from alphamf.learnt.causal import CHAIN_ALONE, CausalHighBand, CausalNetworks
from alphamf.learnt.dictionary import Dictionary
from alphamf.learnt.network import SILENT
from alphamf.native.engine import Engine
from alphamf.tools.arrays import Floats
from alphamf.training.refiner.config import (
    CHAINS,
    CausalHighBandKind,
    CausalKind,
    CausalSecondStageKind,
    DereverberatorKind,
    HighBandKind,
    Kind,
    Mixtures,
)
from alphamf.training.refiner.mixtures import mixture
from alphamf.training.refiner.recordings import SplitRecordings
from alphamf.training.refiner.shaping import Rng, rms

RESIDUAL_PROBABILITY, MAX_RESIDUAL = 0.4, 0.25
"""Fraction of the second-stage clips to which a part of the removed sound is added again, and the
maximum of that part: the refiner leaves more of noises that are unlike those in training."""


UNHEARD = np.float32(3e-5)
"""Barely audible energy per cell of an upper band, relative to the speech's mean energy per cell: a
band of 1 kHz with this energy is about 60 dB softer than the speech."""


class FirstStageClip(NamedTuple):
    """A training clip of the refiner, in half precision."""

    # noisy, clean: sounds in units of the mixture's root mean square, shape (samples,).
    noisy: Any
    clean: Any
    # gain, gain_std: posterior mean and standard deviation of the speech's gain, shape (bins,
    # frames).
    gain: Any
    gain_std: Any
    # log_speech, log_noise: logs of the posterior means of both variances, in units of the
    # mixture's mean power in a cell, shape (bins, frames).
    log_speech: Any
    log_noise: Any


class SecondStageClip(NamedTuple):
    """A training clip of the second stage, in half precision."""

    # noisy, first, clean: the mixture, the first stage's output, and the speech, in units of the
    # mixture's root mean square; shape (samples,).
    noisy: Any
    first: Any
    clean: Any


class CausalSecondStageClip(NamedTuple):
    """A training clip of the second stage at low latency, in half precision."""

    # noisy, first, clean: as in `SecondStageClip`.
    noisy: Any
    first: Any
    clean: Any
    # Log of the online chain's level at the time when each frame is corrected, converted to the
    # mean power of a cell in the second stage's windows, shape (frames,).
    log_level: Any


class CausalClip(NamedTuple):
    """A training clip of the causal refiner, in half precision; arrays as in `FirstStageClip`."""

    # noisy, clean: sounds, shape (samples,).
    noisy: Any
    clean: Any
    # gain, gain_std, log_speech, log_noise, log_power: the online chain's posterior, and the log of
    # the mixture's power; powers and variances are in units of the chain's level.
    gain: Any
    gain_std: Any
    log_speech: Any
    log_noise: Any
    log_power: Any


class BandClip(NamedTuple):
    """A training clip of the high-band network."""

    # Input of the network, shape (frames, bands.COUNT, `network.FEATURES`), in half precision.
    features: Any
    # noisy, common, clean: energy of the mixture, inner product of mixture and speech, and energy
    # of the speech, in units of the mixture's mean energy in each band; shape (bands.ABOVE,
    # frames).
    noisy: Any
    common: Any
    clean: Any
    # Energy that is barely audible next to the speech, in the same units, shape (bands.ABOVE,).
    floor: Any


TrainingClip = FirstStageClip | SecondStageClip | CausalSecondStageClip | CausalClip | BandClip


class Maker(NamedTuple):
    """The recipe, recordings and networks from which training clips are made."""

    recipe: Mixtures  # Recipe of the mixtures
    recordings: SplitRecordings  # Recordings of the split, at the rate of the mixtures
    # Dictionary of alpha-MF, and the networks that run before the one to train: for a second stage
    # a refiner, for a high-band network a refiner and perhaps a second stage, for a refiner none.
    weights: Weights
    kind: Kind  # Kind of the network to train

    def clip(self, stream: int, number: int) -> TrainingClip:
        """Make clip `number` of a split; `stream` is the split's index in `recordings.SPLITS`."""
        rng = np.random.default_rng([self.recipe.seed, stream, number])
        dictionary = self.weights.dictionary
        rate = self.kind.rate(dictionary)
        samples = int(rate * self.recipe.seconds)
        clean, noisy = mixture(rng, samples, rate, self.recordings, self.recipe)
        unit = np.float32(rms(noisy.astype(float)))
        clean, noisy = clean / unit, noisy / unit
        if isinstance(self.kind, CausalKind):
            return _causal(clean, noisy, dictionary, 2 * number + stream)
        if isinstance(self.kind, CausalSecondStageKind):
            share = _residual(rng)
            return _causal_second_stage(clean, noisy, self.weights, 2 * number + stream, share)
        if isinstance(self.kind, CausalHighBandKind):
            pair = Spectra(clean, rate), Spectra(noisy, rate)
            seed = 2 * number + stream
            return _causal_bands(*pair, self.weights, seed, until_edge=self.recipe.until_edge)
        settings = CHAINS[_drawn(rng, self.recipe.chains)]
        key = (self.recipe.seed, 2 * number + stream)
        if isinstance(self.kind, HighBandKind):
            pair = Spectra(clean, rate), Spectra(noisy, rate)
            return _bands(*pair, self.weights, settings, key, until_edge=self.recipe.until_edge)
        heard = noisy
        if isinstance(self.kind, DereverberatorKind):
            heard = noisy - late_reverberation([noisy], rate)[0].below
        spectrum = stft.forward(heard, dictionary.frame)
        power = np.abs(spectrum) ** 2
        posterior = sample_posterior(power, dictionary, settings, key)
        if self.weights.refiner is None:
            return _first_stage(clean, noisy, power, posterior)
        gain = refine_gain(power, posterior, self.weights.refiner)
        first = stft.inverse(spectrum * gain, dictionary.frame, samples)
        first = first + _residual(rng) * (heard - first)
        return SecondStageClip(*(each.astype(np.float16) for each in (noisy, first, clean)))


def _residual(rng: Rng) -> float:
    """Draw the part of the removed sound that is added to the first stage's output; often 0."""
    return rng.uniform(0, MAX_RESIDUAL) if rng.random() < RESIDUAL_PROBABILITY else 0.0


def _first_stage(clean: Floats, noisy: Floats, power: Floats, posterior: Posterior) -> TrainingClip:
    level = power.mean()
    arrays = [noisy, clean, posterior.gain, posterior.gain_std]
    arrays += [np.log(each / level + SILENT) for each in (posterior.speech, posterior.noise)]
    return FirstStageClip(*(array.astype(np.float16) for array in arrays))


def _causal(clean: Floats, noisy: Floats, dictionary: Dictionary, seed: int) -> TrainingClip:
    """Make a clip by running the online chain on a mixture, frame by frame."""
    read = _read(_engine(dictionary.rate, dictionary, CHAIN_ALONE, seed), noisy)[:, :, 0]
    power, gain, gain_std, speech, noise = read.transpose(1, 2, 0)
    logs = (np.log(each + SILENT) for each in (speech, noise, power))
    arrays = noisy, clean, gain, gain_std, *logs
    return CausalClip(*(array.astype(np.float16) for array in arrays))


def _bands(
    clean: Spectra,
    noisy: Spectra,
    weights: Weights,
    settings: Settings,
    key: tuple[int, int],
    *,
    until_edge: bool,
) -> BandClip:
    """Make a high-band clip; with `until_edge`, bands above the sound of `clean` have no energy."""
    network: Any = weights.second_stage
    (found,) = sample_gains(
        [noisy.sound], noisy.rate, weights, settings, key, np, lambda steps: None, [None]
    )
    grid = native_grid(weights.dictionary, noisy.rate)
    gain, _ = native_gain(found, weights.dictionary)
    spectra, high = found.spectra, found.high
    sound = stft.inverse(spectra.spectrum_on(grid) * gain, grid.frame, len(noisy.sound))
    first = Spectra(sound, noisy.rate)
    factors = second_stage_coefficients(spectra, first, network, np)
    inputs = high_bands.features_of(spectra, first, factors, high, weights.dictionary, network)
    native = native_grid(network, noisy.rate)
    mixed, speech = spectra.spectrum_on(native), found.scale * clean.spectrum_on(native)
    count = len(high.gain)
    if until_edge:
        count = min(count, high_bands.count_sounding_bands(clean, weights.dictionary))
    return _band_clip(high_band.features(inputs, np), mixed, speech, native, count)


def _engine(rate: int, dictionary: Dictionary, networks: CausalNetworks, seed: int) -> Engine:
    """Return an engine of low latency for one channel."""
    return Engine(rate, 1, dictionary, networks, linked=False, least=0.0, seed=seed)


def _read(engine: Engine, sound: Floats, *, bands: bool = False) -> Floats:
    """Return what `Engine.read` returns after each whole hop, shape (hops, 5, 1, bins or bands)."""
    rows = []
    for block in sound[: len(sound) // engine.hop * engine.hop].reshape(-1, engine.hop, 1):
        engine.process(block)
        rows.append(engine.read(bands=bands))
    return np.stack(rows)


def _causal_second_stage(
    clean: Floats, noisy: Floats, weights: Weights, seed: int, share: float
) -> TrainingClip:
    """Make a clip by low-latency denoising; add the fraction `share` of the removed sound again."""
    networks = CausalNetworks(weights.causal)
    engine = _engine(weights.dictionary.rate, weights.dictionary, networks, seed)
    hop = engine.hop
    late = SYNTHESIS_HOPS * hop
    sound = np.pad(noisy, (0, late + -len(noisy) % hop))[:, None]
    speech, levels = [], []
    for block in sound.reshape(-1, hop, 1):
        speech.append(engine.process(block).speech)
        levels.append(float(engine.level[0, 0]))
    first = np.concatenate(speech)[: len(noisy), 0]
    first = first + np.float32(share) * (noisy - first)
    # A frame begins a hop before the one that is due, and is corrected with that.
    log_level = np.log(np.array(levels[SYNTHESIS_HOPS - 2 :]) * power_share(hop) + SILENT)
    arrays = noisy, first, clean, log_level[: 1 + -(-len(noisy) // hop)]
    return CausalSecondStageClip(*(each.astype(np.float16) for each in arrays))


def _causal_bands(
    clean: Spectra, noisy: Spectra, weights: Weights, seed: int, *, until_edge: bool
) -> BandClip:
    """Make a high-band clip by low-latency denoising; `until_edge` as in `_bands`."""
    rate, dictionary = noisy.rate, weights.dictionary
    values = layers.start(np.random.default_rng(0), bands.COUNT, layers.Sizes(1, 1, 1, 2, 1, 0))
    reader = CausalHighBand(values, dictionary.rate, frame_of(dictionary.frame))
    networks = CausalNetworks(weights.causal, high_band=reader)
    engine = _engine(rate, dictionary, networks, seed)
    read = _read(engine, noisy.sound, bands=True)[:, :, 0]
    whole, gains, std, left, rest = read.transpose(1, 2, 0)
    log_power, log_left, log_rest = (np.log(each + SILENT) for each in (whole, left, rest))
    features = layers.features(log_power, gains, std, log_left, log_rest, np)
    grid = Grid(rate, Frame(FRAME_HOPS * engine.hop, engine.hop))
    mixed, speech = (spectra(each.sound, engine.hop).T for each in (noisy, clean))
    ends = (clean, noisy) if until_edge else (noisy,)
    count = min(high_bands.count_sounding_bands(each, dictionary) for each in ends)
    return _band_clip(features, mixed, speech, grid, count)


def _band_clip(
    features: Floats, mixed: Complexes, speech: Complexes, grid: Grid, count: int
) -> BandClip:
    """Make a clip from spectra of mixture and speech; the upper bands from `count` on become 0."""
    pool = high_bands.high_pooling(grid)
    squares: list[Any] = [np.abs(mixed) ** 2, (mixed.conj() * speech).real, np.abs(speech) ** 2]
    energies = [pool(each) for each in squares]
    for each in energies:  # a band without sound does not count in the losses
        each[count:] = 0
    level = energies[0].mean(axis=1)
    level[level == 0] = 1
    floor = UNHEARD * squares[2].mean() / level
    of_mixture, shared, of_speech = (each / level[:, None] for each in energies)
    return BandClip(features.astype(np.float16), of_mixture, shared, of_speech, floor)


def _drawn(rng: Rng, chances: dict[str, float]) -> str:
    parts = np.array(list(chances.values()))
    return list(chances)[rng.choice(len(parts), p=parts / parts.sum())]
