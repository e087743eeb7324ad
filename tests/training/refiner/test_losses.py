"""The losses and the network in PyTorch, against what denoises and against the scores' packages."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from alphamf.audio import stft
from alphamf.audio.reader import read
from alphamf.audio.resample import resample
from alphamf.audio.stft import Frame
from alphamf.learnt import layers, network, second_stage
from alphamf.learnt.causal import CausalRefiner, fill_band_end
from alphamf.learnt.refiner import Refiner
from alphamf.learnt.second_stage import SecondStage
from alphamf.scores import score
from tests.support.networks import WIDE_SIZES, untrained
from tests.support.places import ROOT
from tests.support.tones import FRAME, RATE, voice
from tests.support.twin.networks import FrameNetwork, rounded

torch = pytest.importorskip("torch", reason="training needs PyTorch: pip install 'alphamf[learn]'")

from alphamf.training.refiner import (  # noqa: E402
    clips,
    intelligibility,
    losses,
    pesq,
    scores,
    spectra,
    torch_layers,
)

SAMPLES = 4800
ALL = slice(None)
SMALL = network.Sizes(width=16, hidden=32, blocks=1, maps=3, local=12, deep=1)
WITH_TAPS = SMALL._replace(features=second_stage.WITH_TAPS[0], outputs=second_stage.WITH_TAPS[1])


def tensors(arrays):
    return {name: torch.from_numpy(value) for name, value in arrays.items()}


def pair(seed=0):
    """Return a voice and the same in noise, in units of the latter's root mean square."""
    clean = voice(seed, SAMPLES / RATE)
    noisy = clean + 0.03 * np.random.default_rng(seed).standard_normal(SAMPLES).astype(np.float32)
    unit = np.sqrt(np.mean(noisy**2))
    return clean / unit, noisy / unit


@pytest.mark.parametrize("sizes", [WIDE_SIZES, WITH_TAPS])
def test_the_network_is_the_one_that_denoises(sizes):
    cells = np.random.default_rng(1).standard_normal((2, 30, 20, sizes.features))
    cells = cells.astype(np.float32)
    values = network.start(np.random.default_rng(0), 20, sizes)
    ours = layers.outputs(values, cells, np)
    theirs = torch_layers.outputs(tensors(values), torch.from_numpy(cells)).numpy()
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_the_spectra_are_those_of_denoising():
    sound = voice(0, 0.61)
    for frame in (FRAME, Frame(512, 128)):
        found = spectra.forward(torch.from_numpy(sound)[None], frame)
        np.testing.assert_allclose(found[0].numpy(), stft.forward(sound, frame), atol=1e-5)
        again = spectra.inverse(found, frame)[0].numpy()
        np.testing.assert_allclose(again[: len(sound)], sound, atol=1e-5)


def test_the_causal_network_is_the_one_that_denoises():
    sizes = network.Sizes(width=16, hidden=24, blocks=3, maps=3, local=6, deep=3)
    refiner = CausalRefiner(untrained(sizes, 20), 8000, Frame(38, 4))
    cells = np.random.default_rng(1).standard_normal((2, 30, 20, network.FEATURES), np.float32)
    values = tensors(rounded(refiner.parameters))
    theirs = torch_layers.outputs(values, torch.from_numpy(cells), causal=True).numpy()
    for parts in (cells, cells[0], cells[:, :, :, :1]):
        kept = fill_band_end(torch.from_numpy(parts), torch).numpy()
        np.testing.assert_allclose(kept, fill_band_end(parts, np), atol=1e-6)
    frame_network = FrameNetwork(refiner, 2)
    ours = np.stack([frame_network.outputs(cells[:, k]) for k in range(30)], axis=1)
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_the_causal_spectra_are_those_of_denoising():
    sound, hop = voice(0, 0.61), 16
    whole = len(sound) // hop * hop
    found = spectra.causal_forward(torch.from_numpy(sound)[None], hop)
    ours = stft.spectra(sound, hop).T
    np.testing.assert_allclose(found[0].numpy()[:, 7:], ours[:, 7:], atol=1e-5)
    again = spectra.causal_inverse(found, hop)[0].numpy()
    np.testing.assert_allclose(again, sound[: len(again)], atol=1e-5)
    assert whole - len(again) == (stft.SYNTHESIS_HOPS - 1) * hop


