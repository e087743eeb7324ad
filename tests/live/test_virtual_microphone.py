"""The virtual microphone: it is there while the command runs, and nothing is left after it."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.support.commands import in_a_process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="PipeWire is of Linux")
COMMAND = [sys.executable, "-m", "alphamf", "live", "--virtual-mic", "--strength", "0.8"]


@pytest.fixture
def places(tmp_path):
    """Return an environment with folders of its own for programs, sockets and temporary files."""
    for name in ("bin", "run", "tmp"):
        (tmp_path / name).mkdir(mode=0o700)
    kept = {"TMPDIR": str(tmp_path / "tmp"), "XDG_RUNTIME_DIR": str(tmp_path / "run")}
    return {**os.environ, **kept, "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def stand_in(tmp_path, script):
    program = tmp_path / "bin" / "pipewire"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_the_filter_has_the_plug_in_and_ends_with_the_command(tmp_path, places):
    stand_in(tmp_path, f'cp "$2" {tmp_path}/seen.conf; echo $$ > {tmp_path}/pid; exec sleep 100')
    with subprocess.Popen(COMMAND, env=places, stdout=subprocess.PIPE, text=True) as process:
        assert 'Choose "alphamf microphone"' in process.stdout.readline()
        seen, number = (tmp_path / "seen.conf").read_text(), int((tmp_path / "pid").read_text())
        assert '"Strength" = 0.8' in seen and "alphamf.so" in seen
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    assert not os.path.exists(f"/proc/{number}") and os.listdir(tmp_path / "tmp") == []


def test_the_filter_ends_if_the_command_is_killed(tmp_path, places):
    stand_in(tmp_path, f"echo $$ > {tmp_path}/pid; exec sleep 100")
    with subprocess.Popen(COMMAND, env=places, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        number = int((tmp_path / "pid").read_text())
        process.kill()
    for _ in range(100):
        if not os.path.exists(f"/proc/{number}"):
            return
        time.sleep(0.1)
    pytest.fail("the filter still runs")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'failed to create context: Host is down' >&2; exit 144", "ended (Host is down)"),
        ("exit 3", "ended (exit code 3)"),
        ("sleep 1.5; exit 3", "ended (exit code 3)"),
    ],
)
def test_a_filter_that_ends_is_said(tmp_path, places, script, said):
    stand_in(tmp_path, script)
    found = in_a_process(tmp_path, *COMMAND[3:], env=places)
    assert found.returncode == 2 and found.stderr.count(b"\n") == 1
    assert said in found.stderr.decode()
    assert os.listdir(tmp_path / "tmp") == []


def test_other_devices_and_a_system_without_pipewire_are_refused(tmp_path, places):
    for name, value in (("--input", "USB"), ("--channels", "2"), ("--buffer", "20")):
        found = in_a_process(tmp_path, *COMMAND[3:], name, value, env=places)
        assert found.returncode == 2
        assert f"{name} cannot be combined with --virtual-mic" in found.stderr.decode()
    found = in_a_process(tmp_path, *COMMAND[3:], env={**places, "PATH": str(tmp_path / "bin")})
    assert found.returncode == 2 and b"needs PipeWire" in found.stderr


@pytest.mark.skipif(not shutil.which("pw-cli"), reason="PipeWire is not installed")
def test_pipewire_has_the_microphone_while_the_command_runs(places):
    daemon = subprocess.Popen(["pipewire"], env=places, stderr=subprocess.DEVNULL)
    try:
        time.sleep(1)
        with subprocess.Popen(COMMAND, env=places, stdout=subprocess.PIPE, text=True) as process:
            process.stdout.readline()
            assert 'node.description = "alphamf microphone"' in nodes(places)
            process.terminate()
            process.wait(20)
        assert "alphamf" not in nodes(places)
    finally:
        daemon.kill()
        daemon.wait()


def nodes(environment):
    command = ["pw-cli", "ls", "Node"]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout
