"""From names to pairs of input and output, and every way in which that cannot be done."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphamf.audio.inputs import Job, Plan, check_extra, plan
from alphamf.errors import AlphaMFError
from alphamf.tools.files import shown


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Go to a folder with a few files; they need not be audio, as nothing is opened."""
    monkeypatch.chdir(tmp_path)
    for name in (
        "a.wav",
        "in/b.WAV",
        "in/notes.txt",
        "in/.hidden.wav",
        "in/b.denoised.wav",
        "in/deep/er/c.flac",
        "in/.git/d.wav",
        "empty/notes.txt",
    ):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    return tmp_path


def pairs(*inputs, **options):
    """Return {input: output} of a plan without problems."""
    made = plan(inputs, **options)
    assert made.problems == []
    return {job.source: job.output for job in made.jobs}


def only_problem(*inputs, **options):
    made = plan(inputs, **options)
    assert len(made.problems) == 1
    return made.problems[0].sentence


def test_output_lies_beside_the_input(tree):
    assert pairs("a.wav") == {"a.wav": "a.denoised.wav"}
    assert pairs(str(tree / "a.wav")) == {f"{tree}/a.wav": f"{tree}/a.denoised.wav"}


def test_a_file_that_is_named_is_taken_whatever_its_name_and_judged_when_opened(tree):
    assert pairs("none.xyz", "in/b.denoised.wav", "in/.hidden.wav") == {
        "none.xyz": "none.denoised.xyz",
        "in/b.denoised.wav": "in/b.denoised.denoised.wav",
        "in/.hidden.wav": "in/.hidden.denoised.wav",
    }


def test_folders_are_searched_to_the_bottom_for_audio(tree):
    assert list(pairs("in", overwrite=True)) == ["in/b.WAV", "in/deep/er/c.flac"]


def test_output_dir_mirrors_a_folder(tree):
    assert pairs("in", "a.wav", output_dir="out") == {
        "in/b.WAV": "out/b.WAV",
        "in/deep/er/c.flac": "out/deep/er/c.flac",
        "a.wav": "out/a.wav",
    }
    assert not os.path.exists("out")


def test_output_dir_inside_the_input_is_not_input(tree):
    Path("in/out").mkdir()
    Path("in/out/x.wav").touch()
    assert list(pairs("in", output_dir="in/out")) == ["in/b.WAV", "in/deep/er/c.flac"]
    assert list(pairs("in/**", output_dir="in/out")) == ["in/b.WAV", "in/deep/er/c.flac"]


def test_patterns_cross_folders_and_mirror_below_their_fixed_part(tree):
    assert pairs("in/**/*.flac", output_dir="out") == {"in/deep/er/c.flac": "out/deep/er/c.flac"}
    assert list(pairs("*.wav")) == ["a.wav"]


def test_a_name_with_brackets_is_a_file_before_it_is_a_pattern(tree):
    Path("take [1].wav").touch()
    assert list(pairs("take [1].wav")) == ["take [1].wav"]


def test_a_file_named_twice_is_done_once(tree):
    os.symlink("a.wav", "link.wav")
    assert list(pairs("a.wav", "./a.wav", "*.wav", str(tree / "a.wav"))) == ["a.wav"]


def test_standard_input_goes_to_standard_output_unless_named(tree):
    assert plan(["-"]).jobs == [Job("-", "-", False)]
    assert plan(["-"], output="x.flac").jobs == [Job("-", "x.flac", False)]
    assert plan(["a.wav"], output="-").jobs == [Job("a.wav", "-", False)]
    with pytest.raises(AlphaMFError, match="- has no name to use in --output-dir"):
        plan(["-"], output_dir="out")


def test_problems_are_one_sentence_each_and_the_other_files_stay(tree):
    Path("x").mkdir()
    Path("x/a.wav").touch()
    Path("a.denoised.wav").touch()
    made = plan(["empty", "no*.wav", "a.wav", "in/deep"])
    assert [problem.sentence for problem in made.problems] == [
        "empty is a folder without audio files",
        "no*.wav matches no audio file",
        "a.denoised.wav exists already: use --overwrite to replace it",
    ]
    assert [job.source for job in made.jobs] == ["in/deep/er/c.flac"]
    assert only_problem("a.wav", "x/a.wav", output_dir="out") == (
        "x/a.wav has the same output as a.wav: out/a.wav"
    )
    assert only_problem("a.wav", output_dir=".") == (
        "a.wav is also its own output: choose another -o or --output-dir"
    )
    os.symlink("a.wav", "link.wav")
    assert "also its own output" in only_problem("a.wav", output="link.wav", overwrite=True)


def test_overwrite_replaces_outputs_but_never_the_input(tree):
    Path("a.denoised.wav").touch()
    assert pairs("a.wav", overwrite=True) == {"a.wav": "a.denoised.wav"}
    assert "also its own output" in only_problem("a.wav", output="./a.wav", overwrite=True)


def test_a_device_may_be_the_output_without_overwrite(tree):
    assert pairs("a.wav", output="/dev/null") == {"a.wav": "/dev/null"}


@pytest.mark.parametrize(
    ("inputs", "options", "sentence"),
    [
        (["a.wav"], {"output": "in"}, "-o in is a folder"),
        (["a.wav"], {"output": "new/"}, "-o new/ is a folder"),
        (["a.wav", "in"], {"output": "x.wav"}, "-o x.wav names one output and there are 3 inputs"),
        (["a.wav"], {"output": "x.wav", "output_dir": "y"}, "give one of them"),
        (["a.wav"], {"output_dir": "in/notes.txt"}, "--output-dir in/notes.txt is not a folder"),
    ],
)
def test_options_that_do_not_go_together(tree, inputs, options, sentence):
    with pytest.raises(AlphaMFError) as refused:
        plan(inputs, **options)
    assert sentence in str(refused.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may list every folder")
def test_a_folder_that_may_not_be_listed_is_reported(tree):
    os.chmod("in/deep", 0)
    assert only_problem("in") == "in/deep cannot be listed: Permission denied"


NAMES = st.text(
    st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=20
).filter(lambda name: not name.startswith("."))


@pytest.mark.slow
@given(st.lists(NAMES, min_size=1, max_size=4, unique=True))
@settings(max_examples=30, deadline=None)
def test_any_name_works_and_is_shown_on_one_line(tmp_path_factory, names):
    folder = tmp_path_factory.mktemp("names")
    made = []
    for name in names:
        path = folder / f"{name}.wav"
        if not any(path.exists() and path.samefile(other) for other in made):
            path.touch()
            made.append(path)
    jobs = plan([str(folder)], output_dir=str(folder / "out")).jobs
    expected = {str(path) for path in made if not path.stem.endswith(".denoised")}
    assert {job.source for job in jobs} == expected
    for job in jobs:
        assert Path(job.output).name == Path(job.source).name
        assert shown(job.source).isprintable()


def test_a_name_that_is_not_text_is_shown_with_escapes():
    assert shown(os.fsdecode(b"caf\xe9.wav")) == "caf\\udce9.wav"


def test_names_with_a_nul_are_refused():
    (problem,) = plan(["a\0.wav"]).problems
    assert problem.sentence == "a\\x00.wav is no file: no name holds a NUL"
    with pytest.raises(AlphaMFError, match="no name holds a NUL"):
        plan(["a.wav"], output="b\0.wav")
    with pytest.raises(AlphaMFError, match="no name holds a NUL"):
        check_extra({"--plot": "p\0.png"}, Plan([], []), overwrite=False)
