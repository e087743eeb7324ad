"""Help, examples, sentences that name options, and values that are written as people write them."""

import ast
import json
import re
import shlex
from dataclasses import fields
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import soundfile
import typer

import alphamf
from alphamf.cli.app import EXAMPLES, app
from alphamf.cli.options import parse_share
from alphamf.cli.report import with_options
from alphamf.denoising.settings import Settings
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


@pytest.mark.parametrize(
    ("words", "share"),
    [
        ("a.wav --dereverb", "1"),
        ("--dereverb a.wav", "1"),
        ("a.wav --dereverb --quiet", "1"),
        ("--dereverb 50% a.wav", "50%"),
        ("--dereverb .5 a.wav", ".5"),
        ("--dereverb=0.5 a.wav", "0.5"),
        ("-- a.wav", None),
    ],
)
def test_a_share_may_follow_dereverb(words, share):
    with COMMANDS["denoise"].make_context("denoise", words.split()) as context:
        assert (context.params["dereverb"], context.params["inputs"]) == (share, ["a.wav"])


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


ROOT = Path(alphamf.__file__).parent

OTHERS = (
    "evaluation/page/charts.py",
    "evaluation/page/text.py",
    "tools/extras.py",
    "training/refiner/command.py",
)
"""Files with names of a style sheet, and command lines that stand in the library."""

ELSEWHERE = {"nthreads"}
"""An option of a command that is not alphamf's: a worker of Dask's."""


@cache
def strings():
    """Return file, line and text of every string in the library, and whether it stands alone."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith("cli/") or name in OTHERS:
            continue
        nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
        alone = {each.value for each in nodes if isinstance(each, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append((name, node.lineno, node.value, node in alone))
    return found


def options():
    """Return the names of all options of all commands, as Python writes them."""
    commands = typer.main.get_command(app).commands.values()
    spelled = {word for each in commands for param in each.params for word in param.opts}
    return {word.lstrip("-").replace("-", "_") for word in spelled}


def test_no_string_of_the_library_spells_an_option():
    found = [
        (name, line)
        for name, line, text, _ in strings()
        if re.search(r"(?<![\w-])--[a-z]", text.replace("pip install --no-deps", "pip install"))
    ]
    assert found == []


def test_what_stands_in_backquotes_is_an_option():
    known = options() | {field.name for field in fields(Settings)} | ELSEWHERE | {"speech_from"}
    used = {
        word
        for _, _, text, alone in strings()
        if not alone
        for word in re.findall(r"(?<!`)`([a-z][a-z0-9_]*)`(?!`)", text)
    }
    assert {"output", "overwrite", "max_channels", "cluster", "method"} <= used
    assert used <= known, used - known


@pytest.mark.parametrize(
    ("sentence", "printed"),
    [
        ("`max_channels` must be at least 1", "--max-channels must be at least 1"),
        ("use `output` FILE or `output_dir`", "use -o FILE or --output-dir"),
        ("use `alphamf denoise` instead", "use `alphamf denoise` instead"),
        ("a`b`.wav and ``x``", "a`b`.wav and ``x``"),
    ],
)
def test_the_command_line_prints_options(sentence, printed):
    assert with_options(sentence) == printed
