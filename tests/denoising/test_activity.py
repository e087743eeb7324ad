"""Where speech is: probabilities, stretches, the table of them, and silence cut off."""

import csv
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import soundfile
from hypothesis import example, given, settings
from hypothesis import strategies as st

from alphamf import PRESETS, Segment, denoise, speech_ranges
from alphamf.audio.resample import resample
from alphamf.audio.stft import Frame
from alphamf.batch.trim import MARGIN, Trimmer
from tests.support.commands import run
from tests.support.places import DATA

QUICK = replace(PRESETS["fast"], steps=20, keep=10)
RATE = 8000
HOP = 128


@pytest.fixture(scope="module")
def recording():
    """Two seconds of noise, three with speech, two of noise, at 8 kHz."""
    clean, rate = soundfile.read(DATA / "sample-clean.wav", dtype="float32", frames=48000)
    speech = resample(clean, rate, RATE)
    quiet = np.zeros(2 * RATE, np.float32)
    clean = np.concatenate([quiet, speech, quiet])
    noise = np.random.default_rng(0).standard_normal(len(clean)).astype(np.float32)
    return clean, clean + 0.02 * noise


def test_speech_is_where_it_is(recording):
    clean, noisy = recording
    found = denoise(noisy, RATE, QUICK)
    assert found.activity.shape == found.frame_times.shape
    assert ((found.activity >= 0) & (found.activity <= 1)).all()
    loud = np.sqrt(np.convolve(clean**2, np.ones(400) / 400, "same"))[::HOP] > 0.01
    on = found.activity[: len(loud)] >= 0.5
    assert on[loud].mean() > 0.9
    away = (found.frame_times < 1.8) | (found.frame_times > 5.2)
    assert (found.activity[away] < 0.5).mean() > 0.95
    stretches = speech_ranges(found.activity, found.frame_times)
    assert 1.5 < stretches[0].start < 2.7
    assert 4.3 < stretches[-1].end < 5.5


def test_silence_is_no_speech():
    found = denoise(np.zeros(RATE, np.float32), RATE, QUICK)
    assert not found.activity.any()
    assert speech_ranges(found.activity, found.frame_times) == []
    assert speech_ranges(np.ones(1), np.zeros(1)) == []


@given(on=st.lists(st.tuples(st.booleans(), st.integers(1, 40)), max_size=12))
@example([(True, 7), (False, 19), (True, 7)])  # the shortest that count
@settings(max_examples=100, deadline=None)
def test_stretches_cover_the_frames_of_speech(on):
    activity = np.concatenate([[0.0], *([0.9 if yes else 0.1] * n for yes, n in on), [0.1]])
    times = np.arange(len(activity)) * 0.016
    stretches = speech_ranges(activity, times)
    inside = np.zeros(len(activity), bool)
    for start, end, probability in stretches:
        assert end - start >= 0.1 - 1e-9
        here = (times >= start) & (times <= end)
        assert probability == pytest.approx(activity[here].mean())
        assert (np.diff(times[here & (activity >= 0.5)]) - 0.016 < 0.3).all()
        inside |= here
    assert all(b.start - a.end >= 0.3 - 1e-9 for a, b in pairwise(stretches))
    speech = activity >= 0.5
    for frame in np.flatnonzero(speech & ~inside):  # short speech, far from any other
        assert speech[np.abs(times - times[frame]) < 0.1 + 0.016].sum() * 0.016 < 0.1


@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=6),
    spans=st.lists(st.tuples(st.integers(0, 250), st.integers(0, 250)), max_size=3),
)
@settings(max_examples=60, deadline=None)
def test_what_is_trimmed_does_not_depend_on_the_segments(sizes, spans):
    frames = sum(sizes)
    activity = np.zeros(frames, np.float32)
    for a, b in spans:
        activity[min(a, b) : max(a, b)] = 1
    audio = np.arange(2 * frames * HOP, dtype=np.float32).reshape(-1, 2)
    with Trimmer(RATE, Frame(512, HOP)) as trimmer:
        blocks, start = [np.empty((0, 2), np.float32)], 0
        for size in sizes:
            part = slice(start, start + size)
            sound = audio[start * HOP : (start + size) * HOP]
            empty = np.empty((1, 1, size), np.float32)
            blocks += trimmer.add(Segment(sound, sound, empty, empty, [1.0], activity[part]))
            start += size
        blocks += trimmer.finish()
    stretches = speech_ranges(activity, np.arange(frames) * (HOP / RATE))
    first, last = 0, len(audio)
    if stretches:
        first = max(0, round((stretches[0].start - MARGIN) * RATE))
        last = min(last, round((stretches[-1].end + MARGIN) * RATE))
    assert (trimmer.first, trimmer.last, trimmer.found) == (first, last, bool(stretches))
    np.testing.assert_array_equal(np.concatenate(blocks), audio[first:last])


