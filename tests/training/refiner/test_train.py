"""Training of the refiner: noises, mixtures, clips on disk, losses and the optimiser."""

import re
import sys

import numpy as np
import pytest
import soundfile

from alphamf.audio import stft
from alphamf.audio.resample import resample
from alphamf.audio.stft import Frame
from alphamf.errors import AlphaMFError
from alphamf.evaluation.score import stoi
from alphamf.learnt import network, second_stage
from alphamf.learnt.dictionary import Dictionary, load
from alphamf.learnt.refiner import Refiner
from alphamf.learnt.second_stage import SecondStage
from alphamf.training.refiner import clips, events, fit, mixtures, noises, shaping, shards, train

RATE = 8000
SAMPLES = 4800
CLIPS = 10
FRAME = Frame(128, 64)
SMALL = network.Sizes(width=16, hidden=32, blocks=1, maps=3, local=12, deep=0)


def voice(seed, seconds=1.0):
    """Return a buzz at a speaker's pitch in syllables of a quarter of a second."""
    rng = np.random.default_rng(seed)
    t = np.arange(int(seconds * RATE)) / RATE
    pitch = rng.uniform(90, 250)
    tones = sum(np.sin(2 * np.pi * k * pitch * t) / k for k in range(1, 12))
    return (0.1 * tones * np.sin(np.pi * 4 * t) ** 2).astype(np.float32)


