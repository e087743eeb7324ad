"""report.html: the sounds and spectrograms in it are those of the files, or a note is."""

import io

import numpy as np
import pytest
import soundfile

from alphamf.evaluation.runner import audio_name
from tests.support.report_page import (
    RATE,
    corpus,
    data,
    result,
    sounds,
    written,
)


def test_the_sounds_are_those_of_the_files_and_only_the_first_seconds(tmp_path):
    results = [result("fast", si_sdr=1.0, si_sdr_gain=1.0)]
    sounds(tmp_path, results, seconds=15.25)
    found = written(tmp_path, results)
    assert "Only the first 15 s are here" in found.text
    files = [audio_name("clean", "sp00.wav"), audio_name("noisy", "car_5dB/sp00.wav"),
             results[0].audio]  # fmt: skip
    for player, name in zip(found.of("audio"), files, strict=True):
        assert player["src"].startswith("data:audio/flac;base64,")
        heard, rate = soundfile.read(io.BytesIO(data(player["src"])), dtype="int16")
        kept, _ = soundfile.read(tmp_path / name, dtype="int16")
        assert rate == RATE and len(heard) == 15 * RATE
        np.testing.assert_array_equal(heard, kept[: 15 * RATE])


def test_spectrograms_share_one_scale_of_colours_and_name_their_axes(tmp_path):
    from PIL import Image

    results = [result("fast", si_sdr=1.0, si_sdr_gain=1.0)]
    sounds(tmp_path, results, seconds=1)
    loud = 0.2 * np.random.default_rng(0).standard_normal(RATE)
    for name, level in ((audio_name("clean", "sp00.wav"), 1), (results[0].audio, 0.1)):
        soundfile.write(tmp_path / name, level * loud, RATE, "PCM_16", format="FLAC")
    found = written(tmp_path, results)
    pictures = [Image.open(io.BytesIO(data(each["href"]))) for each in found.of("image")]
    clean, _, fast = (np.asarray(picture).astype(int) for picture in pictures)
    assert pictures[0].palette.getdata() == pictures[2].palette.getdata()
    assert clean.max() <= 70 and clean.min() >= 0
    # A tenth of the amplitude is 20 dB, and a colour is one of them.
    inside = fast > 25
    assert inside.mean() > 0.5
    assert abs((clean - fast)[inside] - 20).max() <= 1
    labels = [s["aria-label"] for s in found.of("svg") if s.get("class") == "spectrogram"]
    assert [label.partition(",")[0] for label in labels] == [
        f"Spectrogram of {name}" for name in ("clean", "noisy", "fast")
    ]
    assert found.text.count("kHz") >= 3 and "0.2 0.4" in " ".join(found.text.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    "harm",
    [
        "gone",
        *(pytest.param(x, marks=pytest.mark.slow) for x in ("damaged", "empty", "one sample")),
    ],
)
def test_a_sound_that_cannot_be_had_leaves_a_note(tmp_path, harm):
    results = corpus({"noisy": 0.0, "fast": 2.0}, clips=1)
    sounds(tmp_path, results)
    path = tmp_path / results[1].audio
    if harm == "gone":
        path.unlink()
    elif harm == "damaged":
        path.write_bytes(b"no sound")
    else:
        soundfile.write(path, np.zeros(int(harm == "one sample")), RATE, format="FLAC")
    found = written(tmp_path, results)
    assert len(found.of("audio")) == (3 if harm == "one sample" else 2)
    assert ("The sound file is missing from the results folder." in found.text) == (
        harm != "one sample"
    )