def test_what_is_searched_to_trim_does_not_grow(monkeypatch):
    counts = []

    def counted(activity, times):
        counts.append(len(activity))
        return speech_ranges(activity, times)

    monkeypatch.setattr("alphamf.batch.trim.speech_ranges", counted)
    empty, sound = np.empty((1, 1, 10), np.float32), np.zeros((10 * HOP, 1), np.float32)
    with Trimmer(RATE, Frame(512, HOP)) as trimmer:
        for k in range(60):
            activity = np.full(10, 20 <= k < 40, np.float32)
            list(trimmer.add(Segment(sound, sound, empty, empty, [1.0], activity)))
        list(trimmer.finish())
    assert max(counts) == counts[20] and trimmer.found
    assert trimmer.last - trimmer.first == pytest.approx(200 * HOP + 2 * MARGIN * RATE, abs=2)


def test_the_command(recording, empty):
    soundfile.write("in.wav", recording[1], RATE, subtype="FLOAT")
    common = ["in.wav", "--preset", "fast", "--steps", "20", "-q"]
    run("denoise", *common, "--vad", "new/speech.csv", "-o", "whole.wav")
    with open("new/speech.csv", newline="", encoding="ascii") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["start", "end", "probability"]
    assert all(0 <= float(r["start"]) < float(r["end"]) <= 7 for r in rows)
    assert all(0 < float(row["probability"]) <= 1 for row in rows)
    assert 1.5 < float(rows[0]["start"]) < 2.7
    run("denoise", *common, "--trim-silence", "-o", "cut.wav", "--noise-output", "noise.wav")
    whole, cut = (soundfile.read(name)[0] for name in ("whole.wav", "cut.wav"))
    first = round((float(rows[0]["start"]) - 0.2) * RATE)
    assert abs(len(cut) / RATE - (float(rows[-1]["end"]) - float(rows[0]["start"]) + 0.4)) < 0.01
    shift = next(k for k in range(first - 9, first + 9) if whole[k] == cut[0])
    np.testing.assert_array_equal(cut, whole[shift : shift + len(cut)])
    assert len(soundfile.read("noise.wav")[0]) == len(whole)
    end = HOP * (3 * RATE // HOP)  # amid speech, where a frame begins
    soundfile.write("in.wav", recording[1][:end], RATE, subtype="FLOAT")
    run("denoise", *common, "--vad", "short.csv", "-o", "short.wav")
    with open("short.csv", encoding="ascii") as file:
        assert float(file.read().splitlines()[-1].split(",")[1]) == round(end / RATE, 3)
    run("denoise", *common, "--vad", "speech.txt", "-o", "x.wav", code=2)
    run("denoise", *common, "--vad", "new/speech.csv", "-o", "x.wav", code=2)


def test_without_speech_nothing_is_cut_off(empty):
    soundfile.write("in.wav", np.zeros(2 * RATE), RATE)
    result = run("denoise", "in.wav", "--preset", "fast", "--steps", "4", "--trim-silence")
    assert "no speech was found, so nothing was trimmed" in result.output.replace("\n", " ")
    assert soundfile.info("in.denoised.wav").frames == 2 * RATE


def test_a_picture_would_lose_its_sound(empty):
    """Trimmed sound is written alone, and not into a container with other tracks."""
    from tests.support import claps

    claps.make(empty / "in.mp4", "mp4", claps.Sound(rate=16000))
    options = ["in.mp4", "--preset", "fast", "--steps", "2", "--trim-silence"]
    result = run("denoise", *options, code=2)
    assert "would shift the sound" in " ".join(result.output.split())
    assert not (empty / "in.denoised.mp4").exists()
