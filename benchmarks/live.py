"""Measure ``alphamf live`` between two devices of a sound server of its own.

For example::

    python -m benchmarks.live --seconds 60

A PulseAudio is started with two devices that play into nothing: speech in noise of
``benchmarks.front_clips`` is played on one, ``alphamf live`` listens to what that gets, and plays
on the other. Both are recorded by the same clock and compared, piece by piece: how late the speech
is, SI-SDR, what was lost, and the processor time. It needs Linux with PulseAudio, its tools,
PortAudio and ALSA's plugin for PulseAudio (Debian: pulseaudio pulseaudio-utils libportaudio2
libasound2-plugins).
"""

from __future__ import annotations

import argparse
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
from alphamf.evaluation.score import si_sdr
from alphamf.tools import tables
from alphamf.tools.arrays import Floats
from benchmarks.front_clips import clips
from benchmarks.kills import INTERRUPTIBLE

PROGRAMS = ("pulseaudio", "pactl", "paplay", "parec")
RATE = 48000
PIECE = 0.5
"""Seconds of a piece of the sound that is compared by itself."""

MICROPHONE, HEADPHONES = "microphone", "headphones"
"""The two devices."""


class Server:
    """A PulseAudio with two devices, for a `with` block.

    Parameters
    ----------
    folder
        Where it keeps its socket and its settings.

    Attributes
    ----------
    environment
        In which programs find it: what they listen to is played on the microphone, and what they
        play is heard on the headphones.
    """

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

    def __enter__(self) -> Server:
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

    def record(self, device: str) -> Recording:
        """Return a recording that starts of what is played on a device."""
        return Recording(device, self.environment)


class Recording:
    """What is played on a device, with the time of its first sample, for a `with` block.

    Parameters
    ----------
    device
        The device.
    environment
        Of the server.
    """

    def __init__(self, device: str, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            ["parec", f"--device={device}.monitor", "--format=float32le", "--channels=1",
             f"--rate={RATE}", "--latency-msec=5"],
            env=environment, stdout=subprocess.PIPE,
        )  # fmt: skip
        self._parts: list[tuple[float, bytes]] = []
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Recording:
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

        A part comes after its last sample, sometimes long after; of all that the parts say of the
        first sample, the earliest is taken.
        """
        ends = np.cumsum([len(part) for _, part in self._parts]) / 4 / RATE
        start = min(when - end for (when, _), end in zip(self._parts, ends, strict=True))
        data = b"".join(part for _, part in self._parts)
        return float(start), np.frombuffer(data[: len(data) // 4 * 4], "<f4").astype(np.float32)


class Result(NamedTuple):
    """What a run found.

    Attributes
    ----------
    late
        Of each piece of the sound, how late it is in the output, in seconds.
    before, after
        SI-SDR of the pieces, in dB.
    printed
        What the command printed.
    cpu
        Its processor time and the players', in seconds.
    """

    late: Floats
    before: Floats
    after: Floats
    printed: str
    cpu: float


def lag(sound: Floats, within: Floats) -> int:
    """Return where a sound begins in another, in samples, by their cross-correlation."""
    size = 1 << (len(sound) + len(within)).bit_length()
    found = np.fft.irfft(np.fft.rfft(within, size) * np.fft.rfft(sound, size).conj(), size)
    at = int(found.argmax())
    return at if at < size // 2 else at - size


def run(server: Server, noisy: Floats, clean: Floats, *options: str) -> Result:
    """Play a sound through ``alphamf live``.

    Parameters
    ----------
    server
        The devices.
    noisy, clean
        What is played, and the speech in it, shape (samples,), at `RATE`.
    options
        More options of the command.
    """
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
    return Result(*compared(noisy, clean, played.sound(), heard.sound()), printed, cpu)


def compared(
    noisy: Floats, clean: Floats, played: tuple[float, Floats], heard: tuple[float, Floats]
) -> tuple[Floats, Floats, Floats]:
    """Return how late each piece is, and SI-SDR before and after."""
    (began, given), (started, got) = played, heard
    size = round(PIECE * RATE)
    rows = []
    for start in range(0, len(clean) - size + 1, size):
        piece, speech = noisy[start : start + size], clean[start : start + size]
        here = lag(piece, given)
        about = here + round((began - started) * RATE)
        after = got[max(about, 0) : about + size + RATE]
        there = lag(speech, after)
        cut = after[there : there + size]
        if there >= 0 and len(cut) == size and speech.any():
            score = si_sdr(speech, piece), si_sdr(speech, cut)
            rows.append([(there - min(about, 0)) / RATE, *score])
    late, before, found = np.array(rows, np.float32).reshape(-1, 3).T
    return late, before, found


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.live",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--buffer", default="40", help="as of the command")
    asked = parser.parse_args()
    if missing := [program for program in PROGRAMS if not shutil.which(program)]:
        parser.error(f"{', '.join(missing)} not found")
    pairs = clips(16000, 20)
    noisy, clean = (
        resample(np.concatenate([getattr(clip, name) for clip in pairs]), 16000, RATE)
        for name in ("noisy", "clean")
    )
    most = int(asked.seconds * RATE)
    with tempfile.TemporaryDirectory() as folder, Server(Path(folder)) as server:
        found = run(server, noisy[:most], clean[:most], "--buffer", asked.buffer)
    print(found.printed)
    with Stream(RATE, 1, latency="low") as stream:
        alone = np.concatenate([stream.process(noisy[:most]), stream.flush()[:, 0]])
    offline = compared(noisy[:most], clean[:most], (0.0, noisy[:most]), (0.0, alone))
    ms, gains = 1000 * found.late, found.after - found.before
    alone_gains = offline[2] - offline[1]
    row = [
        f"{len(noisy[:most]) / RATE:.0f}",
        f"{np.median(ms):.0f}",
        f"{ms.min():.0f} to {ms.max():.0f}",
        *(f"{g.mean():.2f} ± {g.std(ddof=1) / len(g) ** 0.5:.2f}" for g in (gains, alone_gains)),
        f"{found.cpu:.1f}",
    ]
    print(
        tables.markdown(
            ["seconds", "late ms", "from, to", "SI-SDR gain dB", "stream alone", "CPU s"], [row]
        )
    )


if __name__ == "__main__":
    main()
