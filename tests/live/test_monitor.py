"""What a stream makes of sound while it comes: strength, bypass, levels, before and after."""

import os

import numpy as np
import pytest
import soundfile

from alphamf import Stream
from alphamf.errors import AlphaMFError
from alphamf.live import monitor
from alphamf.live.monitor import Monitor, Take, names
from tests.support.places import DATA

RATE = 16000
BLOCK = 160


@pytest.fixture(scope="module")
def sound():
    return soundfile.read(DATA / "sample-noisy.wav", dtype="float32", always_2d=True)[0][:RATE]


def stream():
    return Stream(RATE, 1, latency="low")


def fed(monitor, sound):
    parts = [monitor.process(sound[k : k + BLOCK]) for k in range(0, len(sound), BLOCK)]
    return np.concatenate([*parts, monitor.flush()])


def test_at_full_strength_it_is_the_stream(sound):
    whole = stream()
    expected = np.concatenate([whole.process(sound), whole.flush()])
    monitor = Monitor(stream())
    np.testing.assert_array_equal(fed(monitor, sound), expected)
    assert monitor.seconds == pytest.approx(1)


@pytest.mark.parametrize("bypass", [True, False])
def test_without_strength_it_is_the_input(sound, bypass):
    monitor = Monitor(stream(), 0.0 if not bypass else 1.0)
    monitor.bypass = bypass
    out = fed(monitor, sound)
    late = BLOCK if bypass else 0  # the block in which it changes
    np.testing.assert_allclose(out[late:], sound[late:], atol=1e-6)


def test_a_change_of_strength_does_not_click(sound):
    still = 0 * sound + 0.25  # nothing but noise, of which a step would be heard
    monitor = Monitor(stream(), 0.0)
    before = monitor.process(still)
    monitor.strength = 1.0
    after = [monitor.process(still[: 4 * BLOCK]) for _ in range(2)]
    assert np.abs(np.diff(np.concatenate([before[-1:], *after])[:, 0])).max() < 0.01


def test_levels(sound):
    monitor = Monitor(stream())
    assert monitor.levels == (-100, -100, -100)
    noise = (0.1 * np.random.default_rng(0).standard_normal((3 * RATE, 1))).astype(np.float32)
    fed(monitor, noise)
    assert monitor.levels.input == pytest.approx(-20, abs=0.5)
    assert monitor.levels.noise == pytest.approx(-20, abs=1.5)
    assert monitor.levels.reduction > 10


def test_before_and_after_are_recorded(sound, tmp_path):
    files = names(str(tmp_path / "mine.wav"))
    with Take(files, RATE, 1) as both:
        out = fed(Monitor(stream(), 0.5, both), sound)
    before, after = (soundfile.read(path, dtype="float32")[0] for path in files)
    np.testing.assert_allclose(before, sound[:, 0], atol=2**-15)
    np.testing.assert_allclose(after, out[:, 0], atol=2**-15)


def test_names_of_recordings(tmp_path):
    before, after = names(str(tmp_path / "new" / "deep"))
    assert before.parent == after.parent == tmp_path / "new" / "deep"
    assert before.parent.is_dir() and before.name.startswith("live-")
    assert after.name == before.stem + ".denoised.wav"
    (tmp_path / "link.denoised.wav").symlink_to("nowhere")
    with pytest.raises(AlphaMFError, match=r"link\.denoised\.wav already exists"):
        names(str(tmp_path / "link.wav"))
    late = names(str(tmp_path / "late.wav"))
    late.after.symlink_to("nowhere")  # meanwhile
    with pytest.raises(AlphaMFError, match=r"late\.denoised\.wav cannot be written: File exists"):
        Take(late, RATE, 1)
    assert late.after.is_symlink() and not late.before.exists()
    assert not (tmp_path / "nowhere").exists()
    (tmp_path / "a.denoised.wav").touch()
    with pytest.raises(AlphaMFError, match=r"b cannot be created: Not a directory"):
        names(str(tmp_path / "a.denoised.wav" / "b"))
    with pytest.raises(AlphaMFError, match="cannot be written: No such file"):
        Take(names(str(tmp_path / "no" / "a.wav")), RATE, 1)


def test_a_full_recording_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(monitor, "MOST", 100)
    files = names(str(tmp_path / "a.wav"))
    block = np.zeros((40, 1), np.float32)
    with Take(files, RATE, 1) as both:
        both.write(block, block)
        with pytest.raises(AlphaMFError, match=r"a\.wav has reached the 4 GB limit of WAV files"):
            both.write(block, block)
    assert [soundfile.info(path).frames for path in files] == [40, 40]


def test_names_of_other_audio_are_refused_and_make_no_folder(tmp_path):
    for name in ("talk.flac", "talk.MP3"):
        with pytest.raises(AlphaMFError, match=rf"cannot record to .*{name}; give a \.wav"):
            names(str(tmp_path / name))
    assert os.listdir(tmp_path) == []
    (tmp_path / "old.flac").mkdir()
    assert names(str(tmp_path / "old.flac")).before.parent == tmp_path / "old.flac"


@pytest.mark.parametrize("length", [245, 300])  # of 245 only the second name is
def test_a_name_that_is_too_long_is_told_and_leaves_nothing(tmp_path, length):
    files = names(str(tmp_path / f"{'a' * length}.wav"))
    with pytest.raises(AlphaMFError, match="cannot be written: "):
        Take(files, RATE, 1)
    assert os.listdir(tmp_path) == []
