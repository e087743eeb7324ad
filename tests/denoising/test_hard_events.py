"""Low latency after tones, hum, clicks, steps and the like: the voice is back within a second."""

import io
import json
import logging
from functools import cache

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from alphamf import PRESETS, Stream
from alphamf.audio.resample import resample
from alphamf.cli import live
from alphamf.live.duplex import LostSound
from alphamf.live.monitor import Monitor
from tests.support.commands import in_a_process
from tests.support.hard_events import EVENTS, by_second
from tests.support.places import DATA

RATE = 8000
SECONDS = 12
"""Length of an event."""

LOSS = 1.0
"""Most dB that the mean SI-SDR after the first second is below that of a fresh start; over three
seconds of voice twice as many."""


def voice(name="noisy"):
    sound, rate = soundfile.read(DATA / f"sample-{name}.wav", dtype="float32")
    return resample(sound, rate, RATE)


def denoised(*sounds, rate=RATE):
    with Stream(rate, 1, latency="low") as stream:
        return np.concatenate([*(stream.process(each) for each in sounds), stream.flush()])


@cache
def fresh_voice(samples):
    return denoised(voice()[:samples])


def loss(before, samples=None):
    """Return by how many dB a voice is worse after some sound, from its second second on."""
    clean, noisy = voice("clean")[:samples], voice()[:samples]
    own, fresh = denoised(before, noisy)[len(before) :], fresh_voice(samples)
    assert np.isfinite(own).all()
    seconds = [by_second(clean, each, RATE)[1:] for each in (own, fresh)]
    return np.nanmean(seconds[1]) - np.nanmean(seconds[0])


def happening(event, level=1.0, seconds=SECONDS):
    noisy = np.resize(voice(), seconds * RATE) * np.float32(level)
    rng = np.random.default_rng(0)
    return EVENTS[event](noisy, RATE, rng).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("event", EVENTS)
def test_a_voice_is_back_within_a_second(event):
    assert loss(happening(event)) < LOSS


@pytest.mark.parametrize("event", ["DC", "sample of 1e6", "60 dB louder"])
def test_a_voice_is_back_within_a_second_after_a_short_event(event):
    assert loss(happening(event, seconds=3), 3 * RATE) < 2 * LOSS


@pytest.mark.parametrize("channels", [1, 2])
def test_bursts_near_the_end_of_single_precision_leave_finite_sound(channels):
    sound = np.stack([happening("bursts of 1e30", seconds=3)] * channels, axis=1)
    stream = Stream(RATE, channels, latency="low")
    out = np.concatenate([stream.process(sound), stream.flush()])
    assert np.isfinite(out).all()


PIECES = st.lists(
    st.tuples(
        st.sampled_from(["noise", "constant", "sample", "tone"]),
        st.floats(width=32, allow_nan=False, allow_infinity=False),
        st.integers(1, 3000),
    ),
    min_size=1,
    max_size=5,
)


def sound_of(kind, size, count):
    time = np.arange(count)
    if kind == "noise":
        unit = np.random.default_rng(count).uniform(-1, 1, count)
    elif kind == "tone":
        unit = np.sin(0.3 * time)
    else:
        unit = (time == 0) if kind == "sample" else np.ones(count)
    return (unit * size).astype(np.float32)


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(PIECES)
def test_after_any_finite_sound_speech_recovers(pieces):
    before = np.concatenate([sound_of(*piece) for piece in pieces])
    # Samples of 1e12 and more may take the stream three seconds, not one.
    lead, last = voice()[: 4 * RATE], slice(-3 * RATE, None)
    clean, noisy = voice("clean")[: 3 * RATE], voice()[: 3 * RATE]
    out = denoised(before, lead, noisy)
    assert np.isfinite(out).all()
    own, wanted = (by_second(clean, each, RATE) for each in (out[last], fresh_voice(3 * RATE)))
    assert np.nanmean(own) > np.nanmean(wanted) - 2 * LOSS


@pytest.mark.parametrize("size", [1e12, 1e20])
def test_an_enormous_sample_is_forgotten(size):
    """Its frames have rounding errors of 1e5 beside it, which no network may read."""
    lead, noisy, clean = voice()[: 4 * RATE], voice()[: 3 * RATE], voice("clean")[: 3 * RATE]
    out = denoised(sound_of("sample", size, 576), lead, noisy)[-3 * RATE :]
    own, wanted = (by_second(clean, each, RATE) for each in (out, fresh_voice(3 * RATE)))
    assert (own > wanted - 2 * LOSS).all()


ANEW = "low-latency processing was reset because its state was no longer finite"


def engine_of(stream):
    return stream._denoiser._engine


def poisoned(state, rng, count, end):
    """Return the saved state of an engine with NaN in place of some numbers of its chain."""
    numbers = np.frombuffer(bytearray(state), np.float32).copy()
    size = np.abs(numbers)
    likely = np.flatnonzero((size > 1e-6) & (size < 1e6))
    likely = likely[(likely >= 1184) & (likely < end)]  # before, sound; after, the networks
    numbers[rng.choice(likely, count, replace=False)] = np.nan
    return numbers.tobytes()


def test_a_state_that_is_not_finite_starts_anew_and_says_so_once(caplog):
    noisy, rng = voice()[: 3 * RATE], np.random.default_rng(0)
    stream, alone = (Stream(RATE, 1, PRESETS[name], latency="low") for name in ("fast", "plain"))
    end = len(engine_of(alone).__getstate__()[1]) // 4
    parts, notes = [], []
    with caplog.at_level(logging.WARNING):
        for part in np.array_split(noisy, 12):
            for segment in stream.segments(part):
                parts.append(segment.audio)
                notes.append(segment.note)
            given, state = engine_of(stream).__getstate__()
            engine_of(stream).__setstate__((given, poisoned(state, rng, 3000, end)))
    out = np.concatenate([*parts, stream.flush()])
    assert np.isfinite(out).all()
    sentences = [record.getMessage() for record in caplog.records]
    assert sentences == [ANEW]
    assert [note for note in notes if note] == sentences
    assert np.abs(out[-RATE // 2 :]).max() > 0.01


def with_burst():
    sound = voice()[:RATE].copy()
    sound[RATE // 4] = 1e30
    return sound


def said_by_file(folder):
    soundfile.write(folder / "a.wav", with_burst(), RATE, subtype="FLOAT")
    words = ["denoise", "a.wav", "-o", "b.wav", "--latency", "low", "--json"]
    return json.loads(in_a_process(folder, *words).stdout)["note"]


def said_by_pipe(folder):
    words = ["denoise", "-", "-o", "-", "--latency", "low", "--raw", f"{RATE}:1:f32"]
    return in_a_process(folder, *words, input=with_burst().astype("<f4").tobytes()).stderr.decode()


def said_live(folder):
    monitor = Monitor(Stream(RATE, 1, latency="low"))
    monitor.process(with_burst()[:, None])
    lost = LostSound()
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(live.panel(monitor, lost, keys=False))
    assert LARGE in live.line(monitor, lost)
    return console.export_text()


LARGE = "low-latency processing was reset because samples were too large to be sound"


@pytest.mark.parametrize("said", [said_by_file, said_by_pipe, said_live])
def test_a_state_that_starts_anew_is_said_once(said, tmp_path):
    assert said(tmp_path).count(LARGE) == 1