def test_a_refiner_in_training_is_the_one_that_denoises():
    clean, noisy = pair()
    rng = np.random.default_rng(2)
    spectrum = stft.forward(noisy, FRAME)
    power = np.abs(spectrum) ** 2
    gain = rng.uniform(0.01, 0.99, power.shape).astype(np.float32)
    std = (0.3 * gain).astype(np.float32)
    values = untrained(SMALL, FRAME.bins)
    level = power.mean()
    speech, noise = gain * power, (1 - gain) * power
    logs = [np.log(each / level + network.SILENT) for each in (speech, noise)]
    refiner = Refiner(values, RATE, FRAME, exponent=0.7)
    refined = refiner.refine(power, gain=gain, gain_std=std, speech=speech, noise=noise)
    each = [torch.from_numpy(x[None]) for x in (noisy, clean, gain, std, *logs)]
    grid = losses.TrainingGrid(FRAME, RATE)
    made = losses.run_network(
        tensors(values), clips.FirstStageClip(*each), grid, losses.BatchPart(ALL), 0.7
    )
    expected = refined * spectrum / np.sqrt(level)
    np.testing.assert_allclose(made.estimate[0].numpy(), expected, atol=2e-2)


def test_the_waveform_loss_is_that_of_the_sound_that_comes_out():
    """What lies in the older part of the causal windows alone is never put together to sound."""
    clean, noisy = pair()
    hop = 16
    grid = losses.TrainingGrid(Frame(8 * hop, hop), RATE, causal=True, asymmetric=True)
    each = [grid.forward(torch.from_numpy(x[None])) for x in (clean, noisy)]
    older = torch.zeros(8 * hop)
    older[: 3 * hop] = 1
    added = torch.fft.rfft(older)[None, :, None]
    sounds = [grid.inverse(x)[0].numpy() for x in each]
    error = ((sounds[1] - sounds[0]) ** 2).sum() / (sounds[0] ** 2).sum()
    for estimate in (each[1], each[1] + added):
        found = losses.losses(
            losses.NetworkSpeech(each[0], estimate), grid, ("waveform", "distortion")
        )
        assert float(found["waveform"]) == pytest.approx(np.log(error + 1e-3), abs=1e-3)
    assert float(found["distortion"]) > np.log(error) + 1


@pytest.mark.parametrize("sizes", [SMALL, WITH_TAPS])
def test_a_second_stage_in_training_is_the_one_that_denoises(monkeypatch, sizes):
    monkeypatch.setattr(second_stage.SecondStage, "change", 1.0)  # training is of the whole change
    clean, noisy = pair()
    first = (0.7 * clean + 0.1 * noisy).astype(np.float32)
    short = second_stage.frame(RATE)
    values = untrained(sizes, short.bins)
    each = clips.SecondStageClip(*(torch.from_numpy(x[None]) for x in (noisy, first, clean)))
    grid = losses.TrainingGrid(short, RATE)
    made = losses.run_network(tensors(values), each, grid, losses.BatchPart(ALL))
    spectra_ = [stft.forward(x, short) for x in (noisy, first)]
    factors = SecondStage(values, RATE, short).coefficients(*spectra_)
    unit = np.sqrt((np.abs(spectra_[0]) ** 2).mean())
    expected = second_stage.speech(*spectra_, factors, np) / unit
    rounded = 2e-2 if layers.variant() in layers.ROUNDED else 0
    np.testing.assert_allclose(made.estimate[0].numpy(), expected, rtol=rounded, atol=2e-2)
    found = losses.losses(made, grid, ("distortion",))
    spoken = stft.forward(clean, short) / unit
    error = (np.abs(expected - spoken) ** 2).sum() / (np.abs(spoken) ** 2).sum()
    assert float(found["distortion"]) == pytest.approx(np.log(error + 1e-3), abs=1e-2)


