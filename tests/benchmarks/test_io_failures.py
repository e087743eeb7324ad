"""Calls to the system that fail: a part of what `benchmarks.attacks.io_failures` tries."""

import io
import shutil
import subprocess
import sys

import numpy as np
import pytest
import soundfile

from alphamf.audio import file_pieces
from alphamf.audio.writer import open_writer
from alphamf.errors import AlphaMFError
from tests.support.places import ROOT


@pytest.mark.parametrize("form", ["WAV", "FLAC", "OGG", "MP3"])
@pytest.mark.parametrize("what", ["write", "seek"])
def test_one_call_that_fails_is_enough(tmp_path, monkeypatch, form, what):
    """Libsndfile goes on after it, and some of its encoders say nothing."""
    calls = []

    class Failing(io.FileIO):
        def fail_once(self, name):
            calls.append(name)
            if calls.count(what) == 2 and name == what:
                raise OSError(5, "Input/output error")

        def write(self, data):
            self.fail_once("write")
            return super().write(data)

        def seek(self, *place):
            self.fail_once("seek")
            return super().seek(*place)

    class FailingSink(file_pieces.Sink, Failing):
        pass

    monkeypatch.setattr("alphamf.audio.writer.Sink", FailingSink)
    subtype = soundfile.default_subtype(form)
    block = np.full((20000, 1), 0.1, np.float32)
    with (
        pytest.raises(AlphaMFError, match="cannot be written: Input/output error"),
        open_writer(tmp_path / "x", 8000, 1, format=form, subtype=subtype) as writer,
    ):
        writer.write(block)
    assert calls.count(what) >= 2 and not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "linux" or not shutil.which("cc"), reason="needs Linux and a C compiler"
)
@pytest.mark.parametrize(("name", "every"), [("denoise", 11), ("train", 11), ("adapt", 80)])
def test_a_call_that_fails_loses_nothing(name, every):
    if name == "adapt":
        pytest.importorskip("torch", reason="training needs PyTorch: pip install 'alphamf[learn]'")
    asked = ["--only", name, "--first", "5", "--every", str(every)]
    command = [sys.executable, "-m", "benchmarks.attacks.io_failures", *asked]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert not result.returncode, result.stdout + result.stderr
