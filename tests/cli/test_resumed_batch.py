"""A batch that is stopped and resumed in any order of events, beside a model of what it may do.

The model is a dictionary: what lies at each path. A run makes the output of every input that has
none (of every input with ``--overwrite``), up to where it is stopped, and touches nothing else.
"""

import os
import shutil
import tempfile
from contextlib import chdir
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from alphamf.cli.options import choose_each
from alphamf.tools import files
from alphamf.tools.temporary import _hidden
from tests.support.commands import run, sound

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs links")

NAMES = ("a.wav", "b.flac", "below/a.wav", "below/c.wav")
WORDS = ["--output-dir", "out", "--preset", "fast", "--steps", "2", "--jobs", "1"]

names = st.sampled_from(NAMES)
folders = st.sampled_from(["in", "out"])

_DENOISED: dict[bytes, bytes] = {}
"""Outputs by the bytes of their inputs."""


class Stopped(BaseException):
    """Ends a run from outside."""


def in_this_process(cluster, *, quiet, isolated):
    """Return what does the files one by one, in this process."""
    return choose_each(cluster, quiet=quiet, isolated=False)


def denoised(data: bytes | str, output: str) -> bytes:
    """Return what an undisturbed run makes of the bytes of an input."""
    assert isinstance(data, bytes)
    if data not in _DENOISED:
        name = Path(output).name
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            Path(name).write_bytes(data)
            run("denoise", name, *WORDS)
            _DENOISED[data] = Path("out", name).read_bytes()
    return _DENOISED[data]


def lying() -> dict[str, bytes | str]:
    """Return all files, and where links lead."""
    places = (place for place in Path().rglob("*") if place.is_symlink() or place.is_file())
    return {
        str(place): os.readlink(place) if place.is_symlink() else place.read_bytes()
        for place in places
    }


class Batch(RuleBasedStateMachine):
    """What may happen to a folder of recordings and to that of the outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.started = Path.cwd()
        self.folder = tempfile.mkdtemp(prefix="batch-")
        os.chdir(self.folder)
        for place in ("in/below", "out/below"):
            Path(place).mkdir(parents=True)
        Path("victim").write_text("precious")
        self.model: dict[str, bytes | str] = {"victim": b"precious"}

    def teardown(self) -> None:
        os.chdir(self.started)
        shutil.rmtree(self.folder)

    def put(self, place: str, content: bytes | str) -> None:
        Path(place).unlink(missing_ok=True)
        if isinstance(content, str):
            Path(place).symlink_to(content)
        else:
            Path(place).write_bytes(content)
        self.model[place] = content

    @initialize()
    def begin(self):
        self.add_or_change_an_input("a.wav", 0)
        self.add_or_change_an_input("below/a.wav", 1)

    @rule(name=names, version=st.integers(0, 2))  # version 2 of all is no sound
    def add_or_change_an_input(self, name, version):
        Path(f"in/{name}").unlink(missing_ok=True)
        if version == 2:
            Path(f"in/{name}").write_bytes(b"no sound")
        else:
            sound(f"in/{name}", 0.2, seed=10 * NAMES.index(name) + version)
        self.model[f"in/{name}"] = Path(f"in/{name}").read_bytes()

    @rule(name=names, folder=folders)
    def remove(self, name, folder):
        Path(folder, name).unlink(missing_ok=True)
        self.model.pop(f"{folder}/{name}", None)

    @rule(name=names, content=st.sampled_from([b"of the user", "../victim", "nowhere"]))
    def put_something_in_the_place_of_an_output(self, name, content):
        self.put(f"out/{name}", content)

    @rule(name=st.sampled_from(["notes.txt", "below/notes.txt"]), folder=folders)
    def add_another_file(self, name, folder):
        self.put(f"{folder}/{name}", b"notes")

    @rule(name=names)
    def leave_what_a_killed_run_leaves(self, name):
        self.put(str(_hidden(Path(f"out/{name}"), ".part")), b"half")

    @rule(overwrite=st.booleans(), after=st.integers(0, 4), published=st.booleans())
    def run(self, overwrite, after, published):
        """Denoise the folder; the run is stopped at output number `after`, if it comes so far."""
        made: list[str] = []
        publish = files.publish

        def stopping(part, file, final, **options):
            if len(made) == after and not published:
                raise Stopped
            publish(part, file, final, **options)
            made.append(os.path.relpath(final))
            if len(made) == after + 1:
                raise Stopped

        wanted, refused = self.expect(overwrite=overwrite)
        options = ["--overwrite"] if overwrite else []
        inputs = any(f"in/{name}" in self.model for name in NAMES)
        with (
            patch("alphamf.cli.batch.choose_each", in_this_process),
            patch.object(files, "publish", stopping),
        ):
            try:
                run("denoise", "in", *WORDS, *options, code=2 if refused or not inputs else 0)
            except Stopped:
                assert len(made) == after + published
            else:
                assert len(made) == len(wanted)
        assert len(set(made)) == len(made) and set(made) <= set(wanted)
        for output in made:
            self.model[output] = denoised(self.model[output.replace("out", "in", 1)], output)
            self.model.pop(str(_hidden(Path(output), ".part")), None)
        # Others may have been begun, or could not be read: their temporary files are gone or not.
        gone = [each for each in self.model if ".alphamf-" in each and not os.path.exists(each)]
        self.model = {place: self.model[place] for place in self.model if place not in gone}

    def expect(self, *, overwrite: bool) -> tuple[list[str], bool]:
        """Return the outputs that a run makes, and whether it has to refuse an input."""
        wanted, refused = [], False
        for name in NAMES:
            content, output = self.model.get(f"in/{name}"), self.model.get(f"out/{name}")
            if content is None:
                continue
            if not overwrite and Path(f"out/{name}").is_file():  # through a link, too
                continue
            if isinstance(output, str) or content == b"no sound":
                refused = True
            else:
                wanted.append(f"out/{name}")
        return wanted, refused

    @invariant()
    def all_is_as_in_the_model(self):
        assert lying() == self.model


@pytest.mark.parametrize(
    ("examples", "steps"), [(18, 12), pytest.param(150, 30, marks=pytest.mark.slow)]
)
def test_a_batch_that_is_stopped_and_resumed_does_what_its_model_says(examples, steps):
    fixed = {"derandomize": True, "database": None, "suppress_health_check": list(HealthCheck)}
    options = settings(max_examples=examples, stateful_step_count=steps, deadline=None, **fixed)
    run_state_machine_as_test(Batch, settings=options)
