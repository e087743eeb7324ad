"""Rows of a dictionary above its band: learnt from sounds whose parts are known."""

import numpy as np
import pytest
import soundfile

from alphamf.audio.stft import Frame
from alphamf.errors import AlphaMFError
from alphamf.learnt import bands
from alphamf.learnt.bands import FULL_BAND as RATE
from alphamf.learnt.dictionary import Dictionary, load
from alphamf.training.dictionary.band_extension import extend
from tests.support.commands import run

FRAME = Frame(1024, 256)
LOW, HIGH = (500, 2500), (10000, 15000)
"""In Hz: what each of two columns sounds like, and what sounds with it above."""


def hiss(rng, seconds, centre):
    """Return noise of half an octave at a frequency."""
    spectrum = np.fft.rfft(rng.standard_normal(int(seconds * RATE)))
    frequencies = np.fft.rfftfreq(int(seconds * RATE), 1 / RATE)
    spectrum[np.abs(np.log2(np.maximum(frequencies, 1) / centre)) > 0.1] = 0
    sound = np.fft.irfft(spectrum)
    return sound / sound.std()


def dictionary(rate=16000):
    frequencies = np.arange(FRAME.bins) * rate / FRAME.n_fft
    near = [np.abs(np.log2(np.maximum(frequencies, 1) / low)) < 0.1 for low in LOW]
    basis = np.where(near, 1.0, 5e-4).T.astype(np.float32)
    return Dictionary(basis / basis.sum(0), 1.0, rate, FRAME, name="two")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Write voices of two sounds that take turns, each with a softer one above."""
    folder = tmp_path_factory.mktemp("voices")
    rng = np.random.default_rng(0)
    for k in range(3):
        sound = np.zeros(2 * RATE)
        for turn, (low, high) in enumerate(zip(LOW, HIGH, strict=True)):
            heard = (np.arange(2 * RATE) // (RATE // 4)) % 2 == turn
            sound += heard * (hiss(rng, 2, low) + 0.1 * hiss(rng, 2, high))
        sound += 0.01 * rng.standard_normal(2 * RATE)
        soundfile.write(folder / f"{k}.wav", 0.1 * sound, RATE)
    return sorted(map(str, folder.glob("*.wav")))


@pytest.mark.slow
def test_rows_above_belong_to_the_columns_that_sound_with_them(files):
    found = extend(dictionary(), files, seconds=2)
    rows = found.above.reshape(bands.ABOVE, 2)
    for column, high in enumerate(HIGH):
        band = np.searchsorted(bands.edges()[bands.BELOW :], high) - 1
        other = 1 - column
        assert rows[band, column] > 0.7 * rows[:, column].max()
        assert rows[band, column] > 5 * rows[band, other]
    # 20 dB below, in six times the width; at alpha 1 a dispersion goes with the magnitude.
    assert rows[:, 1].max() / found.basis[:, 1].max() == pytest.approx(0.1 / 6**0.5, rel=0.7)
    np.testing.assert_array_equal(found.basis, dictionary().basis)
    again = extend(dictionary(), files, seconds=2)
    np.testing.assert_array_equal(again.above, found.above)


def test_voices_count_in_the_bands_that_they_have(files, tmp_path):
    rng = np.random.default_rng(1)
    narrow = hiss(rng, 2, LOW[0])
    soundfile.write(tmp_path / "narrow.wav", 0.1 * narrow, RATE, "FLOAT")
    alone, both = (
        extend(dictionary(), given, seconds=2).above
        for given in (files, [*files, str(tmp_path / "narrow.wav")])
    )
    np.testing.assert_allclose(both, alone, rtol=0.2, atol=1e-9)
    with pytest.raises(AlphaMFError, match=r"no file has speech from 7500 to 7\d+ Hz"):
        extend(dictionary(), [str(tmp_path / "narrow.wav")])


def test_what_cannot_be_learnt_from_is_refused(files, tmp_path):
    with pytest.raises(AlphaMFError, match="a dictionary of 8000 Hz does not reach"):
        extend(dictionary(8000), files)
    with pytest.raises(AlphaMFError, match="no files were given"):
        extend(dictionary(), [])
    soundfile.write(tmp_path / "slow.wav", np.zeros(16000), 16000)
    with pytest.raises(AlphaMFError, match="has a rate of 16000 Hz"):
        extend(dictionary(), [str(tmp_path / "slow.wav")])


def test_the_command_writes_a_copy_with_rows_above(files, tmp_path):
    dictionary().save(tmp_path / "two.npz")
    made = tmp_path / "full.npz"
    result = run("train", *files, "--above", tmp_path / "two.npz", "--seconds", "1", "-o", made)
    assert "with rows above its band, from 3 files" in result.stdout
    assert load(made).above.shape == (bands.ABOVE, 2)
    assert load(made).about["above"] == {"files": 3, "seconds": 1.0, "seed": 0}
    refused = run("train", *files, "--above", "nowhere", "-o", tmp_path / "no.npz", code=2)
    assert "unknown model 'nowhere'" in refused.stderr
