"""A part of a recording is denoised, and the rest is copied to the bit."""

import subprocess

import numpy as np
import pytest
import soundfile

from alphamf import Segment
from alphamf.audio.reader import read
from alphamf.audio.writer import open_writer
from alphamf.batch.part import _Faded
from alphamf.cli.denoise_request import seconds
from alphamf.errors import AlphaMFError
from tests.support.commands import QUICK, in_a_process, run

RATE = 8000


pytestmark = pytest.mark.usefixtures("empty")


def write(name, length=3.0, subtype="PCM_16", channels=1):
    rng = np.random.default_rng(5)
    soundfile.write(name, rng.uniform(-0.9, 0.9, (int(length * RATE), channels)), RATE, subtype)


def exact(name):
    """Return the samples in double precision, which holds all of them."""
    return soundfile.read(name, dtype="float64", always_2d=True)[0]


def denoise(*options, code=0):
    return run("denoise", "a.wav", "-o", "b.wav", "--overwrite", *QUICK, *options, code=code)


@pytest.mark.parametrize(
    ("text", "expected"), [("75", 75), ("1:15", 75), ("0:01:15.5", 75.5), (".5", 0.5), ("2s", 2)]
)
def test_times(text, expected):
    assert seconds("start", text) == expected


@pytest.mark.parametrize("text", ["", "a", "-1", "1:", "1:2:3:4", "nan", "1e3", "9" * 400])
def test_what_is_no_time(text):
    with pytest.raises(AlphaMFError, match="`start` must be a time such as 75, 1:15"):
        seconds("start", text)


PARTS = [("1.003", "2.1"), (None, "1.5"), ("0:02", None)]
SUBTYPES = "PCM_16 PCM_24 PCM_32 PCM_U8 FLOAT DOUBLE ULAW".split()


@pytest.mark.parametrize(
    ("subtype", "start", "end"),
    [
        *(("PCM_16", *part) for part in PARTS),
        *((each, *PARTS[k % 3]) for k, each in enumerate(SUBTYPES[1:])),
    ],
)
def test_the_rest_is_copied_to_the_bit(subtype, start, end):
    write("a.wav", subtype=subtype, channels=2)
    options = [*(["--start", start] if start else []), *(["--end", end] if end else [])]
    denoise(*options)
    before, after = exact("a.wav"), exact("b.wav")
    first = round(RATE * seconds("start", start or "0"))
    last = round(RATE * seconds("end", end or "3"))
    assert after.shape == before.shape
    np.testing.assert_array_equal(after[:first], before[:first])
    np.testing.assert_array_equal(after[last:], before[last:])
    inside = slice(first + 200, last - 200)
    assert np.abs(after[inside] - before[inside]).mean() > 0.05
    changed = np.flatnonzero(np.abs(after - before).max(axis=1) > 0.01)
    assert first <= changed[0] < first + 200 and last - 200 < changed[-1] < last
    # It fades: no step at either end.
    for place in {first, last} - {0, len(before)}:
        assert np.abs((after - before)[place - 4 : place + 4]).max() < 0.1
    denoise("--strength", "0")  # as is all where nothing is to be removed
    np.testing.assert_array_equal(exact("b.wav"), before)


def test_both_fades_are_straight_and_mirror_images():
    faded, ones = _Faded(3, 4, at_start=True), np.ones((20, 1), np.float32)
    list(faded.keep([0 * ones]))
    found = faded.segment(Segment(ones, ones, ones, ones, [1.0], ones), at_end=True)
    weight = np.clip(np.minimum(np.arange(20) - 2.5, 19.5 - np.arange(20)) / 4, 0, 1)
    np.testing.assert_allclose([*found.audio.T, *found.noise.T], [weight] * 2, rtol=1e-6)
    list(faded.keep([0 * ones]))  # and the end of a segment that is shorter begins without a jump
    ones = ones[:2]
    last = faded.segment(Segment(ones, ones, ones, ones, [1.0], ones), at_end=True)
    np.testing.assert_allclose(last.audio.T, [[0.75, 0.25]])


@pytest.mark.parametrize("option", [("--start", "1"), ("--strength", "0")])
def test_media_files(option):
    with open_writer("a.m4a", RATE, 1, format="M4A", subtype="AAC") as file:
        file.write(np.random.default_rng(0).normal(0, 0.1, (3 * RATE, 1)).astype(np.float32))
    run("denoise", "a.m4a", "-o", "b.m4a", *QUICK, *option)
    before, after = (read(name)[0] for name in ("a.m4a", "b.m4a"))
    assert np.std(after[: RATE // 2] - before[: RATE // 2]) < 0.05 < np.std(before)


def test_extra_outputs_are_of_the_whole():
    write("a.wav")
    extra = ["--noise-output", "n.wav", "--uncertainty", "u.npz", "--reference", "a.wav"]
    denoise("--start", "1", "--end", "2", *extra)
    denoise("--uncertainty", "whole.npz")
    noise = exact("n.wav")
    assert not noise[:RATE].any() and not noise[2 * RATE :].any() and noise[RATE : 2 * RATE].any()
    with np.load("u.npz") as part, np.load("whole.npz") as whole:
        assert part["gain"].shape == whole["gain"].shape
        np.testing.assert_array_equal(part["frame_times"], whole["frame_times"])
        time = part["frame_times"]
        assert (part["gain"][..., time < 0.98] == 1).all()
        assert (part["gain_std"][..., time > 2.05] == 0).all()
        assert (part["gain"][..., (time > 1.1) & (time < 1.9)] < 1).any()


def test_long_parts_in_segments_are_those_of_the_part_alone():
    write("a.wav", 16)
    denoise("--start", "2", "--end", "14")
    sound, _ = soundfile.read("a.wav", dtype="int16")
    soundfile.write("part.wav", sound[2 * RATE : 14 * RATE], RATE)
    run("denoise", "part.wav", *QUICK)
    inside = slice(2 * RATE + 161, 14 * RATE - 161)
    alone = exact("part.denoised.wav")[161:-161]
    np.testing.assert_array_equal(exact("b.wav")[inside], alone)


def test_a_part_of_a_pipe():
    write("a.wav", subtype="PCM_32")
    with open("a.wav", "rb") as file:
        words = ["-", "-o", "c.wav", "--start", "1", "--end", "2", *QUICK]
        process = subprocess.Popen(["cat"], stdin=file, stdout=subprocess.PIPE)
        done = in_a_process(".", "denoise", *words, stdin=process.stdout)
        process.stdout.close()
        process.wait()
    assert done.returncode == 0, done.stderr
    denoise("--start", "1", "--end", "2")
    np.testing.assert_array_equal(exact("c.wav"), exact("b.wav"))
    denoise("--end", "9")
    assert len(exact("b.wav")) == 3 * RATE


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--start 1:00 --end 1", "--end 1 must be after --start 1:00"),
        ("--start 9", "a.wav ends at 3.00 s, which is before --start"),
        ("--start 0 --end 0.00001", "a.wav has no samples between --start and --end"),
        ("--start 1 --end 1.00001", "a.wav has no samples between --start and --end"),
        ("--end soon", "--end must be a time"),
    ],
)
def test_parts_that_are_refused(options, sentence):
    write("a.wav")
    assert denoise(*options.split(), code=2).stderr.startswith(f"Error: {sentence}")
