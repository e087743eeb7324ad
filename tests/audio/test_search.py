"""Which folders a search goes into: those of the outputs, of others, and links to elsewhere."""

import errno
import os
from pathlib import Path

import pytest

from alphamf.audio.search import describe_skipped
from alphamf.batch.inputs import Problem, plan


@pytest.fixture
def tree(empty):
    """Go to a folder with a few files; they need not be audio, as nothing is opened."""
    for name in ("in/a.wav", "in/locked/b.wav", "in/zzz/c.wav", "in/zzz/deep/d.wav"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    return empty


def sources(*names, **options):
    """Return the inputs of a plan without problems."""
    made = plan(names, **options)
    assert made.problems == []
    return [job.source for job in made.jobs]


@pytest.mark.parametrize("name", ["in", "in/*.wav", "in/**"])
def test_the_folder_for_the_outputs_may_hold_the_inputs(tree, name):
    made = plan([name], output_dir=".")
    assert made.problems == []
    assert (made.jobs[0].source, made.jobs[0].output) == ("in/a.wav", "./a.wav")
    assert plan([name], output_dir="in").problems[0].sentence == (
        "in/a.wav is also its own output; choose another `output` or `output_dir`"
    )


def test_folders_that_may_not_be_listed_are_reported_and_the_others_searched(tree, monkeypatch):
    listed = os.scandir

    def scandir(path):
        if path in ("in/locked", "in/zzz/deep"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    made = plan(["in"], output_dir="out")
    assert [job.source for job in made.jobs] == ["in/a.wav", "in/zzz/c.wav"]
    sentence = "in/locked cannot be listed: Permission denied; in/zzz/deep cannot be listed: "
    assert made.problems == [Problem("in", f"{sentence}Permission denied")]


@pytest.mark.skipif(os.name != "posix", reason="links")
def test_links_to_folders_are_followed_and_no_folder_is_searched_twice(tree):
    Path("tree").mkdir()
    os.symlink("../in/zzz", "tree/sub")
    os.symlink("..", "tree/up")
    assert sources("tree") == [
        *("tree/sub/c.wav", "tree/sub/deep/d.wav"),
        *("tree/up/in/a.wav", "tree/up/in/locked/b.wav"),
    ]
    assert sources("tree", output_dir="in/zzz") == ["tree/up/in/a.wav", "tree/up/in/locked/b.wav"]


def test_a_pattern_whose_matches_are_folders_stands_for_their_files(tree):
    assert sources("in/[lz]*") == ["in/locked/b.wav", "in/zzz/c.wav", "in/zzz/deep/d.wav"]
    made = plan(["in/[lz]*"], output_dir="out").jobs
    assert [job.output for job in made] == [
        "out/locked/b.wav",
        "out/zzz/c.wav",
        "out/zzz/deep/d.wav",
    ]
    assert sources("in/*") == ["in/a.wav"]  # as files match
    assert sources("in/[lz]*", output_dir="in/zzz") == ["in/locked/b.wav"]


@pytest.mark.parametrize("name", ["in", "in/*"])
def test_recordings_that_only_their_start_tells_are_counted_and_read_where_they_are_named(
    tree, name
):
    starts = {
        "memo": b"RIFF....WAVE",
        "memo.rec": b"fLaC",
        "x.opus2": b"OggS",
        "y": b"....ftypisom",
    }
    others = {
        "note": b"text",
        "z.jpg": b"\xff\xd8",
        "p.heif": b"....ftypheic",
        "p.webp": b"RIFF....WEBP",
    }
    for each, start in {**starts, **others, ".memo": b"fLaC", "a.denoised.rec": b"fLaC"}.items():
        Path("in", each).write_bytes(start)
    made = plan([name])
    assert made.jobs[0].source == "in/a.wav" and made.problems == []
    assert {os.path.basename(path) for path in made.passed} == set(starts)
    sentence = "skipped 4 with an unknown extension or none; to read one, name it"
    assert describe_skipped(made.passed) == sentence
    assert sources(*(f"in/{each}" for each in starts)) == [f"in/{each}" for each in starts]
    for path in tree.rglob("*.wav"):
        path.unlink()
    assert plan([name]).problems[0].sentence.endswith(f" no audio files; {sentence}")
