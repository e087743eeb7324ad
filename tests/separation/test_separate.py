"""Separation into named sources: sums, shapes, what a source can be, and what is refused."""

import re

import numpy as np
import pytest
import soundfile

from alphamf import AlphaMFError, Dictionary, load, separate
from alphamf.audio.stft import Frame
from alphamf.scores.score import si_sdr
from tests.support.places import DATA, ROOT

RATE = 16000


@pytest.fixture(scope="module")
def parts():
    """Return a second of a voice, and a second of two tones that come in turn."""
    voice, _ = soundfile.read(DATA / "sample-clean.wav", start=RATE, frames=RATE, dtype="float32")
    time = np.arange(RATE) / RATE
    low, high = (np.sin(2 * np.pi * pitch * time) for pitch in (440, 1234))
    tones = (0.2 * np.where((8 * time).astype(int) % 2, low, high)).astype(np.float32)
    return voice, tones


def tone_spectra(frame: Frame, context: int):
    basis = np.full((frame.bins, 2), 1e-4, np.float32)
    for k, pitch in enumerate((440, 1234)):
        bin_ = round(pitch * frame.n_fft / RATE)
        basis[bin_ - 1 : bin_ + 2, k] = 1
    return np.tile(basis, (context, 1))


@pytest.fixture(scope="module")
def found(parts):
    speech = load("speech-16k")
    sources = {"voice": speech, "tones": tone_spectra(speech.frame, speech.context), "rest": 2}
    return separate(sum(parts), RATE, sources)


def test_sounds_add_up_to_the_recording_and_masks_to_one(found, parts):
    np.testing.assert_allclose(sum(found.sounds.values()), sum(parts), atol=1e-6)
    np.testing.assert_allclose(sum(found.masks.values()), 1, atol=1e-5)
    assert all((mask >= 0).all() for mask in found.masks.values())
    assert all(0 < std.max() <= 0.5 for std in found.masks_std.values())
    assert list(found.sounds) == ["voice", "tones", "rest"]
    assert found.rate == RATE


@pytest.mark.parametrize("voice", ["speech-16k", "voice.wav"])
def test_each_source_is_found(parts, voice, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, part in zip(("voice.wav", "tones.wav"), parts, strict=True):
        soundfile.write(name, part, RATE)
    made = separate(sum(parts), RATE, {"voice": voice, "tones": "tones.wav"})
    for name, true in zip(("voice", "tones"), parts, strict=True):
        gain = si_sdr(true, made.sounds[name]) - si_sdr(true, sum(parts))
        assert gain > 4, name
    assert made.masks["tones"].shape[0] == 513


@pytest.mark.parametrize(
    ("rate", "shape"), [(8000, (999,)), (44100, (4000, 2)), (192000, (9000, 1))]
)
def test_any_rate_and_channels(rate, shape):
    audio = np.random.default_rng(0).uniform(-0.5, 0.5, shape)
    made = separate(audio, rate, {"voice": "speech-16k", "rest": (1, 2.0)})
    assert all(sound.shape == shape for sound in made.sounds.values())
    np.testing.assert_allclose(sum(made.sounds.values()), audio, atol=1e-5)


TONES = Dictionary(np.ones((129, 1), np.float32), 1.0, 8000, Frame(256, 64), name="tones")


UNFIT = [
    ({"voice": "none.wav", "rest": 2}, r"none\.wav does not exist"),
    ({"voice": "speech-16k", "tones": TONES}, "voice and tones have different rates"),
    ({"voice": "speech-16k", "tones": np.ones((4, 2))}, "needs 1539 rows"),
]


@pytest.mark.parametrize(("sources", "sentence"), UNFIT)
def test_unfit_sources_are_refused(sources, sentence):
    with pytest.raises(AlphaMFError, match=sentence):
        separate(np.ones(500), RATE, sources)


def test_unfit_sound_is_refused(monkeypatch):
    sources = {"a": 1, "b": 1}
    with pytest.raises(AlphaMFError, match="NaN or infinite samples"):
        separate(np.full(500, np.nan), RATE, sources)
    with pytest.raises(AlphaMFError, match=r"shape \(samples,\)"):
        separate(np.ones((0,)), RATE, sources)
    monkeypatch.setattr("alphamf.separation.separate.total_memory", lambda: 1000)
    with pytest.raises(AlphaMFError, match=r"would need .* of memory"):
        separate(np.ones(500), RATE, sources)


def test_the_programs_of_the_page_run(monkeypatch):
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs/theory/factorization.md").read_text(encoding="utf-8")
    programs = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    names: dict = {}
    for program in programs:
        exec(program, names)
    assert len(programs) == 3 and names["W"].shape == (100, 4)
    np.testing.assert_allclose(sum(names["found"].sounds.values()), names["noisy"], atol=1e-5)