@pytest.mark.parametrize("rate", [8000, 16000])
def test_the_intelligibility_loss_is_estoi(rate):
    """Speech with pauses in ever more noise, against pystoi."""
    rng = np.random.default_rng(0)
    hoarse = [voice(seed) * (1 + rng.standard_normal(RATE)) for seed in range(4)]
    clean = np.concatenate([np.pad(each, (0, RATE // 4)) for each in hoarse])
    clean = resample(clean.astype(np.float32), RATE, rate)
    noise = rng.standard_normal(len(clean)).astype(np.float32)
    for level in (0, 0.01, 0.03, 0.3):
        noisy = clean + level * noise
        both = (torch.from_numpy(each)[None] for each in (clean, noisy))
        ours = float(intelligibility.estoi(*both, rate)[0])
        assert ours == pytest.approx(score.stoi(clean, noisy, rate, extended=True), abs=0.02)
    bands = intelligibility.third_octaves(257, rate)
    assert bands.sum(1).max() == 1 and (bands.sum(0) > 0).all()


def degraded(rate):
    """Return 3 s of clean speech, and what may become of it."""
    clean, own = read(ROOT / "data" / "sample-clean.wav")
    clean = resample(clean[: 3 * own, 0], own, rate)
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(len(clean)).astype(np.float32)
    noise *= np.sqrt(np.mean(clean**2) / np.mean(noise**2))
    heard = [clean + 10 ** (-snr / 20) * noise for snr in range(-5, 40, 5)]
    heard += [np.clip(clean, -top, top) for top in np.abs(clean).max() / np.array([2.0, 4, 8, 16])]
    for every in (3, 5, 9):
        holes = (np.arange(len(clean)) // (rate // 20)) % every == 0
        heard.append(np.where(holes, 0, clean))
    spectrum = np.fft.rfft(clean)
    for part in (0.1, 0.3, 0.6):
        low = spectrum * (np.arange(len(spectrum)) < part * len(spectrum))
        heard.append(np.fft.irfft(low, len(clean)))
    return clean, [each.astype(np.float32) for each in heard]


@pytest.mark.parametrize("rate", [8000, 16000])
def test_the_loss_is_pesq_and_the_perceptual_one_falls_as_it_rises(rate):
    """Real speech in white noise, low-passed, clipped, and with holes, of many strengths."""
    pytest.importorskip("pesq", reason="PESQ needs its package: pip install 'alphamf[eval]'")
    clean, heard = degraded(rate)
    both = torch.from_numpy(np.stack([clean] * len(heard))), torch.from_numpy(np.stack(heard))
    same = [torch.from_numpy(clean)[None]] * 2
    theirs = np.array([score.pesq(clean, each, rate) for each in heard])
    rough = pesq.rough_disturbance(*both, rate).numpy()
    assert spearmanr(rough, theirs).statistic < -0.85
    assert float(pesq.rough_disturbance(*same, rate)) < 0.1 * rough.min()
    ours = pesq.opinion(*both, rate).numpy()
    in_noise = slice(9)
    assert np.abs(ours - theirs)[in_noise].max() < 0.15
    assert np.abs(ours - theirs).max() < 0.4
    assert spearmanr(ours, theirs).statistic > 0.98
    best = float(pesq.opinion(*same, rate))
    assert best == pytest.approx(score.pesq(clean, clean, rate), abs=0.01)


def test_the_gradient_at_silence_is_finite():
    """Silent speech or a silent estimate: neither makes training diverge."""
    frame = Frame(256, 64)
    spectrum = spectra.forward(torch.from_numpy(voice(0))[None], frame)
    grid = losses.TrainingGrid(frame, RATE)
    for loud, spoken in ((0.0, spectrum), (0.5, 0 * spectrum), (0.5, spectrum)):
        gain = torch.tensor(loud, requires_grad=True)
        made = losses.NetworkSpeech(spoken, gain * spectrum)
        names = ("distortion", "compression", "intelligibility", "resolutions")
        names += ("pesq", "perception")
        for name, value in losses.losses(made, grid, names).items():
            slope = torch.autograd.grad(value, gain, retain_graph=True)[0]
            assert torch.isfinite(slope), name


def test_the_dev_scores_are_those_of_the_evaluation():
    clean, heard = degraded(RATE)
    found = scores.scores([(clean, heard[0]), (clean, heard[-1])], RATE)
    each = [heard[0], heard[-1]]
    assert found.si_sdr == pytest.approx(np.mean([score.si_sdr(clean, x) for x in each]), abs=1e-3)
    estoi = [score.stoi(clean, x, RATE, extended=True) for x in each]
    assert found.estoi == pytest.approx(np.mean(estoi), abs=1e-4)


def test_the_residue_is_what_is_left_where_the_speech_is_faint():
    """Noise that is left in pauses costs, the more the louder; errors of speech do not."""
    said = np.concatenate([voice(0), np.zeros(RATE, np.float32)])
    noise = np.random.default_rng(0).standard_normal(len(said)).astype(np.float32)
    grid = losses.TrainingGrid(Frame(256, 64), RATE)
    clean = grid.forward(torch.from_numpy(said)[None])
    hiss = grid.forward(torch.from_numpy(noise * np.sqrt(np.mean(said**2)))[None])

    def residue(estimate):
        found = losses.losses(losses.NetworkSpeech(clean, estimate), grid, ("residue",))
        return float(found["residue"])

    left = [residue(clean + 10 ** (level / 20) * hiss) for level in (-20, -40, -60, -100)]
    assert left[0] > 2 * left[1] > 8 * left[2] > 0 and left[3] < 1e-3
    assert residue(clean) == residue(0.1 * clean) == residue(0 * clean) == 0
    power = clean.abs() ** 2
    faint = power < losses.RARELY_HEARD * power.mean()
    assert residue(torch.where(faint, clean, 2 * clean)) == 0
    steps = np.log(10) * 2  # twenty decibels in nepers of power
    assert left[0] - left[1] == pytest.approx(steps * float(faint.float().mean()), rel=0.1)
