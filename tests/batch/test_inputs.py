"""From names to pairs of input and output, and every way in which that cannot be done."""

import os
from pathlib import Path

import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from alphamf.batch.inputs import Job, Plan, Problem, check_extra, plan
from alphamf.errors import AlphaMFError
from alphamf.tools.files import printable_name


@pytest.fixture
def tree(empty):
    """Go to a folder with a few files; they need not be audio, as nothing is opened."""
    for name in (
        "a.wav",
        "take-[1].wav",
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
    return empty


def pairs(*inputs, **options):
    """Return {input: output} of a plan without problems."""
    made = plan(inputs, **options)
    assert made.problems == []
    return {job.source: job.output for job in made.jobs}


def only_problem(*inputs, **options):
    made = plan(inputs, **options)
    assert len(made.problems) == 1
    return made.problems[0].sentence


@pytest.mark.parametrize(
    ("inputs", "options", "found"),
    [
        ("a.wav", {}, {"a.wav": "a.denoised.wav"}),
        # A file that is named is taken whatever its name, and judged when it is opened.
        ("none.xyz", {}, {"none.xyz": "none.denoised.xyz"}),
        ("in/.hidden.wav", {}, {"in/.hidden.wav": "in/.hidden.denoised.wav"}),
        ("in/b.denoised.wav", {}, {"in/b.denoised.wav": "in/b.denoised.denoised.wav"}),
        # A name with brackets is a file before it is a pattern.
        ("take-[1].wav", {}, {"take-[1].wav": "take-[1].denoised.wav"}),
        ("a*.wav", {}, {"a.wav": "a.denoised.wav"}),
        # Folders are searched to the bottom for audio, and mirrored.
        (
            "in a.wav",
            {"output_dir": "out"},
            {
                "in/b.WAV": "out/b.WAV",
                "in/deep/er/c.flac": "out/deep/er/c.flac",
                "a.wav": "out/a.wav",
            },
        ),
        ("in/**/*.flac", {"output_dir": "out"}, {"in/deep/er/c.flac": "out/deep/er/c.flac"}),
        # The folder of the outputs is no input.
        *(
            (
                inputs,
                {"output_dir": "in/deep"},
                {"in/b.WAV": "in/deep/b.WAV"},
            )
            for inputs in ("in", "in/**")
        ),
        ("a.wav", {"overwrite": True}, {"a.wav": "a.denoised.wav"}),
        ("a.wav", {"output": "/dev/null"}, {"a.wav": "/dev/null"}),
        ("a.wav ./a.wav a*.wav", {}, {"a.wav": "a.denoised.wav"}),
    ],
)
def test_inputs_and_their_outputs(tree, inputs, options, found):
    assert pairs(*inputs.split(), **options) == found
    assert not os.path.exists("out")
    if inputs == "a.wav" and not options:
        assert pairs(f"{tree}/a.wav") == {f"{tree}/a.wav": f"{tree}/a.denoised.wav"}
        os.symlink("a.wav", "link.wav")
        assert list(pairs("a.wav", "link.wav", f"{tree}/a.wav")) == ["a.wav"]


def test_standard_input_goes_to_standard_output_unless_named(tree):
    assert plan(["-"]).jobs == [Job("-", "-", False)]
    assert plan(["-"], output="x.flac").jobs == [Job("-", "x.flac", False)]
    assert plan(["a.wav"], output="-").jobs == [Job("a.wav", "-", False)]
    with pytest.raises(AlphaMFError, match="standard input has no name to use in `output_dir`"):
        plan(["-"], output_dir="out")


def test_problems_are_one_sentence_each_and_the_other_files_stay(tree):
    Path("x").mkdir()
    Path("x/a.wav").touch()
    Path("a.denoised.wav").write_text("a result")
    made = plan(["empty", "no*.wav", "a.wav", "in/deep"])
    assert [problem.sentence for problem in made.problems] == [
        "empty contains no audio files",
        "no*.wav matches no audio files",
        "a.denoised.wav already exists; use `overwrite` to replace it",
    ]
    assert [job.source for job in made.jobs] == ["in/deep/er/c.flac"]
    assert only_problem("a.wav", "x/a.wav", output_dir="out") == (
        "x/a.wav has the same output as a.wav: out/a.wav"
    )
    assert only_problem("a.wav", output_dir=".") == (
        "a.wav is also its own output; choose another `output` or `output_dir`"
    )
    os.symlink("a.wav", "link.wav")
    for output in ("link.wav", "./a.wav"):
        assert "also its own output" in only_problem("a.wav", output=output, overwrite=True)


@pytest.mark.parametrize(
    ("inputs", "options", "sentence"),
    [
        (["a.wav"], {"output": "in"}, "`output` in is a folder"),
        (["a.wav"], {"output": "new/"}, "`output` new/ is a folder"),
        (["a.wav", "in"], {"output": "x.wav"}, "`output` x.wav names one output, but there"),
        (["a.wav"], {"output": "x.wav", "output_dir": "y"}, "give only one of them"),
        (["a.wav"], {"output_dir": "in/notes.txt"}, "`output_dir` in/notes.txt is not a folder"),
    ],
)
def test_options_that_do_not_go_together(tree, inputs, options, sentence):
    with pytest.raises(AlphaMFError) as refused:
        plan(inputs, **options)
    assert sentence in str(refused.value)


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
        assert printable_name(job.source).isprintable()


def test_a_name_that_is_not_text_is_shown_with_escapes():
    assert printable_name(os.fsdecode(b"caf\xe9.wav")) == "caf\\udce9.wav"


def test_names_with_a_nul_are_refused():
    (problem,) = plan(["a\0.wav"]).problems
    assert problem.sentence == "a\\x00.wav is not a valid file name: it contains a NUL character"
    for refuse in (
        lambda: plan(["a.wav"], protected=[("model", "m\0")]),
        lambda: plan(["a.wav"], output="b\0.wav"),
        lambda: check_extra({"plot": "p\0.png"}, Plan([], []), overwrite=False),
    ):
        with pytest.raises(AlphaMFError, match="is not a valid file name: it contains a NUL"):
            refuse()


def recording(name, form=None):
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(name, [0.1, -0.1], 8000, format=form, subtype="PCM_16")


def test_an_output_that_becomes_wav_leaves_the_name_to_the_one_that_is(tree):
    recording("w/x.wav")
    for name in ("w/x.snd", "v/x.voc"):  # formats that are only read
        recording(name, "VOC")
    taken = Problem("w/x.snd", "w/x.snd has the same output as w/x.wav: w/x.denoised.wav")
    made = plan(["w"])
    assert made.problems == [taken]
    assert made.jobs == [Job("w/x.wav", "w/x.denoised.wav", True, True)]
    for overwrite in (False, True):
        made = plan(["v/x.voc", "w/x.wav"], output_dir="out", overwrite=overwrite)
        assert [job.output for job in made.jobs] == ["out/x.wav"]
        assert made.jobs[0].source == "w/x.wav" and made.problems[0].source == "v/x.voc"
    # Alone, and where the input can be written in its own format, nothing is in the way.
    assert plan(["v/x.voc"]).problems == []
    recording("w/y.wav")
    recording("w/y.snd", "AU")
    assert plan(["w/y.wav", "w/y.snd"]).problems == []


def test_a_name_that_becomes_wav_is_looked_up_before_the_work(tree):
    recording("x.voc", "VOC")
    Path("x.denoised.wav").write_text("a result")
    assert only_problem("x.voc") == "x.denoised.wav already exists; use `overwrite` to replace it"
    assert pairs("x.voc", overwrite=True) == {"x.voc": "x.denoised.wav"}


def test_no_output_replaces_any_input(tree):
    recording("x.wav")
    recording("sub/x.voc", "VOC")
    os.symlink("x.wav", "link.wav")
    sentence = "sub/x.voc would replace the input x.wav; choose another `output` or `output_dir`"
    made = plan(["x.wav", "sub/x.voc"], output_dir=".", overwrite=True)
    assert [problem.sentence for problem in made.problems] == [
        "x.wav is also its own output; choose another `output` or `output_dir`",
        sentence,
    ]
    made = plan(["link.wav", "sub/x.voc"], output_dir=".", overwrite=True)
    assert "sub/x.voc would replace the input link.wav" in made.problems[1].sentence


@pytest.mark.parametrize("argument", ["reference", "model", "network"])
def test_no_output_replaces_a_file_that_the_run_reads(tree, argument):
    Path("kept.wav").touch()
    for path in ("kept.wav", "./kept.wav", str(tree / "kept.wav")):
        options = {"overwrite": True, "protected": [(argument, "kept.wav")]}
        sentence = only_problem("a.wav", output=path, **options)
        assert f"would replace `{argument}` kept.wav" in sentence
        files = plan(["a.wav"], output="x.wav", **options)
        with pytest.raises(AlphaMFError, match=f"`noise_output` .* is also `{argument}` kept.wav"):
            check_extra({"noise_output": path}, files, overwrite=True)
    with pytest.raises(AlphaMFError, match="is also the input or another output"):
        check_extra({"noise_output": "./a.wav"}, files, overwrite=True)


def test_results_named_with_what_they_were_made_from_are_passed_over(tree):
    for name in ("x.wav", "x.denoised.wav", "y.denoised.wav"):
        Path(name).touch()
    made = plan(["x.denoised.wav", "x.wav", "y.denoised.wav"], overwrite=True)
    assert [job.source for job in made.jobs] == ["x.wav", "y.denoised.wav"]
    assert made.results == ["x.denoised.wav"] and made.problems == []
    assert list(pairs("x.denoised.wav")) == ["x.denoised.wav"]


@pytest.mark.skipif(os.name != "posix", reason="named pipes")
def test_searches_pass_over_pipes_and_devices_and_names_mean_them(tree):
    os.mkfifo("in/z.wav")
    os.symlink("/dev/zero", "in/zero.wav")
    os.symlink("gone", "in/gone.wav")
    assert list(pairs("in", overwrite=True)) == ["in/b.WAV", "in/gone.wav", "in/deep/er/c.flac"]
    assert list(pairs("in/z.wav", "a.wav")) == ["in/z.wav", "a.wav"]
    assert only_problem("in/z*.wav") == "in/z*.wav matches no audio files"


@pytest.mark.skipif(os.name != "posix", reason="named pipes")
def test_a_pipe_keeps_both_names_that_its_output_may_get(tree):
    os.mkfifo("p.au")
    recording("p.wav")
    made = plan(["p.wav", "p.au"], overwrite=True)
    assert [job.source for job in made.jobs] == ["p.wav"]
    assert made.problems[0].sentence == "p.au has the same output as p.wav: p.denoised.wav"