def sound(seed):
    return (0.1 * np.random.default_rng(seed).standard_normal(RATE // 2)).astype(np.float32)


VOICES = [voice(seed) for seed in range(4)]
SOUNDS = [sound(seed) for seed in range(4)]

KINDS = {
    "coloured": lambda rng: noises.coloured(rng, SAMPLES, RATE),
    "place": lambda rng: noises.place(rng, SAMPLES, RATE, VOICES),
    "hum": lambda rng: noises.hum(rng, SAMPLES, RATE),
    "rumble": lambda rng: noises.rumble(rng, SAMPLES, RATE),
    "babble": lambda rng: noises.babble(rng, SAMPLES, RATE, VOICES),
    "crackle": lambda rng: events.crackle(rng, SAMPLES, RATE),
    "events": lambda rng: events.events(rng, SAMPLES, RATE, SOUNDS),
    "recorded": lambda rng: noises.recorded(rng, SAMPLES, RATE, SOUNDS),
    "all": lambda rng: noises.noise(rng, SAMPLES, RATE, VOICES, SOUNDS),
}


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    """Return what to make mixtures of: files of speech and noise, and a small dictionary."""
    folder = tmp_path_factory.mktemp("recordings")
    for name, recordings in (("speech", VOICES), ("noise", SOUNDS)):
        (folder / name / "deeper").mkdir(parents=True)
        for k, samples in enumerate(recordings):
            soundfile.write(folder / name / "deeper" / f"{k}.wav", samples, RATE)
    basis = np.random.default_rng(0).gamma(0.3, size=(FRAME.n_fft // 2 + 1, 8)) + 1e-4
    basis = (basis / basis.sum(0)).astype(np.float32)
    Dictionary(basis, 1.0, RATE, FRAME).save(folder / "small.npz")
    names = ((str(folder / "speech"),), (str(folder / "noise"),), str(folder / "small.npz"))
    return shards.Recipe(*names, seconds=SAMPLES / RATE, seed=1)


@pytest.fixture(scope="module")
def made(recipe, tmp_path_factory):
    """Return the shards of all clips, in files of four."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "SIZE", 4)
        return fit.make_clips(recipe, tmp_path_factory.mktemp("mixtures"), CLIPS, jobs=1)


@pytest.fixture
def optimise(monkeypatch):
    pytest.importorskip("jax", reason="training needs JAX: pip install 'alphamf[learn]'")
    pytest.importorskip("optax", reason="training needs optax: pip install 'alphamf[learn]'")
    # A small network is compiled in a second.
    monkeypatch.setattr(network, "NARROW_SIZES", SMALL)
    monkeypatch.setattr(network, "SECOND_STAGE_SIZES", SMALL)
    from alphamf.training.refiner import optimise as module

    return module


@pytest.mark.parametrize("kind", KINDS)
def test_a_noise_is_finite_and_the_same_for_the_same_seed(kind):
    make = KINDS[kind]
    heard = [make(np.random.default_rng(seed)) for seed in range(12)]
    for seed, each in enumerate(heard):
        assert each.shape == (SAMPLES,)
        assert np.isfinite(each).all() and each.any()
        np.testing.assert_array_equal(each, make(np.random.default_rng(seed)))
    assert len({each.tobytes() for each in heard}) == len(heard)


def test_events_of_every_kind_come_as_often_as_drawn():
    heard = [events.events(np.random.default_rng(seed), RATE, RATE, SOUNDS) for seed in range(120)]
    assert all(np.isfinite(each).all() and each.any() for each in heard)
    crest = [np.abs(each).max() / shaping.rms(each) for each in heard]
    assert min(crest) > 1.5 and max(crest) > 10  # from cries that overlap to single knocks


def test_rumble_lies_below_the_voice():
    for seed in range(20):
        heard = noises.rumble(np.random.default_rng(seed), RATE, RATE)
        power = np.abs(np.fft.rfft(heard)) ** 2  # bins of 1 Hz
        assert power[:120].sum() > 0.9 * power.sum()


def test_a_mixture_is_speech_and_noise_at_a_level_within_the_range():
    ratios = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        clean, noisy = mixtures.mixture(rng, SAMPLES, RATE, VOICES, SOUNDS)
        assert clean.dtype == noisy.dtype == np.float32
        assert clean.shape == noisy.shape == (SAMPLES,)
        np.testing.assert_allclose(np.abs(noisy).max(), mixtures.PEAK, rtol=1e-6)
        rest = (noisy - clean).astype(float)
        ratios.append(10 * np.log10(np.mean(clean.astype(float) ** 2) / np.mean(rest**2)))
        # What is added is no speech.
        likeness = np.corrcoef(clean, rest)[0, 1]
        assert abs(likeness) < 0.7
    low, high = mixtures.SNR
    assert low - 0.1 < min(ratios) < low + 4
    assert high - 4 < max(ratios) < high + 0.1


def test_the_same_seed_makes_the_same_mixture_at_any_rate():
    for rate in (8000, 16000):
        pairs = [
            mixtures.mixture(np.random.default_rng(3), SAMPLES, rate, VOICES, SOUNDS)
            for _ in range(2)
        ]
        np.testing.assert_array_equal(*pairs)


def test_a_telephone_passes_nothing_below_100_hz():
    white = np.random.default_rng(0).standard_normal(RATE)
    for seed in range(20):
        heard = shaping.telephone(np.random.default_rng(seed), white, RATE)
        power = np.abs(np.fft.rfft(heard)) ** 2  # bins of 1 Hz
        assert power[:100].mean() < 0.1 * power[500:2500].mean()
        np.testing.assert_array_equal(
            heard, shaping.telephone(np.random.default_rng(seed), white, RATE)
        )


def test_a_room_keeps_the_sound_and_adds_its_tail():
    click = np.zeros(RATE)
    click[100] = 1
    heard = shaping.room(np.random.default_rng(0), click, RATE)
    assert heard.shape == click.shape
    assert np.abs(heard[:100]).max() < 1e-9
    assert heard[100] == pytest.approx(1) and np.abs(heard[200:400]).max() > 1e-3


def test_recordings_are_read_at_one_rate_in_one_channel(tmp_path):
    (tmp_path / "deep").mkdir()
    left = np.sin(2 * np.pi * 300 * np.arange(2 * RATE) / (2 * RATE)).astype(np.float32)
    soundfile.write(tmp_path / "deep" / "a.flac", np.stack([left, 0 * left], 1), 2 * RATE)
    soundfile.write(tmp_path / "silent.wav", np.zeros(RATE), RATE)
    soundfile.write(tmp_path / "z.wav", voice(0), RATE)
    sounds = mixtures.load([str(tmp_path)], RATE)
    assert [len(each) for each in sounds] == [RATE, RATE]
    assert np.abs(sounds[1]).max() == pytest.approx(0.5, abs=0.01)
    with pytest.raises(AlphaMFError, match="nothing but silence"):
        mixtures.load([str(tmp_path / "silent.wav")], RATE)
    with pytest.raises(AlphaMFError, match="wav has a rate of 8000 Hz"):
        mixtures.load([str(tmp_path)], 2 * RATE)


def test_shards_hold_spectra_and_the_posterior(made):
    found = shards.Clips(made)
    stacked = clips.FirstStageClip(*(np.stack(each) for each in zip(*found, strict=True)))
    assert all(isinstance(each, clips.FirstStageClip) for each in found)
    frames = 1 + SAMPLES // FRAME.hop_length
    cells = (CLIPS, FRAME.n_fft // 2 + 1, frames)
    spectra = (CLIPS, 2, *cells[1:])
    assert [each.shape for each in stacked] == [spectra, spectra, cells, cells, cells, cells]
    assert all(each.dtype == np.float16 and np.isfinite(each).all() for each in stacked)
    power = (stacked.noisy.astype(float) ** 2).sum(1)
    np.testing.assert_allclose(power.mean((1, 2)), 1, rtol=1e-2)
    assert stacked.gain.min() >= 0 and stacked.gain.max() <= 1 and stacked.gain_std.min() >= 0


@pytest.fixture(scope="module")
def second_stage_shards(recipe, tmp_path_factory):
    """Return shards of second-stage clips; the first stage is a network of zeros."""
    folder = tmp_path_factory.mktemp("second-stage")
    start = network.start(np.random.default_rng(0), FRAME.bins, SMALL)
    zeros = {name: 0 * value for name, value in start.items()}
    Refiner(zeros, RATE, FRAME).save(folder / "first.npz")
    again = recipe._replace(first=str(folder / "first.npz"))
    return fit.make_clips(again, folder / "mixtures", CLIPS, jobs=1)


def test_shards_of_the_second_stage_hold_sounds(second_stage_shards, recipe):
    for number, found in enumerate(shards.Clips(second_stage_shards)):
        noisy, first, clean = (each.astype(float) for each in found)
        assert noisy.shape == first.shape == clean.shape == (SAMPLES,)
        np.testing.assert_allclose(np.mean(noisy**2), 1, rtol=1e-2)
        voices, sounds = (mixtures.load(names, RATE) for names in recipe[:2])
        rng = np.random.default_rng([recipe.seed, number])
        spoken, heard = mixtures.mixture(rng, SAMPLES, RATE, voices, sounds)
        unit = shaping.rms(heard)
        np.testing.assert_allclose(noisy, heard / unit, atol=5e-3)
        np.testing.assert_allclose(clean, spoken / unit, atol=5e-3)
        # What alpha-MF made of it is between nothing and all of the sound.
        assert 0 < np.mean(first**2) < 1


def test_a_stopped_run_resumes(made, recipe, monkeypatch):
    monkeypatch.setattr(shards, "SIZE", 4)
    assert [shard.clips for shard in made] == [4, 4, 2]
    before = {
        shard.path: (shard.path.stat().st_mtime_ns, shard.path.read_bytes()) for shard in made
    }
    made[2].path.unlink()
    again = fit.make_clips(recipe, made[0].path.parent, CLIPS, jobs=2)
    assert again == made
    for shard in made:
        assert (shard.path.stat().st_mtime_ns == before[shard.path][0]) == (shard is not made[2])
        assert shard.path.read_bytes() == before[shard.path][1]
    assert shards.missing(shards.plan(recipe, made[0].path.parent, 12)) == [
        made[2]._replace(clips=4)  # it holds two
    ]
    with pytest.raises(AlphaMFError, match="does not hold the mixtures that are asked for"):
        fit.make_clips(recipe._replace(seed=2), made[0].path.parent, CLIPS, jobs=1)


@pytest.mark.slow
def test_training_lowers_the_losses_and_writes_a_refiner(
    made, recipe, optimise, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(optimise, "REPORT_EVERY", 10)
    fit.train(made, load(recipe.model), tmp_path / "refiner.npz", epochs=54, seed=0)
    lines = capsys.readouterr().out.splitlines()
    # Such as: step 10 of 60, 4 s: 5.31 dB, 0.1721, 0.612, 2.412
    number = r"(-?\d+\.\d+)"
    found = [
        re.search(f": {number} dB, {number}, {number}, {number}", line).groups() for line in lines
    ]
    distortion, compression, intelligibility, likelihood = np.array(found, float).T
    assert len(lines) == 6 and lines[-1].startswith("step 60 of 60") and "validation" in lines[-1]
    assert distortion[-1] > distortion[0] + 0.5
    assert compression[-1] < 0.8 * compression[0]
    assert intelligibility[-1] > intelligibility[0]
    assert likelihood[-1] < likelihood[0] - 1
    learnt = Refiner.load(tmp_path / "refiner.npz")
    assert (learnt.rate, learnt.frame) == (RATE, FRAME)
    assert learnt.about["clips"] == CLIPS and learnt.about["step"] == 60
    bins = FRAME.n_fft // 2 + 1
    assert {name: each.shape for name, each in learnt.parameters.items()} == network.shapes(
        bins, SMALL
    )


@pytest.mark.slow
def test_a_second_stage_is_trained_in_short_windows(
    second_stage_shards, recipe, optimise, tmp_path, capsys
):
    fit.train(second_stage_shards, load(recipe.model), tmp_path / "fine.npz", epochs=90, seed=0)
    lines = capsys.readouterr().out.splitlines()
    found = [re.search(r": (-?[\d.]+) dB, ([\d.]+), ([\d.]+), 0.000", x).groups() for x in lines]
    distortion, _, intelligibility = np.array([found[0], found[-1]], float).T
    assert distortion[1] > distortion[0] + 0.3 and intelligibility[1] > intelligibility[0]
    learnt = SecondStage.load(tmp_path / "fine.npz")
    assert (learnt.rate, learnt.frame) == (RATE, second_stage.frame(RATE)) == (RATE, Frame(128, 64))
    assert learnt.about["first"] == second_stage_shards[0].recipe.first


@pytest.mark.slow
def test_the_losses_of_the_second_stage_are_those_of_its_output(second_stage_shards, optimise):
    """The losses, in JAX, against the output in denoising, in NumPy."""
    from alphamf.training.refiner import losses

    short = second_stage.frame(RATE)
    rng = np.random.default_rng(0)
    parameters = network.start(rng, short.bins, SMALL)
    parameters = {
        k: v + 0.1 * rng.standard_normal(v.shape, np.float32) for k, v in parameters.items()
    }
    each = shards.Clips(second_stage_shards)[0]
    found = losses.second_stage_losses(
        parameters, clips.SecondStageClip(*(x[None] for x in each)), frame=short, rate=RATE
    )
    noisy, first, clean = (stft.forward(x.astype(np.float32), short) for x in each)
    sound, speech = SecondStage(parameters, RATE, short).coefficients(noisy, first)
    error = np.abs(sound * noisy + speech * first - clean) ** 2
    expected = np.log(error.sum() / (np.abs(clean) ** 2).sum() + 1e-3)
    np.testing.assert_allclose(found.distortion, expected, atol=2e-3)
    estimate = stft.inverse(sound * noisy + speech * first, short, SAMPLES)
    spoken = each.clean.astype(np.float32)
    assert 1 - float(found.intelligibility) == pytest.approx(
        stoi(spoken, estimate, RATE, extended=True), abs=0.05
    )


@pytest.mark.slow
def test_the_trained_network_is_the_one_that_denoises(optimise):
    """The convolutions are other code in training; their output is the same."""
    import jax.numpy as jnp

    from alphamf.training.refiner import losses

    parameters = network.start(np.random.default_rng(0), 20, network.WIDE_SIZES)
    cells = np.random.default_rng(1).standard_normal((2, 30, 20, network.FEATURES))
    cells = cells.astype(np.float32)
    ours = network.outputs(parameters, cells, np)
    theirs = network.outputs(parameters, cells, jnp, convolve=losses._convolve)
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [8000, 16000])
def test_the_intelligibility_loss_is_estoi(optimise, rate):
    """Speech with pauses in ever more noise, against pystoi, in windows longer than ESTOI's."""
    from alphamf.training.refiner import intelligibility

    rng = np.random.default_rng(0)
    hoarse = [voice(seed) * (1 + rng.standard_normal(RATE)) for seed in range(4)]
    clean = np.concatenate([np.pad(each, (0, RATE // 4)) for each in hoarse])
    clean = resample(clean.astype(np.float32), RATE, rate)
    frame = Frame(512 * rate // RATE, 128 * rate // RATE)
    unit = np.sqrt(np.mean(np.abs(stft.forward(clean, frame)) ** 2))
    noise = rng.standard_normal(len(clean)).astype(np.float32)
    for level in (0, 0.01, 0.03, 0.3):
        noisy = clean + level * noise
        spectra = [stft.forward(each, frame)[None] / unit for each in (clean, noisy)]
        ours = float(intelligibility.estoi(*spectra, frame, rate)[0])
        assert ours == pytest.approx(stoi(clean, noisy, rate, extended=True), abs=0.02)
    bands = intelligibility.third_octaves(257, rate)
    assert bands.sum(1).max() == 1 and (bands.sum(0) > 0).all()


@pytest.mark.slow
def test_the_gradient_at_silence_is_finite(optimise):
    """Silent speech or a silent estimate: neither makes training diverge."""
    import jax
    import jax.numpy as jnp

    from alphamf.training.refiner import intelligibility

    frame = Frame(256, 64)
    spectrum = jnp.asarray(stft.forward(voice(0), frame)[None])
    slope = jax.grad(
        lambda gain, spoken: intelligibility.estoi(spoken, gain * spectrum, frame, RATE).sum()
    )
    for gain, spoken in ((0.0, spectrum), (0.5, 0 * spectrum), (0.5, spectrum)):
        assert np.isfinite(slope(gain, spoken))


@pytest.mark.slow
def test_too_few_clips_are_refused(made, optimise):
    few = shards.Clips(made)[:5]
    with pytest.raises(AlphaMFError, match="too few clips to train on: 5, of which"):
        next(optimise.optimise(few, FRAME, RATE, epochs=10, seed=0))


def test_without_jax_one_sentence_says_what_to_install(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "jax", None)
    places = ["--mixtures", str(tmp_path / "m"), "-o", str(tmp_path / "r.npz")]
    monkeypatch.setattr(sys, "argv", ["learn", "speech", "--noise", "noise", *places])
    with pytest.raises(SystemExit, match=r"needs JAX and optax: pip install 'alphamf\[learn\]'"):
        train.main()
    assert not list(tmp_path.iterdir())


def test_a_value_out_of_range_is_refused(monkeypatch, capsys):
    places = ["--mixtures", "m", "-o", "r.npz", "--seconds", "0"]
    monkeypatch.setattr(sys, "argv", ["learn", "speech", "--noise", "noise", *places])
    with pytest.raises(SystemExit):
        train.main()
    assert "--seconds must be at least 0.2, not 0.0" in capsys.readouterr().err
