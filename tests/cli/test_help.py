"""Help, examples, sentences that name options, and values that are written as people write them."""

import ast
import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest
import typer

import alphamf
from alphamf.audio.loudness import target
from alphamf.batch.inputs import parse_share
from alphamf.cli.app import EXAMPLES, app
from alphamf.cli.report import with_options
from alphamf.denoising.settings import Settings
from alphamf.errors import AlphaMFError
from tests.support.commands import run

COMMANDS = typer.main.get_command(app).commands


@pytest.mark.parametrize("name", ["alphamf", *COMMANDS])
def test_every_help_fits_the_terminal_and_ends_in_examples(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    printed = run(*([] if name == "alphamf" else [name]), "--help").stdout
    shown = printed.partition("Examples:")[2]
    assert tuple(line.strip() for line in shown.splitlines() if line.strip()) == EXAMPLES[name]
    lines = printed.splitlines()
    assert len(lines) <= 125 and max(map(len, lines)) <= 80
    assert not [line for line in lines if "<bool>" in line or "list[" in line]
    assert name != "adapt" or "'alphamf[learn]'" in printed  # the extra, in brackets


@pytest.mark.parametrize(
    "line", [line for name in COMMANDS if name != "plugin" for line in EXAMPLES[name]]
)
def test_the_examples_have_options_that_exist(line):
    program, name, *words = shlex.split(line.partition("<")[0])
    assert program == "alphamf"
    command = COMMANDS[name]
    with command.make_context(name, list(words)) as context:  # typer refuses what it cannot parse
        assert set(context.params) == {each.name for each in command.params}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        *(("1", 1.0), ("0.5", 0.5), ("50%", 0.5), (" 80 % ", 0.8), ("0%", 0.0)),
        ("50", "from 0 to 1, not 50; for a percentage, write 50%"),
        ("150%", "from 0 to 1, not 150%"),
        ("-1", "from 0 to 1, not -1"),
        ("half", "or a percentage such as 50%, not 'half'"),
        ("%", "or a percentage such as 50%, not '%'"),
    ],
)
def test_strength_is_a_share_or_a_percentage(text, found):
    if isinstance(found, float):
        assert parse_share("--strength", text) == pytest.approx(found)
        return
    with pytest.raises(AlphaMFError, match=found):
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


def test_loudness_by_what_it_is_for():
    assert (target("podcast"), target("broadcast")) == (-16, -23)
    with pytest.raises(AlphaMFError, match="such as -16LUFS, or podcast or broadcast, not 'loud'"):
        target("loud")


@pytest.mark.parametrize("command", ["evaluate", "experiment"])
def test_a_word_too_many_is_answered_with_the_right_form(command):
    error = " ".join(run(command, "list", "a-folder", code=2).stderr.split())
    assert f"a-folder; write, for example: {EXAMPLES[command][0]}" in error


ROOT = Path(alphamf.__file__).parent

OTHERS = (
    "evaluation/page/charts.py",
    "evaluation/page/tables.py",
    "tools/extras.py",
    "training/refiner/command.py",
)
"""Files with names of a style sheet, and command lines that stand in the library."""

ELSEWHERE = {"nthreads", "speech_from"}
"""An option of a worker of Dask's, and an argument that no command has."""


def test_strings_of_the_library_name_options_in_backquotes_alone():
    options = {word for each in COMMANDS.values() for param in each.params for word in param.opts}
    known = {word.lstrip("-").replace("-", "_") for word in options} | ELSEWHERE
    known |= {field.name for field in fields(Settings)}
    spelled, used = [], set()
    for path in ROOT.rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith("cli/") or name in OTHERS:
            continue
        nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
        alone = {each.value for each in nodes if isinstance(each, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value.replace("pip install --no-deps", "pip install")
                if re.search(r"(?<![\w-])--[a-z]", text):
                    spelled.append((name, node.lineno))
                if node not in alone:
                    used.update(re.findall(r"(?<!`)`([a-z][a-z0-9_]*)`(?!`)", text))
    assert spelled == []
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
