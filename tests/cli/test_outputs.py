"""What commands may write to: no link in the place of a name that they chose, no file of others."""

import os
import shutil
from pathlib import Path

import pytest

from alphamf.batch.inputs import would_overwrite
from alphamf.errors import AlphaMFError
from alphamf.learnt.dictionary import load
from alphamf.learnt.network_file import find
from alphamf.learnt.refiner import Refiner
from alphamf.tools import files, temporary
from tests.support.commands import QUICK, run, sound

posix = pytest.mark.skipif(os.name != "posix", reason="needs links")

DENOISE = ["denoise", "in/0.wav", *QUICK]
TRAIN = ["train", "in", "--rank", "2", "--steps", "2", "-q"]
MIX = ["mix", "in/0.wav", "--noise", "in/1.wav", "-o", "out", "--snr", "5", "--overwrite", "-q"]
EVALUATE = ["evaluate", "--pairs", "in/p.csv", "--method", "noisy", "-o", "out", "--jobs", "1"]
EXPERIMENT = ["experiment", "normal-1d", "--output", "out", "--jobs", "1", "-q"]

EVALUATED = ["results.jsonl", "settings.json", "results.csv", "summary.md", "report.html"]

DERIVED = {
    "in/0.denoised.wav": [*DENOISE, "--overwrite"],
    "out/0.wav": [*DENOISE, "--output-dir", "out", "--overwrite"],
    "out/below": ["denoise", "tree", "--output-dir", "out", *QUICK, "--overwrite"],
    "out/pairs.csv": MIX,
    "out/clean": MIX,
    "out/clean/0.flac": MIX,
    "out/noisy/1_5dB": MIX,
    **{f"out/{name}": EVALUATE for name in (*EVALUATED, "audio", "audio/noisy")},
    "out/audio/clean/0.flac": EVALUATE,
    **{f"out/normal-1d.{ending}": EXPERIMENT for ending in ("jsonl", "csv", "md", "png")},
}
"""Names that a command chooses below a folder that the user named."""

KINDS = "file", "folder", "nowhere", "pipe"
SLOW = "p.png", "normal-1d", "results.csv", "summary.md", "audio/noisy", "noisy/1_5dB"
SLOW += "folder", "nowhere"


def cases(table, kinds=("",)):
    """Return the cases of a table; the quick suite has some of each command and kind."""
    found = [
        (f"{name}-{kind}", words, name, kind) for name, words in table.items() for kind in kinds
    ]
    return [
        pytest.param(*rest, id=id, marks=[pytest.mark.slow] * any(each in id for each in SLOW))
        for id, *rest in found
    ]


def everything() -> dict[str, bytes | str]:
    """Return all files and links below the current folder, but for temporary ones."""
    found = {}
    for place in sorted(Path().rglob("*")):
        if place.is_symlink():
            found[str(place)] = os.readlink(place)
        elif place.is_file():
            found[str(place)] = place.read_bytes()
    return found


@posix
@pytest.mark.parametrize(("words", "name", "kind"), cases(DERIVED, KINDS))
def test_no_name_that_a_command_chose_is_followed(here, words, name, kind):
    Path("tree/below").mkdir(parents=True)
    sound("tree/below/0.wav")
    if words in (EVALUATE, EXPERIMENT) and not name.endswith("jsonl"):
        own = "results" if words is EVALUATE else "normal-1d"
        Path("out").mkdir()
        Path("out", f"{own}.jsonl").touch()  # of a run that was stopped at once
    place = Path(name)
    place.parent.mkdir(parents=True, exist_ok=True)
    Path("victim").write_text("precious")
    Path("folder").mkdir()
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(Path({"file": "victim"}.get(kind, kind)).absolute())
    before = everything()
    result = run(*words, code=2)
    errors = [line for line in result.stderr.splitlines() if not line.startswith("Note")]
    assert "is a pipe or a device" if kind == "pipe" else "is a link" in errors[0]
    assert name in errors[0] and "Traceback" not in result.output
    now = everything()
    kept = set(before) - {"out/results.jsonl", "out/normal-1d.jsonl"}
    assert {path: now.get(path) for path in kept} == {path: before[path] for path in kept}
    assert not os.path.lexists("nowhere") and os.listdir("folder") == []
    assert not list(Path().rglob(".alphamf-*"))


TYPED = {
    "x.wav": [*DENOISE, "-o", "x.wav"],
    "n.wav": [*DENOISE, "-o", "x.wav", "--noise-output", "n.wav"],
    "u.npz": [*DENOISE, "-o", "x.wav", "--uncertainty", "u.npz"],
    "v.csv": [*DENOISE, "-o", "x.wav", "--vad", "v.csv"],
    "p.png": [*DENOISE, "-o", "x.wav", "--plot", "p.png"],
    "m.npz": [*TRAIN, "-o", "m.npz"],
}
"""Names that the user types."""


