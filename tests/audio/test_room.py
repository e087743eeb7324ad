"""The room of a recording, on voices in rooms that are made up, and on what has no room."""

import numpy as np
import pytest
import soundfile

from alphamf.audio import room
from alphamf.audio.room import RoomMeter, estimate_room
from tests.support.places import DATA

RATE = 16000


@pytest.fixture(scope="module")
def voice():
    """Return dry syllables for 20 s: noise bursts that end within 30 ms, and pauses."""
    rng = np.random.default_rng(0)
    parts = []
    while sum(map(len, parts)) < 20 * RATE:
        burst = rng.standard_normal(int(RATE * rng.uniform(0.08, 0.25)))
        burst[-480:] *= np.linspace(1, 0, 480)
        pause = np.zeros(int(RATE * rng.choice([0.05, 0.1, 0.6], p=[0.5, 0.3, 0.2])))
        parts += [10 ** (rng.uniform(-12, 0) / 20) * burst, pause]
    return np.concatenate(parts)[: 20 * RATE]


def heard(voice, rt60, drr, rate=RATE):
    """Return a voice with a tail of noise that falls by 60 dB in `rt60` seconds."""
    rng = np.random.default_rng(1)
    time = np.arange(int(1.2 * rt60 * rate)) / rate
    tail = rng.standard_normal(len(time)) * 10 ** (-3 * time / rt60)
    tail[: rate // 400] = 0
    tail *= 10 ** (-drr / 20) / np.sqrt(np.sum(tail**2))
    tail[0] = 1
    size = 1 << int(np.ceil(np.log2(len(voice) + len(tail))))
    sound = np.fft.irfft(np.fft.rfft(voice, size) * np.fft.rfft(tail, size), size)[: len(voice)]
    hiss = 10 ** (-60 / 20) * voice.std() * rng.standard_normal(len(voice))
    return (0.1 * (sound + hiss)).astype(np.float32)


@pytest.mark.parametrize("rt60", [0.25, 0.5, 0.9])
def test_the_reverberation_time_is_near_the_truth(voice, rt60):
    found = estimate_room(heard(voice, rt60, 0.0), RATE)
    assert found.reason is None and found.rt60.low < found.rt60.value < found.rt60.high
    # Bursts of noise fall faster than speech, so that short times come out too short.
    assert 0.55 < found.rt60.value / rt60 < 1.5
    assert list(found.bands) == list(room.BANDS)
    assert all(0.4 < each.value / rt60 < 1.7 for each in found.bands.values() if each)


def test_more_echo_is_more_of_both(voice):
    times = [estimate_room(heard(voice, rt60, 0.0), RATE).rt60.value for rt60 in (0.2, 0.4, 0.8)]
    assert times == sorted(times) and times[2] > 2 * times[0]
    near, far = (estimate_room(heard(voice, 0.5, drr), RATE).drr for drr in (12.0, -6.0))
    assert near.value > far.value + 6 and near.low < 12 < near.high and far.low < -6 < far.high


def test_the_offset_of_a_band_makes_its_time_longer(voice, monkeypatch):
    sound = heard(voice, 0.5, 0.0)
    before = estimate_room(sound, RATE).bands
    monkeypatch.setattr(room, "OFFSETS", [offset + 0.1 for offset in room.OFFSETS])
    for band, longer in estimate_room(sound, RATE).bands.items():
        assert longer.value == pytest.approx(np.exp(0.1) * before[band].value)


def test_level_channels_and_blocks_do_not_matter(voice):
    sound = heard(voice, 0.4, 3.0)
    found = estimate_room(sound, RATE)
    assert estimate_room(0.01 * sound, RATE).rt60 == pytest.approx(found.rt60, rel=1e-3)
    both = np.stack([sound, 0 * sound], axis=1)
    assert estimate_room(both, RATE).rt60 == pytest.approx(found.rt60, rel=1e-3)
    meter = RoomMeter(RATE)
    for start in range(0, len(sound), 7919):
        meter.add(sound[start : start + 7919, None])
    assert meter.estimate() == found


def test_long_recordings_are_estimated_in_pieces(voice):
    sound = heard(voice, 0.4, 3.0)
    meter = RoomMeter(RATE)
    while not meter.full:
        meter.add(sound[:, None])
        assert sum(each.nbytes for each in meter._powers) < 1e6
    assert meter.samples == room.LONGEST * RATE
    assert meter.estimate().rt60.value == pytest.approx(
        estimate_room(sound, RATE).rt60.value, rel=0.1
    )


@pytest.mark.parametrize("rate", [8000, 44100])
def test_other_rates_say_the_same(voice, rate):
    from alphamf.audio.resample import resample

    sound = heard(voice, 0.5, 0.0)
    found = estimate_room(resample(sound, RATE, rate), rate)
    assert found.rt60.value == pytest.approx(estimate_room(sound, RATE).rt60.value, rel=0.05)
    assert max(found.bands) == (2000 if rate == 8000 else 4000)


def test_a_dry_recording_has_a_short_time_and_a_high_ratio():
    sound, rate = soundfile.read(DATA / "sample-clean.wav", dtype="float32")
    found = estimate_room(sound, rate)
    assert found.rt60.value < 0.2 and found.drr.value > 10


def test_what_cannot_be_known_has_a_reason(voice):
    rng = np.random.default_rng(2)
    sound = heard(voice, 0.5, 0.0)
    for audio, reason in (
        (sound[: 2 * RATE], "the recording is shorter than 3 s"),
        (0.1 * rng.standard_normal(10 * RATE).astype(np.float32), "too much noise"),
        (np.zeros(10 * RATE, np.float32), "no speech"),
        (np.full(10 * RATE, 0.5, np.float32), "no speech"),
    ):
        found = estimate_room(audio, RATE)
        assert reason in found.reason and found.rt60 is None and found.drr is None
        assert not any(found.bands.values())
    assert "4000 Hz, is too low" in estimate_room(sound, 4000).reason
    # With so much noise the interval says so, or there is none.
    noisy = sound + 2 * sound.std() * rng.standard_normal(len(sound)).astype(np.float32)
    known = estimate_room(noisy, RATE).rt60
    assert known is None or known.high / known.low > 2
