"""What the commands say of themselves, and values that are written as people write them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
import soundfile
import typer

from alphamf.cli.app import app
from alphamf.cli.examples import EXAMPLES
from alphamf.cli.options import parse_share
from alphamf.errors import AlphaMFError
from tests.support.commands import QUICK, run

COMMANDS = typer.main.get_command(app).commands


@pytest.mark.parametrize("name", ["alphamf", *COMMANDS])
def test_every_help_ends_in_examples(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    printed = run(*([] if name == "alphamf" else [name]), "--help").stdout
    shown = printed.partition("Examples:")[2]
    lines = [line.strip() for line in shown.splitlines() if line.strip()]
    assert tuple(lines) == EXAMPLES[name]


@pytest.mark.parametrize(
    "line", [line for name in COMMANDS if name != "plugin" for line in EXAMPLES[name]]
)
def test_the_examples_have_options_that_exist(line):
    program, name, *words = shlex.split(line.partition("<")[0])
    assert program == "alphamf"
    command = COMMANDS[name]
    with command.make_context(name, list(words)) as context:  # typer refuses what it cannot parse
        assert set(context.params) == {each.name for each in command.params}


@pytest.mark.parametrize("name", ["alphamf", *COMMANDS])
def test_help_fits_the_terminal_and_names_no_types_of_python(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = run(*([] if name == "alphamf" else [name]), "--help").stdout.splitlines()
    assert len(lines) <= 125 and max(map(len, lines)) <= 80
    assert not [line for line in lines if "<bool>" in line or "list[" in line]


def test_a_value_that_is_no_choice_is_named_with_the_choices():
    refused = run("denoise", "a.wav", "--preset", "best", code=2).stderr
    assert "Error: Invalid value for '--preset': 'best' is not one of 'fast', 't" in refused


def test_help_names_the_extra_in_brackets():
    assert "'alphamf[learn]'" in run("adapt", "--help").stdout


@pytest.mark.parametrize(
    ("text", "share"), [("1", 1.0), ("0.5", 0.5), ("50%", 0.5), (" 80 % ", 0.8), ("0%", 0.0)]
)
def test_strength_is_a_share_or_a_percentage(text, share):
    assert parse_share("--strength", text) == pytest.approx(share)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("50", "from 0 to 1, not 50; for a percentage, write 50%"),
        ("150%", "from 0 to 1, not 150%"),
        ("-1", "from 0 to 1, not -1"),
        ("half", "or a percentage such as 50%, not 'half'"),
        ("%", "or a percentage such as 50%, not '%'"),
    ],
)
def test_other_strengths_are_refused(text, words):
    with pytest.raises(AlphaMFError, match=words):
        parse_share("--strength", text)


def test_strength_in_percent_is_the_same_as_a_share(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    soundfile.write("a.wav", 0.1 * np.random.default_rng(7).standard_normal(3000), 8000)
    for text, name in (("50%", "one.wav"), ("0.5", "two.wav")):
        run("denoise", "a.wav", "-o", name, "--strength", text, *QUICK)
    assert Path("one.wav").read_bytes() == Path("two.wav").read_bytes()


def test_loudness_by_what_it_is_for(tmp_path, monkeypatch):
    pytest.importorskip("pyloudnorm")
    monkeypatch.chdir(tmp_path)
    noise = np.random.default_rng(7).standard_normal(24000)
    soundfile.write("a.wav", 0.05 * noise * (1 + np.sin(np.arange(24000) / 900)), 8000)
    done = run("denoise", "a.wav", "--normalize", "podcast", "--strength", "0", "--json", *QUICK)
    assert json.loads(done.stdout)["loudness"]["after"] == pytest.approx(-16, abs=0.2)
    refused = run("denoise", "a.wav", "--normalize", "loud", code=2).stderr
    assert "such as -16LUFS, or podcast or broadcast, not 'loud'" in refused


@pytest.mark.parametrize("command", ["evaluate", "experiment"])
def test_a_word_too_many_is_answered_with_the_right_form(command):
    error = " ".join(run(command, "list", "a-folder", code=2).stderr.split())
    assert f"a-folder; write, for example: {EXAMPLES[command][0]}" in error