@posix
@pytest.mark.parametrize(("words", "name", "_"), cases(TYPED))
def test_a_link_that_the_user_named_is_followed(here, words, name, _):
    Path("place").mkdir()
    Path(name).symlink_to(f"place/{name}")
    run(*words)
    assert Path(name).is_symlink() and Path("place", name).stat().st_size > 10
    assert os.listdir("place") == [name]


def refused(*_, **__):
    raise PermissionError(1, "Operation not permitted")


MEANWHILE = {
    **TYPED,
    "0.denoised.wav": DENOISE,
    "0.wav": [*DENOISE, "--output-dir", "out"],
    "0.flac": [word for word in MIX if word != "--overwrite"],
}


@pytest.mark.parametrize(("words", "name", "links"), cases(MEANWHILE, ("links", "no-links")))
def test_a_file_that_appears_meanwhile_is_not_replaced(here, monkeypatch, words, name, links):
    publish, appeared = files.publish, []

    def late(part, file, final, **options):
        if final.name == name:
            final.write_text("mine")
            appeared.append(final)
        publish(part, file, final, **options)

    monkeypatch.setattr(files, "publish", late)
    if links == "no-links":
        monkeypatch.setattr(os, "link", refused)
    result = run(*words, code=2)
    assert f"{name} already exists; use --overwrite to replace it" in result.stderr
    assert appeared and all(path.read_text() == "mine" for path in appeared)
    assert name == "x.wav" or not Path("x.wav").exists()  # which comes last
    assert not list(Path().rglob(".alphamf-*"))
    shutil.rmtree("out", ignore_errors=True)
    run(*words, "--overwrite")
    assert all(path.read_bytes() != b"mine" for path in appeared)


WITHOUT = [(), ("_rename_exclusively",), ("link",), ("_rename_exclusively", "link")]
"""What a file system may not have."""


@pytest.fixture(params=WITHOUT, ids=lambda names: "without " + "+".join(names))
def file_system(request, monkeypatch):
    for name in request.param:
        monkeypatch.setattr(os if name == "link" else temporary, name, refused)


@pytest.mark.usefixtures("file_system")
def test_a_name_that_is_free_is_taken_at_once(here):
    Path("empty").touch()
    for name in ("x", "empty"):
        with files.atomic_file(name, replace=False) as part:
            part.write_text("x")
        assert Path(name).read_text() == "x" and os.stat(name).st_nlink == 1
    assert sorted(os.listdir()) == ["empty", "in", "x"]
    Path("other").write_text("mine")
    for name, make in (("y", os.symlink), ("z", shutil.copyfile)):
        with pytest.raises(AlphaMFError, match=f"{name} already exists"):
            with files.atomic_file(name, replace=False) as part:
                part.write_text("theirs")
                make("other", name)
        assert Path(name).read_text() == "mine"


@pytest.mark.parametrize(
    "read",
    [lambda: load("speech-8k"), lambda: Refiner.load(find("refiner-8k"))],
    ids=["dictionary", "network"],
)
def test_a_model_is_not_replaced_where_that_is_not_allowed(here, read):
    """As by `train` and `adapt` without --overwrite; an empty file is no result."""
    Path("m.npz").touch()
    assert not would_overwrite("m.npz") and not would_overwrite("in")
    Path("m.npz").write_text("mine")
    assert would_overwrite("m.npz")
    with pytest.raises(AlphaMFError, match=r"m\.npz already exists"):
        read().save("m.npz", replace=False)
    assert Path("m.npz").read_text() == "mine" and sorted(os.listdir()) == ["in", "m.npz"]
    read().save("m.npz")
    assert Path("m.npz").stat().st_size > 100


OTHERS = {
    **{f"out/{name}": EVALUATE for name in (*EVALUATED, "audio/noisy/1.flac")},
    **{f"out/normal-1d.{ending}": EXPERIMENT for ending in ("jsonl", "csv", "md", "png")},
}


@pytest.mark.parametrize(("words", "name"), [(words, name) for name, words in OTHERS.items()])
def test_a_folder_that_holds_files_of_others_is_refused(here, words, name):
    place = Path(name)
    place.parent.mkdir(parents=True)
    place.write_text("of mine\n")
    before = everything()
    result = run(*words, code=2)
    top = "/".join(place.parts[:2])
    sentence = "already exists and is not a result of alphamf; choose another folder"
    assert result.stderr == f"Error: {top} {sentence}\n" and everything() == before


CUT = b'{"version": "0.0.1", "k'


@pytest.mark.parametrize(
    ("words", "rest"),
    [
        *((EVALUATE, rest) for rest in (b"", b'{"ver', CUT)),
        pytest.param(EXPERIMENT, CUT, marks=pytest.mark.slow),
    ],
)
def test_a_folder_of_a_stopped_run_is_written_again(here, words, rest):
    """Of a run that was killed, or whose disk was full: its last line is cut off."""
    lines, table = (
        ("results", "report.html") if words is EVALUATE else ("normal-1d", "normal-1d.md")
    )
    Path("out").mkdir()
    Path("out", f"{lines}.jsonl").write_bytes(rest)
    Path("out", table).write_bytes(b"old")
    run(*words)
    assert Path("out", table).read_bytes() != b"old"
