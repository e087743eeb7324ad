"""Every command that is printed for users runs as printed, in a clone with a fresh environment.

Read are the blocks of shell commands of `PAGES`. Each page has a folder of its own, which looks
like the clone and holds recordings.
What cannot run here is listed in docs/packages.md, with the reason; its options are read by the
command line all the same.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import soundfile
import typer

from alphamf.cli.app import app
from tests.support.places import DATA, ROOT, checkout

PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs" / "start").glob("*.md")),
    *sorted((ROOT / "docs" / "guide").glob("*.md")),
    *(ROOT / "docs" / f"{name}.md" for name in ("index", "streams", "live", "media", "plugins")),
]

LISTED = ROOT / "docs" / "packages.md"
"""The page that lists which commands are not run, and why."""


_TABLE = LISTED.read_text(encoding="utf-8").partition("| commands with | are not run: |")[2]
_ROWS = re.findall(r"^\| (`.+`) \| (.+) \|$", _TABLE.partition("\n\n")[0], re.MULTILINE)
ELSEWHERE = {part: why for parts, why in _ROWS for part in re.findall(r"`([^`]+)`", parts)}
"""What is not run: parts of commands, and why."""


SECONDS = 5
"""How long a command may serve before it is stopped, as it would go on for ever."""


class Command(NamedTuple):
    """A printed line of shell, and where it stands."""

    page: str
    number: int
    line: str


def commands(page: Path) -> list[Command]:
    """Return the lines of a page's blocks of shell commands, without comments."""
    found, language, held, start = [], None, "", 0
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```"):
            language = None if language is not None else line[3:].strip()
        elif language in ("sh", "bash"):
            start = start if held else number
            held += line.removesuffix("\\")
            if not line.endswith("\\"):
                text = re.sub(r"(^|\s+)#\s.*$", "", held).strip()
                held = ""
                if text:
                    found.append(Command(str(page.relative_to(ROOT)), start, text))
    return found


ALL = [each for page in PAGES for each in commands(page)]
OWN = re.compile(r"(?:^|&& |\| )(?:\.venv/bin/)?alphamf ([^|<>&]*)")
"""A call of alphamf in a line of shell."""


def reason(line: str) -> str | None:
    """Return why a command is not run here, or None."""
    both = f"{line}\n{line.replace('.venv/bin/', '')}"
    return next((why for part, why in ELSEWHERE.items() if part in both), None)


@pytest.mark.parametrize("each", ALL, ids=lambda each: f"{each.page}:{each.number}")
def test_the_command_line_knows_every_option_that_is_printed(each):
    known = typer.main.get_command(app)
    for called in OWN.findall(each.line):
        name, *words = shlex.split(called)
        if name.startswith("-"):
            continue
        command = known.commands[name]
        if name == "plugin":
            assert words[0] in command.commands
        elif "--help" not in words:
            # From a pipe comes `-`; an empty list of words would print the help.
            with command.make_context(name, list(words)) as context:
                assert set(context.params) == {parameter.name for parameter in command.params}


def test_pages_print_commands_and_no_part_of_the_list_is_left_over():
    """Every part is one of a printed command, so that the list cannot hide more than it says."""
    assert {each.page for each in ALL} >= {"README.md", "docs/start/index.md"}
    assert sum(reason(each.line) is None for each in ALL) > 15
    assert len(ELSEWHERE) > 15
    assert [part for part in ELSEWHERE if not any(part in each.line for each in ALL)] == []


class Clone(NamedTuple):
    """A copy of the repository with an environment in ``.venv``."""

    root: Path

    def run(self, line: str, folder: Path) -> tuple[int, str]:
        """Run a line of shell in the activated environment; return its code and output."""
        path = f"{self.root / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "BROWSER": "true", "HOME": str(self.root)}
        environment.pop("PYTHONPATH", None)
        if "pip install" in line or "-m venv" in line:  # in the clone itself
            folder = self.root
        with open(self.root / "output", "w+b") as output:
            process = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", line], cwd=folder, env=environment,
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
            serves = "alphamf serve" in line
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=SECONDS if serves else 1800)
            running = process.poll() is None
            if running:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait(timeout=60)
            output.seek(0)
            said = output.read().decode(errors="replace")
        return 0 if running and serves else process.returncode, said

    def folder(self, name: str) -> Path:
        """Return a folder that looks like the clone, and holds what the pages' commands name."""
        made = self.root.parent / name.replace("/", "-")
        made.mkdir()
        for each in [*self.root.iterdir()]:
            (made / each.name).symlink_to(each)
        write_recordings(made)
        return made


def write_recordings(folder: Path) -> None:
    """Write recordings, a video, and folders of speech and noise."""
    clean, rate = soundfile.read(ROOT / "data" / "sample-clean.wav", frames=64000)
    noisy, _ = soundfile.read(ROOT / "data" / "sample-noisy.wav", frames=64000)
    sounds = {"noisy": noisy, "clean": clean, "noise": noisy - clean}
    kinds = {
        "clean": ("clean-speech", "my-voices", "voices"),
        "noise": ("my-noise", "my-noises"),
        "noisy": ("talks", "calls", "corpus", "episodes"),
    }
    for kind, names in kinds.items():
        for name in names:
            (folder / name).mkdir()
            for k in range(2):
                part = sounds[kind][k * 2 * rate : (k + 1) * 2 * rate]
                soundfile.write(folder / name / f"{'ab'[k]}.wav", part, rate)
    names = "talk lecture interview two-callers call episode host guest walk take"
    for name in names.split():
        stereo = np.stack([noisy, noisy[::-1]], axis=1)
        soundfile.write(folder / f"{name}.wav", stereo if name[0] in "itc" else noisy, rate)


def write_video(path: Path, sound: Path) -> None:
    """Write a recording as both sounds of a video."""
    import av

    with av.open(str(path), "w") as made, av.open(str(sound)) as read:
        streams = [made.add_stream("aac", rate=16000) for _ in range(2)]
        for frame in [*read.decode(audio=0), None]:
            for stream in streams:
                made.mux(stream.encode(frame))


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """Install alphamf without an extra, as `pip install .` does."""
    root = tmp_path_factory.mktemp("pages") / "clone"
    root.mkdir()
    checkout(root)
    made = Clone(root)
    code, said = made.run("python3 -m venv .venv && .venv/bin/pip install --quiet .", root)
    assert code == 0, said
    return made


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the blocks are of a POSIX shell")
def test_every_printed_command_runs(clone):
    wrong, folders = [], {}
    for each in ALL:
        why = reason(each.line)
        if why is None:
            if each.page not in folders:
                folders[each.page] = clone.folder(each.page)
                write_video(folders[each.page] / "talk.mp4", folders[each.page] / "talk.wav")
                for name in ("interview.mp4", "interview.mkv"):
                    write_video(folders[each.page] / name, folders[each.page] / "talk.wav")
            code, said = clone.run(each.line, folders[each.page])
            # A page may show a command again that has made its output.
            if code and not ("already" in said and "use --overwrite" in said):
                wrong.append(f"{each.page}:{each.number}: {each.line}\n{said[-600:]}")
                why = "FAILED"
        print(f"{why or 'ok':40}{each.page}:{each.number}: {each.line}")
    assert not wrong, "\n\n".join(wrong)


# The recipes of the guide.

GUIDE = ROOT / "docs/guide"
RECIPES = ("podcast", "interview", "room", "calls", "field", "obs", "corpus", "which")


@pytest.mark.slow
def test_a_corpus_is_sorted_by_its_noise(empty):
    Path("corpus").mkdir()
    text = (GUIDE / "corpus.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    clean, rate = soundfile.read(DATA / "sample-clean.wav", frames=24000)
    noise = np.random.default_rng(0).standard_normal(len(clean))
    noise *= np.sqrt(np.mean(clean**2) / np.mean(noise**2))
    for name, decibels in (("quiet", 90), ("usable", 18), ("noisy", -5)):
        soundfile.write(f"corpus/{name}.wav", clean + 10 ** (-decibels / 20) * noise, rate)
    command = [sys.executable, "-c", program, "corpus", "sorted"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
    found = [line.split(":")[0] for line in said.splitlines()]
    assert found == ["noisy.wav", "quiet.wav", "usable.wav"]
    assert "noisy.wav" not in {path.name for path in Path("sorted").iterdir()}
    usable, before = (soundfile.read(f"{f}/usable.wav")[0] for f in ("sorted", "corpus"))
    assert np.mean((usable - clean) ** 2) < np.mean((before - clean) ** 2) / 2


def test_every_recipe_can_be_found_and_has_a_sound():
    index = (GUIDE / "index.md").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in (*RECIPES, "transcription"):
        assert re.search(rf"^{name}$", index, re.MULTILINE), name
        assert f"docs/guide/{name}.md" in readme, name
    for name in RECIPES:
        text = (GUIDE / f"{name}.md").read_text(encoding="utf-8")
        sounds = re.findall(r"\]\(([^)]+\.(?:mp3|wav))\)", text)
        assert len(sounds) >= 2, name
        for sound in sounds:
            assert soundfile.info(GUIDE / sound).duration > 3, sound
    shipped = {path.name for path in (ROOT / "docs/listen").glob("*.mp3")}
    assert sum(path.stat().st_size for path in (ROOT / "docs/listen").iterdir()) < 1_000_000
    linked = "".join((GUIDE / f"{name}.md").read_text(encoding="utf-8") for name in RECIPES)
    assert [name for name in sorted(shipped) if name not in linked] == []
