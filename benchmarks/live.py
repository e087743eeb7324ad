"""Measure ``alphamf live`` between two virtual devices of a separate sound server.

For example::

    python -m benchmarks.live --seconds 60

PulseAudio is started with two virtual devices. Speech in stationary noise, from
``benchmarks.clips``, is played on one; ``alphamf live`` records it there, and plays on the other.
Both devices are recorded with the same clock and compared, piece by piece: delay of the speech,
SI-SDR, and the processor time. This needs Linux with PulseAudio, its tools, PortAudio and ALSA's
plugin for PulseAudio (Debian: pulseaudio pulseaudio-utils libportaudio2 libasound2-plugins).
"""

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile

from alphamf import Stream
from alphamf.audio.resample import resample
from alphamf.errors import AlphaMFError
from alphamf.scores.score import si_sdr
from alphamf.tools.arrays import Floats
from benchmarks.attacks.commands import INTERRUPTIBLE
from benchmarks.clips import clips
from benchmarks.latency import lag
from benchmarks.report import run_main

PROGRAMS = ("pulseaudio", "pactl", "paplay", "parec")
RATE = 48000
PIECE = 0.5  # Length in seconds of the pieces of the sound that are compared
MICROPHONE, HEADPHONES = "microphone", "headphones"  # The two devices


