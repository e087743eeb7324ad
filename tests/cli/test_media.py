"""Media files through the commands: denoise, evaluate, train, info."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import soundfile

from alphamf.audio.reader import read
from tests.support import claps
from tests.support.claps import Sound
from tests.support.commands import QUICK, run
from tests.support.places import DATA


def denoise(*arguments: object, **options):
    return run("denoise", *arguments, *QUICK, **options)


def test_an_interview_stays_in_sync_as_far_as_it_goes(empty):
    source = Path("interview.mkv")
    claps.make(source, "matroska", Sound(rate=8000), Sound(rate=8000), delay=0.3)
    denoise(source, "--track", 2, "--strength", 0.5)  # clicks are noise
    output = Path("interview.denoised.mkv")
    np.testing.assert_allclose(claps.offsets(output, 1), claps.offsets(source, 1), atol=0.01)
    for track in (0, 1):
        assert claps.packets(output, track) == claps.packets(source, track)
    assert claps.packets(output, 2) != claps.packets(source, 2)
    assert denoise(source, "--track", 3, "--overwrite", code=2).stderr == (
        "Error: interview.mkv has 2 audio tracks; --track 3 does not exist\n"
    )
    Path("cut.mkv").write_bytes(source.read_bytes()[: source.stat().st_size * 2 // 3])
    (line,) = denoise("cut.mkv", "--json", code=2).stdout.splitlines()
    assert "is truncated: " in json.loads(line)["note"]
    assert claps.packets(Path("cut.denoised.mkv"), 0) == claps.packets(Path("cut.mkv"), 0)
    assert len(os.listdir()) == 4


def test_tag_is_a_line_in_the_history(empty):
    soundfile.write("a.wav", claps.clicks(8000), 8000)
    denoise("a.wav", "--tag")
    assert b"T=denoised by alphamf " in Path("a.denoised.wav").read_bytes()
    denoise("a.wav", "--overwrite")
    assert b"alphamf" not in Path("a.denoised.wav").read_bytes()
    soundfile.write("a.au", claps.clicks(8000), 8000)
    assert "--tag is not supported for AU" in denoise("a.au", "--tag", code=2).stderr


@pytest.mark.slow
def test_the_other_commands_read_media_too(empty):
    """Speech in the mp4, as the sample's, is what `train` and `evaluate` need."""
    speech = soundfile.read(DATA / "sample-clean.wav", dtype="float32")[0][:40000, None]
    noise = 0.01 * np.random.default_rng(0).standard_normal(speech.shape).astype(np.float32)
    for folder, sound in (("clean", speech), ("noisy", speech + noise)):
        Path(folder).mkdir()
        lossless = Sound("alac", "s16p", rate=16000)
        claps.make(Path(folder, "a.m4a"), "ipod", lossless, video=None, content=sound)
    assert "M4A ALAC_16" in run("info", "clean/a.m4a").stdout
    run("evaluate", "--clean", "clean", "--noisy", "noisy", "--method", "noisy,logmmse", "-o", "ev",
        "--jobs", "1", "-q")  # fmt: skip
    assert "logmmse" in Path("ev/summary.md").read_text(encoding="utf-8")
    run("train", "clean", "-o", "m.npz", "--rank", "2", "--steps", "3", "-q")
    np.testing.assert_allclose(read("clean/a.m4a")[0], speech, atol=2e-4)
