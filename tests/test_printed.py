"""Every command that is printed for users runs as printed, in a clone with a fresh environment.

Read are the blocks of shell commands in README.md, docs/start and docs/guide, and what alphamf says
about extras. The first block of README.md that installs alphamf makes the environment. What cannot
run here is named in `ELSEWHERE`, with the reason; its options are read by the command line all the
same.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
import typer

from alphamf.cli.app import app
from tests.support.places import ROOT, checkout

PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs" / "start").glob("*.md")),
    *sorted((ROOT / "docs" / "guide").glob("*.md")),
]

ELSEWHERE = {
    r"pytest": "the tests themselves",
    r"^(git|cd|sudo|docker|uv|pipx|conda|ffmpeg|tar|ALPHAMF_DATA=|curl|export) ?": "not alphamf's",
    r"^python -m (alphamf\.training|benchmarks)": "hours of training and measuring",
    r"^alphamf live": "needs a sound card",
    r"^alphamf plugin (install|remove)": "changes the user's files",
    r"--device cuda": "needs a graphics card",
    r"^alphamf adapt": "trains for a quarter of an hour",
    r"--asr": "downloads a recogniser",
    r"noizeus|/path/|librispeech": "needs a corpus",
    r"--cluster tcp": "needs a cluster",
    r"^pip install .*(cuda|learn|asr|torch)": "gigabytes",
}
"""Patterns of commands that are not run, and why."""

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
    bare = line.replace(".venv/bin/", "")
    return next((why for pattern, why in ELSEWHERE.items() if re.search(pattern, bare)), None)


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


def test_pages_print_commands():
    assert {each.page for each in ALL} >= {"README.md", "docs/start/index.md"}
    assert sum(reason(each.line) is None for each in ALL) > 20


class Clone(NamedTuple):
    """A copy of the repository with an environment in ``.venv``."""

    folder: Path

    def run(self, line: str) -> tuple[int, str]:
        """Run a line of shell in the activated environment; return its code and output."""
        path = f"{self.folder / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "BROWSER": "true", "HOME": str(self.folder)}
        environment.pop("PYTHONPATH", None)
        with open(self.folder / "output", "w+b") as output:
            process = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", line], cwd=self.folder, env=environment,
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


def write_recordings(folder: Path) -> None:
    """Write what the pages' commands name: recordings, a video, folders of speech and noise."""
    import soundfile

    clean, rate = soundfile.read(ROOT / "data" / "sample-clean.wav")
    noisy, _ = soundfile.read(ROOT / "data" / "sample-noisy.wav")
    two = 2 * rate
    for name in ("clean-speech", "my-voices", "voices", "my-noise", "my-noises", "talks"):
        (folder / name).mkdir(exist_ok=True)
        for k in range(2):
            part = slice(k * two, (k + 1) * two)
            noise = "nois" in name
            sound = (noisy - clean)[part] if noise else (noisy if name == "talks" else clean)[part]
            soundfile.write(folder / name / f"{name}{k}.wav", sound, rate)
    for name in ("talk", "interview", "two-callers", "call", "a"):
        soundfile.write(folder / f"{name}.wav", noisy[: 4 * rate], rate)


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clone")
    checkout(folder)
    write_recordings(folder)
    first = next(each for each in ALL if "-m venv" in each.line and each.page == "README.md")
    made = Clone(folder)
    code, said = made.run(first.line)
    assert code == 0, f"{first.page}:{first.number}: {first.line}\n{said}"
    written = made.run(
        "python -c \"import av; from fractions import Fraction as F; c = av.open('talk.mp4', 'w')\n"
        "s = c.add_stream('aac', rate=16000); s.layout = 'mono'\n"
        "for f in av.open('talk.wav').decode(audio=0):\n  c.mux(s.encode(f))\n"
        'c.mux(s.encode()); c.close()"'
    )
    assert written[0] == 0, written[1]
    return made


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the blocks are of a POSIX shell")
def test_every_printed_command_runs(clone):
    failed, ran = [], 0
    for each in ALL:
        line = each.line
        if reason(line) is not None or "-m venv" in line or line.startswith("source "):
            continue
        if re.match(r"(\.venv/bin/)?pip install", line):
            line = line.replace("pip install", "pip install --dry-run", 1)
        ran += 1
        code, said = clone.run(line)
        known = "already exists" in said and "use --overwrite" in said  # of an earlier page
        if code != 0 and not known:
            failed.append(f"{each.page}:{each.number}: {each.line}\n{said[-600:]}")
        print(f"{'ok' if code == 0 or known else 'FAILED':7}{each.page}:{each.number}: {each.line}")
    assert not failed, "\n\n".join(failed)
    assert ran > 20


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the blocks are of a POSIX shell")
@pytest.mark.parametrize(
    "line",
    [
        "alphamf serve --no-browser",
        "alphamf live --list-devices",
        "alphamf denoise talk.wav --overwrite --plot talk.png",
        "alphamf evaluate --clean data --noisy data",
        "alphamf adapt --clean my-voices --noise my-noises -o mine-refiner.npz",
    ],
)
def test_what_is_said_about_an_extra_installs_it(clone, line):
    """In the environment of the first command of README.md, which has no extra."""
    code, said = clone.run(line)
    assert code == 2 and said.startswith("Error: "), said
    (command,) = re.findall(r"install it with (.*?)(?: \(|$)", said.strip())
    assert "alphamf[" in command
    code, said = clone.run(command.replace("pip install", "pip install --dry-run", 1))
    assert code == 0 and "does not provide the extra" not in said, said
