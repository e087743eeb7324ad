"""``alphamf live`` between devices of a stand-in, and between those of a sound server."""

import importlib.util
import io
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile

from alphamf.tools.extras import install_extra
from tests.support import sound_cards
from tests.support.commands import run, until
from tests.support.places import DATA, ROOT

posix = pytest.mark.skipif(os.name != "posix", reason="signals and terminals are POSIX")


@pytest.fixture
def desk(monkeypatch):
    monkeypatch.setitem(sys.modules, "sounddevice", sound_cards)
    monkeypatch.setattr(sound_cards, "opened", [])


def started(*words, seconds=1000, **options):
    """Start the command in a process of its own, with devices that run."""
    script = (
        f"from tests.support import sound_cards; sound_cards.run_alone({seconds})\n"
        "from alphamf.cli.app import main; main()"
    )
    return subprocess.Popen(
        [sys.executable, "-c", script, "live", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
    )


@pytest.mark.usefixtures("desk")
def test_devices_are_listed():
    text = run("live", "--list-devices").stdout
    assert "| 0 | Microphone | Core | 2 | 0 | 48000 | input |" in text
    assert "| 2 | Cable One | Virtual | 1 | 2 | 48000 |  |" in text


@pytest.mark.usefixtures("desk")
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--input", "nothing"], "there is no input device 'nothing'"),
        (["--input", "headset"], "Old headset at 48000 Hz"),
        (["--strength", "2"], "--strength must be from 0 to 1, not 2"),
        (["--channels", "0"], "--channels must be at least 1, not 0"),
        (["--buffer", "2000"], "--buffer must be from 5 to 1000 ms, not 2000"),
        (["--record", "pyproject.toml/x"], "pyproject.toml/x cannot be created: "),
    ],
)
def test_what_cannot_be_done_is_one_sentence(monkeypatch, options, sentence):
    monkeypatch.chdir(ROOT)
    done = run("live", *options, code=2)
    assert sentence in done.output and "Traceback" not in done.output
    assert not sound_cards.opened


@pytest.mark.parametrize(
    ("missing", "sentence"),
    [
        (
            ModuleNotFoundError("No module", name="sounddevice"),
            f"need sounddevice; install it with {install_extra('live')}",
        ),
        (OSError("PortAudio library not found"), "the library PortAudio, which is not installed"),
    ],
)
def test_a_missing_library_is_one_sentence(monkeypatch, missing, sentence):
    class Finder:
        def find_spec(self, name, path=None, target=None):
            if name == "sounddevice":
                raise missing

    monkeypatch.delitem(sys.modules, "sounddevice", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    assert sentence in run("live", code=2).output


@posix
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 0), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)],
)
def test_a_signal_leaves_whole_recordings(tmp_path, number, code):
    with started("--record", str(tmp_path / "a.wav"), "--rate", "16000", cwd=tmp_path) as process:
        file = tmp_path / "a.denoised.wav"
        until(lambda: file.exists() and file.stat().st_size > 20_000)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert out.splitlines()[:2] == [
        b"The devices do not support 16000 Hz; using 48000 Hz instead",
        b"Microphone to Headphones, 48000 Hz, 1 channel",
    ]
    assert b"Latency 40 ms input + 40 ms denoiser + 20 ms buffer + 40 ms output = 140 ms" in out
    assert not err
    (before, rate), (after, _) = (
        soundfile.read(tmp_path / name) for name in ("a.wav", "a.denoised.wav")
    )
    assert rate == 48000 and len(before) == len(after) > 10_000
    assert np.std(after[-2400:]) < 0.7 * np.std(before[-2400:])
    assert (b"Recorded in " in out) == (code == 0)


@posix
@pytest.mark.slow
def test_what_was_recorded_before_a_kill_can_be_read(tmp_path):
    with started("--record", str(tmp_path / "a.wav"), cwd=tmp_path) as process:
        file = tmp_path / "a.denoised.wav"
        until(lambda: file.exists() and file.stat().st_size > 20_000)
        process.kill()
        process.communicate()
    for path in tmp_path.glob("*.wav"):
        assert soundfile.info(path).frames == (path.stat().st_size - 44) // 2 > 0


@posix
def test_an_unplugged_device_is_told_and_the_recording_is_whole(tmp_path):
    with started("--record", str(tmp_path / "r"), seconds=0.5, cwd=tmp_path) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert err == b"Error: the input Microphone was disconnected or has stopped\n"
    lengths = [soundfile.info(path).frames for path in (tmp_path / "r").iterdir()]
    assert len(lengths) == 2 and lengths[0] == lengths[1] > 0


@posix
def test_keys_and_bars_in_a_terminal(tmp_path):
    import pty

    control, terminal = pty.openpty()
    terminals = dict.fromkeys(("stdin", "stdout"), terminal)
    seen = io.BytesIO()
    with started(cwd=tmp_path, **terminals) as process:
        os.close(terminal)

        def shows(text):
            seen.write(os.read(control, 65536))
            return text in seen.getvalue()

        until(lambda: shows(b"strength 1.0"))
        assert b"reduction" in seen.getvalue() and b"b bypass" in seen.getvalue()
        for keys, strength in ((b"+--", b"strength 0.8"), (12 * b"-", b"strength 0.0")):
            os.write(control, keys)
            until(lambda strength=strength: shows(strength))
        os.write(control, b"b")
        until(lambda: shows(b"   bypass   xruns"))
        os.write(control, b"q")
        until(lambda: shows(b" s denoised; xruns"))
        assert process.wait(60) == 0
    os.close(control)


def missing():
    """Return why there can be no sound server, or nothing."""
    if sys.platform != "linux" or importlib.util.find_spec("sounddevice") is None:
        return "needs Linux and the extra live"
    from benchmarks.live import PROGRAMS

    if absent := [program for program in PROGRAMS if not shutil.which(program)]:
        return f"{', '.join(absent)} not installed"
    if not any(Path("/usr/lib").glob("**/alsa-lib/libasound_module_pcm_pulse.so")):
        return "ALSA's plugin for PulseAudio is not installed"
    return ""


@pytest.fixture
def server(tmp_path):
    if why := missing():
        pytest.skip(why)
    from benchmarks.live import Server

    with Server(tmp_path) as server:
        yield server


@pytest.mark.slow
def test_between_the_devices_of_a_sound_server(server):
    """On a busy machine sound is lost, but what comes is less noisy, and not late by seconds."""
    from alphamf.audio.resample import resample
    from benchmarks import live

    noisy, clean = (
        resample(soundfile.read(DATA / f"sample-{name}.wav", dtype="float32")[0], 16000, live.RATE)
        for name in ("noisy", "clean")
    )
    found, printed, _ = live.run(server, noisy, clean, "--buffer", "200")
    assert "s denoised; xruns" in printed
    better = found.after > found.before + 1  # in the others something was lost, or nobody speaks
    assert better.sum() >= 3, found
    assert (found.late[better] > 0.1).all() and (found.late[better] < 2).all(), found


@pytest.mark.slow
def test_a_sound_server_that_goes_is_told(server):
    words = [sys.executable, "-m", "alphamf", "live", "--input", "pulse", "--output", "pulse"]
    with subprocess.Popen(
        words, env=server.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() and process.stdout.readline()
        time.sleep(1)
        server.__exit__()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert err in (
        b"Error: the input pulse was disconnected or has stopped\n",
        b"Error: the output pulse was disconnected or has stopped\n",
    )