class Server:
    """PulseAudio with two devices, as a context manager; programs find it by `environment`."""

    def __init__(self, folder: Path) -> None:
        (folder / "run").mkdir(mode=0o700)
        self.environment: dict[str, str] = {
            **os.environ,
            "HOME": str(folder),
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "PULSE_SOURCE": f"{MICROPHONE}.monitor",
            "PULSE_SINK": HEADPHONES,
        }
        self.environment.pop("PULSE_SERVER", None)
        self._stack = ExitStack()

    def __enter__(self) -> "Server":
        sinks = [
            f"module-null-sink sink_name={n} rate={RATE} norewinds=1"
            for n in (MICROPHONE, HEADPHONES)
        ]
        loads = [f"--load={module}" for module in ["module-native-protocol-unix", *sinks]]
        with ExitStack() as stack:
            server = stack.enter_context(
                subprocess.Popen(
                    ["pulseaudio", "--daemonize=no", "--exit-idle-time=-1", "-n", *loads],
                    env=self.environment,
                    stderr=subprocess.DEVNULL,
                )
            )
            stack.callback(server.terminate)
            deadline = time.monotonic() + 20
            while self._run("pactl", "info").returncode:
                if server.poll() is not None or time.monotonic() > deadline:
                    raise OSError("PulseAudio does not start")
                time.sleep(0.1)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _run(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(words, env=self.environment, capture_output=True, check=False)

    def play(self, file: Path) -> None:
        """Play a file on the microphone, to its end."""
        self._run("paplay", f"--device={MICROPHONE}", str(file)).check_returncode()

    def record(self, device: str) -> "Recording":
        """Return a recording of what is played on a device, to be used as a context manager."""
        return Recording(device, self.environment)


class Recording:
    """Recording of what is played on a device inside a `with` block, with its start time."""

    def __init__(self, device: str, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            ["parec", f"--device={device}.monitor", "--format=float32le", "--channels=1",
             f"--rate={RATE}", "--latency-msec=5"],
            env=environment, stdout=subprocess.PIPE,
        )  # fmt: skip
        self._parts: list[tuple[float, bytes]] = []
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> "Recording":
        self._thread.start()
        return self

    def _read(self) -> None:
        pipe = self._process.stdout
        assert pipe is not None
        while part := os.read(pipe.fileno(), 1 << 16):
            self._parts.append((time.monotonic(), part))

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._thread.join()
        self._process.communicate()

    def sound(self) -> tuple[float, Floats]:
        """Return the time of the first sample in seconds, and the samples, shape (samples,).

        A part arrives after its last sample was played, sometimes long after. Each part gives a
        time of the first sample; the earliest is returned.
        """
        ends = np.cumsum([len(part) for _, part in self._parts]) / 4 / RATE
        start = min(when - end for (when, _), end in zip(self._parts, ends, strict=True))
        data = b"".join(part for _, part in self._parts)
        return float(start), np.frombuffer(data[: len(data) // 4 * 4], "<f4").astype(np.float32)


class Compared(NamedTuple):
    """Delay and SI-SDR of the recorded sound, shape (pieces,), and the gain in SI-SDR."""

    late: Floats  # Delay of each piece in seconds
    # SI-SDR of each piece in dB; `gain`: increase of SI-SDR for all pieces together.
    before: Floats
    after: Floats
    gain: float


class Result(NamedTuple):
    """Comparison, messages of the command, and CPU time of all processes in seconds."""

    found: Compared
    printed: str
    cpu: float


def run(server: Server, noisy: Floats, clean: Floats, *options: str) -> Result:
    """Play a sound through ``alphamf live``, and compare the recordings of both devices."""
    start = f"{INTERRUPTIBLE}; from alphamf.cli.app import main; main()"
    words = [sys.executable, "-c", start, "live", "--input", "pulse", "--output", "pulse"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "noisy.wav"
        soundfile.write(file, noisy, RATE, "FLOAT")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with subprocess.Popen(
            [*words, "--rate", str(RATE), *options],
            env=server.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        ) as command:  # fmt: skip
            assert command.stdout is not None
            first = [command.stdout.readline(), command.stdout.readline()]
            time.sleep(3)  # PulseAudio's devices start late
            with server.record(MICROPHONE) as played, server.record(HEADPHONES) as heard:
                time.sleep(1)
                server.play(file)
                time.sleep(1)
            command.send_signal(signal.SIGINT)
            printed = "".join(first) + command.communicate(timeout=60)[0]
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Result(compared(noisy, clean, played.sound(), heard.sound()), printed, cpu)


def compared(
    noisy: Floats, clean: Floats, played: tuple[float, Floats], heard: tuple[float, Floats]
) -> Compared:
    """Compare the recordings of both devices with the sound, piece by piece."""
    (began, given), (started, got) = played, heard
    size = round(PIECE * RATE)
    first = lag(noisy, given) + round((began - started) * RATE)
    got = np.pad(got, (max(0, -first), 0))[max(0, first) :]
    rows, pieces = [], []
    for start in range(0, len(clean) - size + 1, size):
        piece, speech = noisy[start : start + size], clean[start : start + size]
        there = lag(speech, got[start : start + size + RATE])
        cut = got[start + there : start + there + size]
        if there >= 0 and len(cut) == size and speech.any() and cut.any():
            rows.append([there / RATE, si_sdr(speech, piece), si_sdr(speech, cut)])
            pieces.append([speech, piece, cut])
    late, before, after = np.array(rows, np.float32).T
    speech, piece, cut = (np.concatenate(each) for each in zip(*pieces, strict=True))
    return Compared(late, before, after, si_sdr(speech, cut) - si_sdr(speech, piece))


def main(*, seconds: float = 60, buffer: str = "40") -> list[list[str]]:
    """Play speech in noise through the command, and return the table."""
    if missing := [program for program in PROGRAMS if not shutil.which(program)]:
        raise AlphaMFError(f"{', '.join(missing)} not found")
    pairs = clips(16000, 20)[::4]
    size = int(seconds * RATE)
    noisy, clean = (
        np.resize(resample(np.concatenate([getattr(p, name) for p in pairs]), 16000, RATE), size)
        for name in ("noisy", "clean")
    )
    with tempfile.TemporaryDirectory() as folder, Server(Path(folder)) as server:
        found = run(server, noisy, clean, "--buffer", buffer)
    print(found.printed)
    with Stream(RATE, 1, latency="low") as stream:
        alone = np.concatenate([stream.process(noisy), stream.flush()])
    offline = compared(noisy, clean, (0.0, noisy), (0.0, alone))
    ms = np.quantile(1000 * found.found.late, [0.5, 0.1, 0.9])
    row = [
        f"{seconds:.0f}",
        f"{ms[0]:.0f}",
        f"{ms[1]:.0f} to {ms[2]:.0f}",
        f"{found.found.gain:.2f}",
        f"{offline.gain:.2f}",
        f"{found.cpu:.1f}",
    ]
    headings = ["seconds", "late ms", "80 % from, to", "SI-SDR gain dB", "stream alone", "CPU s"]
    return [headings, row]


if __name__ == "__main__":
    run_main(main)
