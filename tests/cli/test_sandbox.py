"""Every command that reads recordings has them decoded by a process that can open nothing else."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from benchmarks import page_server
from tests.support.claps import Sound, make
from tests.support.commands import QUICK, every_command, in_a_process, run
from tests.support.places import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="seccomp and Landlock are Linux'")

READ_HERE = b"a recording is decoded in this process"

_START = """
import os

import av, soundfile
from alphamf.audio.decoder import sandbox

def said(function, place):
    def call(*arguments, **options):
        mode = arguments[place] if len(arguments) > place else options.get("mode", "r")
        if mode != "w" and "RAW" not in [*map(str, arguments[1:]), *map(str, options.values())]:
            os.write(2, READ_HERE)
        return function(*arguments, **options)

    return call

soundfile.SoundFile.__init__ = said(soundfile.SoundFile.__init__, 2)
av.open = said(av.open, 1)
# The helper gets nothing of the environment.
sandbox._START = sandbox._START.replace("; from", "; exec(" + repr(SPOIL) + "); from", 1)
"""

CRASH = """
import ctypes
import alphamf.audio.decoder.tasks as tasks

def crash(sound, kind, number, decode=tasks._decode):
    if sound.channels == 3:
        ctypes.string_at(0)
    return decode(sound, kind, number)

tasks._decode = crash
"""
"""Recordings of three channels crash their decoder."""

NO_KERNEL = """
import alphamf.audio.decoder.confine as confine

confine._landlock = confine._seccomp = lambda libc: False
"""
"""The kernel has neither seccomp nor Landlock."""


def watched(folder: Path, spoil: str = "pass") -> dict[str, str]:
    """Return the environment of processes that say on standard error where they decode.

    The code `spoil` is run in the process that makes decoders.
    """
    folder.mkdir()
    code = _START.replace("SPOIL", ascii(spoil)).replace("READ_HERE", repr(READ_HERE + b"\n"))
    Path(folder, "sitecustomize.py").write_text(code)
    return {**os.environ, "PYTHONPATH": str(folder)}


DENOISE = ["denoise", "in", "--output-dir", "out", *QUICK[:-2]]

COMMANDS = {
    **{name: words for name, words in every_command().items() if name != "models"},
    "info -": ["info", "-"],
    "denoise -": ["denoise", "-", "-o", "out.wav", *QUICK],
    "denoise at low latency": ["denoise", "-", "-o", "-", "--latency", "low"],
    "denoise of a video": ["denoise", "clap.mp4", *QUICK],
    "denoise to MP3": ["denoise", "in/0.wav", "-o", "out.mp3", *QUICK],
    "denoise --reference": ["denoise", "in/0.wav", "--reference", "in/0.wav", *QUICK],
    "denoise --cluster": [*DENOISE, "--jobs", "1", "--cluster", "local"],
    "adapt": ["adapt", "--clean", "in", "--noise", "in", "-o", "n.npz"],
}
"""Commands by what they do."""

QUICK_ONES = "denoise", "info", "info -", "denoise at low latency", "denoise of a video", "mix"
CASES = [(name, False) for name in QUICK_ONES] + [("denoise", True)]
CASES += [
    pytest.param(name, off, marks=pytest.mark.slow)
    for name in COMMANDS
    for off in ((False, True) if name in every_command() else (False,))
    if (name, off) not in CASES
]


@pytest.mark.parametrize(("name", "off"), CASES)
def test_no_command_decodes_in_its_own_process_unless_told_to(here, name, off):
    if "cluster" in name:
        pytest.importorskip("distributed", reason="the extra cluster is not installed")
    if name == "adapt":
        pytest.importorskip("torch", reason="the extra learn is not installed")
    if "video" in name:
        make(here / "clap.mp4", "mp4", Sound())
    given = (here / "in/0.wav").read_bytes() if "-" in COMMANDS[name] else None
    words = [*COMMANDS[name], *(["--no-sandbox"] if off else [])]
    done = in_a_process(here, *words, env=watched(here / "start"), input=given)
    assert name == "adapt" or done.returncode == 0, done.stderr
    assert (READ_HERE in done.stderr) == off, done.stderr


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_decoder_that_crashes_costs_its_file_alone(here, jobs):
    soundfile.write("in/1.wav", np.full((800, 3), 0.1), 8000)
    words = [*DENOISE, "--jobs", str(jobs)]
    done = in_a_process(here, *words, env=watched(here / "start", CRASH))
    error, summary = done.stderr.splitlines()
    sentence = b"Error: in/1.wav cannot be decoded: the decoder crashed"
    assert (done.returncode, error) == (2, sentence)
    assert summary.startswith(b"2 of 3 files denoised in ")
    assert sorted(path.name for path in here.glob("out/*")) == ["0.wav", "2.wav"]


def test_info_says_what_confines_decoders(here, monkeypatch):
    for env, words, line in (
        (watched(here / "a"), [], b"seccomp and Landlock"),
        (watched(here / "b"), ["--no-sandbox"], b"off (--no-sandbox, or ALPHAMF_SANDBOX)"),
        (watched(here / "c", NO_KERNEL), [], b"none: this system has neither seccomp nor Landlock"),
    ):
        done = in_a_process(here, "info", "in/0.wav", *words, env=env)
        assert done.stdout.splitlines()[-1].split(None, 1) == [b"sandbox", line]
        assert (READ_HERE in done.stderr) == (b"seccomp and" not in line)
    monkeypatch.setenv("ALPHAMF_SANDBOX", "no")
    error = run("info", "in/0.wav", code=2).stderr
    assert error == "Error: ALPHAMF_SANDBOX must be on or off, not 'no'\n"


@pytest.mark.slow
@pytest.mark.parametrize("off", [False, True])
def test_the_page_decodes_no_upload_in_its_own_processes_unless_told_to(here, monkeypatch, off):
    pytest.importorskip("starlette", reason="the extra web is not installed")
    pytest.importorskip("uvicorn", reason="the extra web is not installed")
    monkeypatch.setenv("PYTHONPATH", watched(here / "start")["PYTHONPATH"])
    monkeypatch.chdir(ROOT)
    options = ["--jobs", "1", *(["--no-sandbox"] if off else [])]
    with page_server.running(here / "page", *options) as server:
        server.wait(server.send(here / "in/0.wav"))
        assert (READ_HERE.decode() in server.said()) == off
