"""The record of a run suffices to repeat it; and no run connects to the network."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import claps
from tests.support.commands import QUICK, contents, run, sound


def options_of(record: dict) -> list[object]:
    """Return the options that a JSON record of ``alphamf denoise`` speaks of."""
    found = ["--preset", record["preset"], "--model", record["model"], "--seed", record["seed"]]
    for name in ("sampler", "steps", "chains", "max_attenuation"):
        if record["settings"][name] is not None:
            found += [f"--{name.replace('_', '-')}", record["settings"][name]]
    return [*found, "--strength", round(1 - record["settings"]["dry"], 9)]


@pytest.mark.slow
def test_a_run_can_be_repeated_from_its_record_at_any_number_of_jobs(here):
    for k, (suffix, subtype) in enumerate([("wav", "FLOAT"), ("ogg", None), ("flac", None)]):
        sound(f"in/{k}x.{suffix}", seed=k, subtype=subtype)
    claps.make(Path("in/y.mkv"), "matroska", claps.Sound(rate=8000))
    asked = ["--preset", "plain", "--steps", 9, "--chains", 2, "--seed", 5, "--strength", 0.9]
    lines = run("denoise", "in", "--output-dir", "out", *asked, "--json", "--jobs", 1).stdout
    records = [json.loads(line) for line in lines.splitlines()]
    assert len(records) == 7
    for record in records:
        assert record["version"] and len(record["model_sha256"]) == 64
        assert record["model"] == "speech-8k"
    run("denoise", "in", "--output-dir", "again", *options_of(records[0]), "--jobs", 3)
    assert contents() == contents("again")


@pytest.mark.slow
def test_a_dictionary_for_wider_sound_is_noted(here):
    line = run("denoise", "in/0.wav", "--model", "speech-16k", "--json", *QUICK).stdout
    assert "speech-16k is for sound at 16000 Hz" in json.loads(line)["note"]
    assert json.loads(run("denoise", "in/1.wav", "--json", *QUICK).stdout)["note"] is None
    words = ["evaluate", "--pairs", "in/p.csv", "--jobs", 1, "--method"]
    assert run(*words, "noisy,is-nmf@speech-16k,is-nmf").stderr == (
        "Note: is-nmf@speech-16k: its dictionary is for sound at 16000 Hz or more, so "
        "results at lower rates are poor (1 of 1 clips)\n"
    )
    about = json.loads(Path("evaluation/settings.json").read_text())["methods"]
    assert list(about["is-nmf@speech-16k"]["sha256"]) == ["speech-16k.npz"]
    refused = run(*words, "noisy@speech-8k", code=2).stderr
    assert "names a dictionary, but noisy does not use one" in refused


@pytest.mark.slow
def test_nothing_opens_a_socket(here):
    """But those of files, by which the command's own processes find each other."""
    code = (
        "import sys\n"
        "def hook(event, arguments):\n"
        "    local = event == 'socket.__new__' and arguments[1] == 1\n"
        "    local |= isinstance((*arguments, None, None)[1], (str, bytes))\n"
        "    local |= event == 'socket.sendmsg' and arguments[0].family == 1\n"
        "    if event.startswith('socket.') and not local:\n"
        "        raise SystemExit(f'{event} {arguments}')\n"
        "sys.addaudithook(hook)\n"
        "from typer.testing import CliRunner\n"
        "from alphamf.cli.app import app\n"
        "for line in sys.stdin:\n"
        "    result = CliRunner().invoke(app, line.split())\n"
        "    assert result.exit_code == 0, (result.output, result.exception)\n"
        "try:\n"
        "    import socket; socket.create_connection(('localhost', 9))\n"
        "except SystemExit:\n"
        "    print('reached')\n"
    )
    commands = (
        f"denoise in {' '.join(QUICK)} --json\n"
        "denoise in/0.wav -o x.wav --steps 2 --plot x.png --uncertainty x.npz\n"
        "train in -o m.npz --rank 2 --steps 2\n"
        "evaluate --pairs in/p.csv --method noisy,fast --jobs 1 -q\n"
        "experiment list\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], input=commands, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout) == (0, "reached\n"), result.stderr
