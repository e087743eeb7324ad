"""Work on a stranger's file grows no faster than the file, and a decoder that hangs is ended."""

import io
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pytest
import soundfile
from typer.testing import CliRunner

from alphamf.audio.decoder import sandbox
from alphamf.audio.decoder.client import open_confined
from alphamf.audio.reader import open_reader
from alphamf.cli.app import app
from alphamf.errors import AlphaMFError
from benchmarks.attacks.parsers import PARSERS
from tests.support.commands import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts what Linux counts")
UNIT = 20_000
RNG = np.random.default_rng(0)


def encoded(form: str, frames: int = 4000) -> bytes:
    buffer = io.BytesIO()
    soundfile.write(buffer, 0.1 * np.sin(np.arange(frames) ** 1.3), 8000, format=form)
    return buffer.getvalue()


MP3, WAV, FLAC = encoded("MP3"), encoded("WAV"), encoded("FLAC", 16)
EBML = b"\x1a\x45\xdf\xa3"
MKA = EBML + b"\x8b\x42\x82\x88matroska" + b"\x18\x53\x80\x67\x01" + b"\xff" * 7
GARBAGE = {
    "FF behind MP3": lambda n: MP3 + b"\xff" * n,
    "heads of frames behind MP3": lambda n: MP3 + b"\xff\xfb\x90\x00" * (n // 4),
    "pairs of frames and junk": lambda n: (MP3[-144:] + b"junk") * (n // 148),
    "noise behind MP3": lambda n: MP3 + RNG.bytes(n),
    "zeros behind MP3": lambda n: MP3 + bytes(n),
    "fLaC again and again": lambda n: FLAC + b"fLaC" * (n // 4),
    "joined FLAC": lambda n: FLAC * (n // len(FLAC)),
    "magic numbers of Matroska": lambda n: MKA + EBML * (n // 4),
    "small chunks behind WAV": lambda n: WAV + b"abcd\0\0\0\0" * (n // 8),
    "small chunks before the samples": lambda n: WAV[:36] + b"abcd\0\0\0\0" * (n // 8) + WAV[36:],
    "OggS again and again": lambda n: encoded("OGG") + b"OggS" * (n // 4),
    "small atoms of MP4": lambda n: struct.pack(">I4s", 8, b"free") * (n // 8),
    "AMR of one byte": lambda n: b"#!AMR\n" + b"\x7f" * n,
}
"""Files by their size in bytes."""


def spent(path: Path) -> tuple[int, float]:
    """Return the bytes that were read to open a file in this process, and the seconds."""

    def count() -> int:
        return int(Path("/proc/self/io").read_text().split()[1])

    before, begun = count(), time.process_time()
    with suppress(AlphaMFError), open_reader(path) as reader:
        assert reader.frames
    return count() - before, time.process_time() - begun


@pytest.mark.parametrize("kind", GARBAGE)
def test_work_grows_no_faster_than_the_file(tmp_path, monkeypatch, capfd, kind):
    """Bytes are counted and bound by the size; the time of four times the size by 10 times."""
    monkeypatch.setenv(sandbox.VARIABLE, "off")
    path = tmp_path / "a"
    found = []
    for size in (UNIT, UNIT, 2 * UNIT, 4 * UNIT):  # the first imports what is needed
        path.write_bytes(data := GARBAGE[kind](size))
        read, seconds = spent(path)
        found.append(seconds)
        parts = len(data) / len(FLAC) if kind == "joined FLAC" else 1
        assert read < 20 * len(data) + 2_000_000 + 200_000 * parts, (kind, size, read)
    assert found[3] < 10 * found[1] + 0.3, (kind, found)


COMMANDS = {
    "info": "info noisy/a.wav",
    "mix": "mix clean --noise noisy -o out --snr 0 --overwrite -q",
    "evaluate": "evaluate --clean clean --noisy noisy --method noisy --jobs 1 -o out",
}
"""Commands that read all of a recording and do little with it."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_takes_more_than_linear_time_and_memory(empty, monkeypatch, name):
    """Of three more units of garbage: 10 times the time, and 15 bytes per byte of the file."""
    monkeypatch.setenv(sandbox.VARIABLE, "off")
    unit, codes = 5 * UNIT, set()
    for kind, garbage in GARBAGE.items():
        seconds, most = [], []
        for size in (unit, unit, 4 * unit):  # the first imports what is needed
            shutil.rmtree("out", ignore_errors=True)
            for place in ("clean", "noisy"):
                Path(place).mkdir(exist_ok=True)
                Path(place, "a.wav").write_bytes(garbage(size))
            Path("/proc/self/clear_refs").write_text("5")
            begun = time.process_time()
            done = CliRunner().invoke(app, COMMANDS[name].split())
            seconds.append(time.process_time() - begun)
            assert done.exit_code in (0, 2), (kind, done.output)
            codes.add(done.exit_code)
            status = Path("/proc/self/status").read_text()
            most.append(1024 * int(status.partition("VmHWM:")[2].split()[0]))
        more = (most[2] - most[1]) / (3 * unit)
        print(f"| {name} | {kind} | {seconds[1]:.2f} | {seconds[2]:.2f} | {more:.1f} |")  # -s
        assert seconds[2] < 10 * seconds[1] + 0.5, (kind, seconds)
        parts = 3 * unit / len(FLAC) if kind == "joined FLAC" else 0  # a part takes 2 kB here
        assert most[2] - most[1] < 15 * 3 * unit + 6_000_000 + 6000 * parts, (kind, most)
    assert codes == {0, 2}  # some of these files are read, by every command


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of zipfile and numpy
@pytest.mark.parametrize("name", PARSERS)
def test_parsers_take_no_more_than_linear_time(tmp_path, name):
    """Of what each accepts, followed by its last bytes again and again."""
    parse, seeds = PARSERS[name]
    seed = min(seeds(), key=len)
    found = []
    for size in (0, UNIT // 4, UNIT):
        data = seed + (seed[-16:] * (size // 16 + 1))[:size]
        begun = time.process_time()
        with suppress(AlphaMFError, AssertionError):  # of a result; that is another test's
            parse(data, tmp_path)
        found.append(time.process_time() - begun)
    assert found[2] < 10 * found[1] + 0.5, (name, found)


# Decoders that hang ------------------------------------------------------------------------------


def decoders() -> list[psutil.Process]:
    """Return the processes that the helper of this process has forked."""
    running = [it for it in psutil.Process().children() if it.status() != psutil.STATUS_ZOMBIE]
    ours = [it for it in running if sandbox._START in it.cmdline()]
    return [it for process in ours for it in process.children()]


@pytest.fixture
def wav(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(80000), 16000)
    return tmp_path / "a.wav"


def test_a_decoder_that_hangs_costs_one_sentence_and_is_killed(wav, monkeypatch):
    monkeypatch.setattr(sandbox, "PATIENCE", 0.02)
    monkeypatch.setattr(sandbox, "_TICK", 0.1)
    with open_confined(wav, "a.wav", None) as file:
        (process,) = decoders()
        process.suspend()
        with pytest.raises(AlphaMFError, match=r"^a\.wav cannot be decoded: the decoder took more"):
            file.read(9)
        until(lambda: not process.is_running())
    assert not decoders()


def test_no_decoder_outlives_its_connection_or_its_helper(wav):
    with open_confined(wav, "a.wav", None):
        (process,) = decoders()
        process.suspend()
    until(lambda: not process.is_running())
    with open_confined(wav, "a.wav", None) as file:
        (process,) = decoders()
        process.parent().kill()
        until(lambda: not process.is_running())
        with pytest.raises(AlphaMFError, match="the decoder crashed"):
            file.read(9)
    for _ in range(3):  # the next one starts another helper, and leaves no zombie
        with open_reader(wav) as reader:
            assert reader.frames == 80000
    zombies = [it for it in psutil.Process().children() if it.status() == psutil.STATUS_ZOMBIE]
    assert not zombies


def test_no_decoder_outlives_a_command_that_is_killed(wav):
    code = (
        "import sys, time; from pathlib import Path; "
        "from alphamf.audio.decoder.client import open_confined; "
        "file = open_confined(Path(sys.argv[1]), 'a', None); print(file.frames, flush=True); "
        "time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, wav], stdout=subprocess.PIPE) as command:
        assert command.stdout is not None and command.stdout.readline() == b"80000\n"
        family = psutil.Process(command.pid).children(recursive=True)
        for process in family:
            if process.parent().pid != command.pid:
                process.suspend()
        command.send_signal(signal.SIGKILL)
    assert len(family) == 2
    until(lambda: not any(process.is_running() for process in family))


def test_a_decoder_has_nothing_of_the_caller(wav, monkeypatch):
    """No variables but those of the loader, and no descriptors, above the soft limit either."""
    import resource

    monkeypatch.setenv("SECRET", "sesame")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 300:
        pytest.skip("descriptors cannot be as high")
    with open(os.devnull) as kept:
        high = os.dup2(kept.fileno(), 290)
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
        try:
            sandbox._disconnect()
            with open_confined(wav, "a.wav", None):
                (process,) = decoders()
                assert "SECRET" not in process.environ()
                numbers = set(map(int, os.listdir(f"/proc/{process.pid}/fd")))
                assert numbers == {0, 1, 2, 3, 4}
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            os.close(high)
