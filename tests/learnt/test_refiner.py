"""The refiner: its network against dense computations, its file, and where it is used."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import signal

from alphamf.audio import stft
from alphamf.audio.stft import Frame
from alphamf.denoising import uncertainty
from alphamf.denoising.api import denoise
from alphamf.denoising.grids import native_grid
from alphamf.denoising.posterior import sample_posterior
from alphamf.denoising.segments import continue_mirrored
from alphamf.denoising.settings import Settings
from alphamf.denoising.weights import Weights
from alphamf.errors import AlphaMFError
from alphamf.learnt import layers, network, refiner
from alphamf.learnt.dictionary import choose as choose_dictionary
from alphamf.learnt.refiner import Refiner
from tests.support.networks import NARROW_SIZES, WIDE_SIZES, untrained

BINS = 9
FRAME = Frame(16, 4)


SIZES = {"narrow": NARROW_SIZES, "wide": WIDE_SIZES}


def drawn(seed=0, scale=1.0, sizes=NARROW_SIZES):
    """Return an untrained network, all of whose parameters matter."""
    values = untrained(sizes, BINS, seed, spread=0.05)
    return Refiner({name: scale * value for name, value in values.items()}, 8000, FRAME)


def posterior(shape=(BINS, 40), seed=1):
    """Return |X|^2, gain, its standard deviation and both variances."""
    rng = np.random.default_rng(seed)
    power, speech, noise = rng.exponential(size=(3, *shape)).astype(np.float32)
    gain = speech / (speech + noise)
    std = 0.3 * gain * (1 - gain)
    return {"power": power, "gain": gain, "gain_std": std, "speech": speech, "noise": noise}


class Quarter(Refiner):
    """A refiner with the same output for every cell."""

    def refine(self, power, **posterior):
        return np.full_like(power, 0.25)


@pytest.mark.parametrize("sizes", SIZES)
def test_a_network_of_zeros_leaves_the_posterior_mean(sizes):
    """Training starts from there."""
    given = posterior()
    gain = drawn(scale=0.0, sizes=SIZES[sizes]).refine(**given)
    inside = np.clip(given["gain"], network.NARROWEST, 1 - network.NARROWEST)
    np.testing.assert_allclose(gain, inside, atol=1e-6)


@pytest.mark.parametrize("apart", [(1, 1), (1, 4), (1, 16), (8, 1), (2, 3)])
@pytest.mark.parametrize("frames", [1, 2, 50])
def test_correlate_is_a_dense_correlation(frames, apart, monkeypatch):
    monkeypatch.setattr(layers, "CHUNK", 7 * BINS)  # several chunks, the last one short
    rng = np.random.default_rng(0)
    cells = rng.standard_normal((2, frames, BINS, 3))
    weight, bias = rng.standard_normal((3, 3, 3, 4)), rng.standard_normal(4)
    found = layers.correlate(cells, weight, bias, apart, np)
    late, high = apart
    kernel = np.zeros((2 * late + 1, 2 * high + 1, 3, 4))
    kernel[::late, ::high] = weight
    padded = np.pad(cells, [(0, 0), (late, late), (high, high), (0, 0)])
    for clip in range(2):
        for out in range(4):
            dense = sum(
                signal.correlate2d(padded[clip, :, :, c], kernel[:, :, c, out], mode="valid")
                for c in range(3)
            )
            np.testing.assert_allclose(found[clip, :, :, out], dense + bias[out], atol=1e-12)


def test_silence_beside_a_sound_gives_numbers():
    """Also in windows that are silent throughout."""
    given = posterior()
    silent = {name: np.pad(each, ((0, 0), (400, 300))) for name, each in given.items()}
    gain = drawn().refine(**silent)
    assert gain.min() >= 0 and gain.max() <= 1


@pytest.mark.parametrize("frames", [1, 2])
def test_the_ends_of_all_ranges_give_numbers_in_theirs(frames):
    given = posterior((BINS, frames))
    given["gain"][0], given["gain"][1], given["noise"][2], given["speech"][3] = 0, 1, 0, 1e30
    given["power"][4] = 0
    gain = drawn(scale=30.0).refine(**given)  # logits far beyond what exp can take
    assert gain.dtype == np.float32 and gain.shape == (BINS, frames)
    assert gain.min() >= 0 and gain.max() <= 1


def test_the_exponent_is_the_gains_power():
    given = posterior()
    gain = replace(drawn(), exponent=0.5).refine(**given)
    np.testing.assert_allclose(gain, np.sqrt(drawn().refine(**given)), rtol=1e-5)


@pytest.mark.parametrize("sizes", SIZES)
def test_file_and_back(tmp_path, sizes):
    made = replace(drawn(sizes=SIZES[sizes]), exponent=0.75, about={"by": "Ä. Nonym"})
    made.save(tmp_path / "refiner-x.npz")
    back = Refiner.load(tmp_path / "refiner-x.npz")
    assert (back.rate, back.frame, back.exponent) == (8000, FRAME, 0.75)
    assert back.about == {"by": "Ä. Nonym"}
    for name, value in made.parameters.items():
        np.testing.assert_allclose(back.parameters[name], value, atol=2e-3)
        assert back.parameters[name].dtype == np.float32


def test_other_files_are_refused_in_a_sentence(tmp_path):
    drawn().save(tmp_path / "whole.npz")
    whole = (tmp_path / "whole.npz").read_bytes()
    header = io.BytesIO()
    np.savez(header, parameters=np.zeros(3, np.float16), header=np.array(json.dumps({"format": 9})))
    lacking, endless, narrower = drawn(), drawn(), drawn()
    powerless = replace(drawn(), exponent=0.0)
    del lacking.parameters["in.bias"]
    endless.parameters["in.bias"][0] = np.inf
    narrower.parameters["block1.up"] = narrower.parameters["block1.up"][:, :-1]
    contents = [b"", b"RIFF", whole[: len(whole) // 2], header.getvalue()]
    for other in (lacking, endless, narrower, powerless):
        other.save(tmp_path / "other.npz")
        contents.append((tmp_path / "other.npz").read_bytes())
    for k, content in enumerate(contents):
        path = tmp_path / f"{k}.npz"
        path.write_bytes(content)
        foreign = "is damaged, or was not written by alphamf as a refiner"
        why = foreign if k < 3 else "is not a usable refiner: "
        with pytest.raises(AlphaMFError, match=rf"{k}\.npz {why}"):
            Refiner.load(path)
    with pytest.raises(AlphaMFError, match=r"the refiner .*none\.npz does not exist"):
        Refiner.load(tmp_path / "none.npz")


@pytest.mark.parametrize("rate", [8000, 44100])
def test_the_networks_output_is_the_gain(rate):
    """Of audible channels, at any rate; and only where it is asked for and there is one."""
    dictionary = choose_dictionary("auto", rate)
    weights = Weights(dictionary, Quarter({}, dictionary.rate, dictionary.frame))
    rng = np.random.default_rng(0)
    audio = (0.1 * rng.standard_normal((6000, 2))).astype(np.float32)
    audio[:, 1] = 0
    quick = Settings(sampler="em", warm_up=0, steps=4, keep=2)
    found = denoise(audio, rate, quick, model=weights)
    assert found.gain.dtype == found.gain_std.dtype == np.float32
    below = found.frequencies < 7000  # above, bands have the posterior's
    np.testing.assert_allclose(found.gain[0, below], 0.25, atol=1e-6)
    grid = native_grid(dictionary, rate)
    longer = continue_mirrored(audio, grid.frame.n_fft)[:, 0]
    power = np.abs(stft.forward(longer, grid.frame)) ** 2
    std = uncertainty.network_gain_std(power, np.full_like(power, 0.25), grid.frequencies)
    np.testing.assert_allclose(found.gain_std[0, below], std[below, 4:-4], rtol=1e-4)
    assert (found.gain[1] == 1).all() and (found.gain_std[1] == 0).all()
    plain = denoise(audio, rate, replace(quick, refine=False), model=weights)
    assert plain.gain[0].std() > 0.01
    without = denoise(audio, rate, quick, model=Weights(dictionary))
    np.testing.assert_array_equal(without.gain, plain.gain)


def test_the_posterior_is_in_units_of_the_power():
    """Both sources Gaussian: the gain is nearly the share of the mean variances."""
    dictionary = choose_dictionary("auto", 8000)
    noisy = np.random.default_rng(0).exponential(size=(dictionary.bins, 40)).astype(np.float32)
    choice = Settings(
        sampler="em", warm_up=0, steps=30, keep=12, alpha_noise=2.0, alpha_speech=2.0, refine=False
    )
    once = sample_posterior(noisy, dictionary, choice, (0, 0))
    louder = sample_posterior(64 * noisy, dictionary, choice, (0, 0))
    share = once.speech / (once.speech + once.noise)
    assert np.abs(share - once.gain).mean() < 0.03
    np.testing.assert_allclose(louder.speech, 64 * once.speech, rtol=1e-5)
    # Where alpha is 2, Phi is 2 everywhere.
    np.testing.assert_allclose(2 * (once.speech + once.noise).mean(), noisy.mean(), rtol=0.2)


# Windows of a spectrogram ------------------------------------------------------------------------


@given(st.integers(1, 500), st.integers(1, 60))
def test_windows_reach_every_frame_and_overlap(frames, window):
    read = []

    def noted(x):
        read.append((int(x[0, 0]), x.shape[-1]))
        return x, -x

    given = np.arange(frames, dtype=np.float32)[None]
    one, other = refiner.apply_in_windows(noted, (given,), window)
    np.testing.assert_allclose(one, given, atol=1e-4)
    np.testing.assert_allclose(other, -given, atol=1e-4)
    length = min(frames, window)
    starts = [start for start, _ in read]
    assert {count for _, count in read} == {length}
    assert (starts[0], starts[-1]) == (0, frames - length)
    # Starts are rounded to frames, so that a step is less than one longer.
    assert max(np.diff(starts), default=0) <= max(1, (1 - refiner.OVERLAP) * length + 1)
    assert len(starts) <= 1 + np.ceil((frames - length) / ((1 - refiner.OVERLAP) * length))


@pytest.mark.parametrize("frames", [7, 8, 20])
def test_results_fade_from_one_window_into_the_next(frames):
    """Two windows that say different things: in between it rises from one to the other."""
    values = iter(range(100))

    def counted(x):
        value = np.full_like(x, next(values))
        return value, value

    found, _ = refiner.apply_in_windows(counted, (np.zeros((1, frames), np.float32),), 8)
    rises = np.diff(found[0])
    assert (rises >= -1e-6).all() and found[0, 0] == 0 and found.max() == next(values) - 1
    assert (rises <= 0.5).all()
