"""Options of ``alphamf denoise``: what is refused, in which words, and what follows from them."""

import json
import os

import numpy as np
import pytest
import soundfile
import typer

from alphamf.batch.inputs import Job
from alphamf.cli import batch, denoise_request
from alphamf.cli.app import app
from alphamf.denoising.settings import PRESETS
from alphamf.tools import pool
from tests.support.commands import run


@pytest.fixture
def here(empty):
    """Go to a folder that holds one recording, a.wav."""
    rng = np.random.default_rng(7)
    soundfile.write("a.wav", 0.1 * rng.standard_normal(3000), 8000)
    return empty


LOW = "--latency low"
LONG = 300 * "m"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--strength 1.5", "--strength must be from 0 to 1, not 1.5"),
        ("--strength nan", "--strength must be from 0 to 1, not nan"),
        ("--dereverb=2", "--dereverb must be from 0 to 1, not 2"),
        ("--steps 0", "--steps must be at least 1, not 0"),
        ("--chains 0", "--chains must be at least 1, not 0"),
        ("--max-attenuation -1", "--max-attenuation must be at least 0, not -1.0"),
        ("--jobs 0", "--jobs must be at least 1, not 0"),
        ("--track 0", "--track must be at least 1, not 0"),
        ("--max-channels 0", "--max-channels must be at least 1, not 0"),
        ("--seed -1", "--seed must be at least 0, not -1"),
        ("--sampler magic", "unknown --sampler 'magic'"),
        ("--model none", "unknown model 'none'"),
        (f"--model {LONG}", "mmm cannot be opened: File name too long"),
        (f"--network {LONG}", "mmm cannot be opened: File name too long"),
        ("--network high-band-16k", "--network high-band-16k is neither a refiner nor a"),
        (
            "--network refiner-8k --network refiner-16k",
            "--network refiner-8k and --network refiner-16k are both refiners; give one",
        ),
        ("--trim-silence --end 1", "--trim-silence needs the whole"),
        ("-o x.txt", "the extension of x.txt is not a known audio format"),
        ("--plot x.pdf", "--plot x.pdf must end in .png"),
        ("--uncertainty x", "--uncertainty x must end in .npz"),
        ("--noise-output -", "--noise-output - must name a file"),
        ("b.wav --plot x.png", "--plot x.png can be used with one input only"),
        ("b.wav -o x.wav", "-o x.wav names one output, but there are 2 inputs"),
        ("--reference none.wav", "none.wav does not exist"),
        (f"{LOW} --network refiner-8k", "--network cannot be combined with --latency low"),
        (f"{LOW} --device cuda", "--device cuda cannot be combined with --latency low"),
        *(
            (f"{option} {LOW}", f"{option.split()[0]} cannot be combined with --latency low")
            for option in ("--steps 3", "--vad x.csv", "--start 1", "--dereverb", "--cluster local")
        ),
        (f"--raw 8000:1:s16 {LOW}", "--raw needs a pipe at low latency: denoise - -o - --lat"),
        ("-o - --cluster local", "--cluster needs files; it cannot use standard input or"),
    ],
)
def test_what_cannot_be_met_is_one_sentence_with_the_option_and_the_value(here, line, sentence):
    result = run("denoise", "a.wav", *line.split(), code=2)
    assert sentence in result.stderr
    assert result.stderr.startswith("Error: ") and result.stderr.count("\n") == 1
    assert result.stdout == ""
    assert os.listdir() == ["a.wav"]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (f"- -o - {LOW} --tag", "--tag cannot be combined with --latency low"),
        ("- --cluster local", "--cluster needs files; it cannot use standard input or"),
        ("- --raw 8000:1:s16", "--raw needs a pipe at low latency: denoise - -o - --latency low"),
    ],
)
def test_options_that_a_pipe_cannot_have(line, sentence):
    refused = run("denoise", *line.split(), code=2).stderr
    assert refused.startswith(f"Error: {sentence}") and refused.count("\n") == 1


def test_words_that_typer_refuses_name_the_option_too(here):
    refused = run("denoise", "a.wav", "--preset", "slow", code=2).stderr
    assert "Error: Invalid value for '--preset': 'slow' is not one of 'fast', 't" in refused
    assert "--steps" in run("denoise", "a.wav", "--steps", "many", code=2).stderr
    assert "INPUTS" in run("denoise", code=2).stderr


def parameters():
    """Return the parameters of the command by name."""
    return {each.name: each for each in typer.main.get_command(app).commands["denoise"].params}


def test_there_are_few_options_and_those_of_the_sampler_come_last():
    panels = [each.rich_help_panel for each in parameters().values() if each.name != "inputs"]
    assert len(panels) <= 38
    assert panels[-4:] == ["Sampler (for research)"] * 4 and panels.index(panels[-1]) > 30


def test_conflicts_are_between_options_that_exist():
    words = {name for each in denoise_request.CONFLICTS for name in (each.option, *each.others)}
    words -= {value for name, value in vars(denoise_request).items() if name.isupper()}
    assert {word.partition("=")[0] for word in words} <= {*parameters(), "output"}


def test_audio_and_json_do_not_share_an_output(here):
    refused = run("denoise", "a.wav", "-o", "-", "--json", code=2)
    sentence = "--json and audio cannot both be written to standard output; use -o FILE"
    assert refused.stderr == f"Error: {sentence}\n"
    assert json.loads(refused.stdout) == {"error": sentence}


def test_steps_alone_keep_the_presets_share(here):
    line = run("denoise", "a.wav", "--steps", 30, "--json").stdout
    preset = PRESETS["fast"]
    assert json.loads(line)["settings"]["keep"] == 30 * preset.keep // preset.steps


def test_cores_that_no_file_needs_go_to_segments(monkeypatch):
    monkeypatch.setattr(pool, "cores", lambda: 8)
    one, three = ([Job(f"{k}.wav", f"out{k}.wav", True) for k in range(count)] for count in (1, 3))
    assert [batch._segments(jobs, "cpu", None) for jobs in (one, three, three * 4)] == [8, 2, 1]
    assert batch._segments(one, "cpu", 3) == 3
    assert batch._segments(three, "cuda", None) == batch.SEGMENTS
    assert [batch._workers(three, device, 5) for device in ("cpu", "cuda")] == [5, 1]
    assert batch._workers([*three, Job("-", "x", False)], "cpu", 5) == 1


@pytest.mark.parametrize("quiet", [False, True])
def test_without_a_device_auto_says_that_it_falls_back(tmp_path, quiet):
    path = tmp_path / "a.wav"
    soundfile.write(path, 0.1 * np.random.default_rng(0).standard_normal(800), 8000)
    options = ["--device", "auto", "--steps", "2", "--json", *["--quiet"] * quiet]
    result = run("denoise", path, *options)
    assert ("no CUDA GPU was found" in result.stderr) is not quiet
    assert json.loads(result.stdout)["device"] == "cpu"
