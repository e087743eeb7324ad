"""Programs and sums of the recipes are as the pages say; `test_printed.py` runs their commands."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.support.places import DATA, ROOT

GUIDE = ROOT / "docs/guide"
RECIPES = ("podcast", "interview", "room", "calls", "field", "obs", "corpus", "which")


def blocks(name: str, language: str) -> list[str]:
    text = (GUIDE / f"{name}.md").read_text(encoding="utf-8")
    found = re.findall(rf"^ *```{language}\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)
    return [re.sub(r"^   ", "", block, flags=re.MULTILINE) for block in found]


def commands(name: str) -> list[list[str]]:
    lines = [line.strip() for block in blocks(name, "sh") for line in block.splitlines()]
    words = [shlex.split(line, comments=True) for line in lines if line.startswith("alphamf ")]
    assert words, f"{name} has no command"
    return words


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Go to a folder with a walk, half a second of the sample, and a place for a corpus."""
    monkeypatch.chdir(tmp_path)
    audio, rate = soundfile.read(DATA / "sample-noisy.wav", frames=8000)
    soundfile.write("walk.wav", audio, rate)
    Path("corpus").mkdir()
    return tmp_path


def run(*words: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.slow
def test_the_parts_of_a_field_recording_add_up(here):
    (words,) = [words for words in commands("field") if "--noise-output" in words]
    run("-m", *words)
    walk, voice, place = (soundfile.read(f"{name}.wav")[0] for name in ("walk", "voice", "place"))
    assert np.abs(voice + place - walk).max() <= 2**-14


@pytest.mark.slow
def test_a_corpus_is_sorted_by_its_noise(here):
    (program,) = blocks("corpus", "python")
    clean, rate = soundfile.read(DATA / "sample-clean.wav", frames=24000)
    noise = np.random.default_rng(0).standard_normal(len(clean))
    noise *= np.sqrt(np.mean(clean**2) / np.mean(noise**2))
    for name, decibels in (("quiet", 90), ("usable", 18), ("noisy", -5)):
        soundfile.write(f"corpus/{name}.wav", clean + 10 ** (-decibels / 20) * noise, rate)
    said = run("-c", program, "corpus", "sorted").stdout
    assert [line.split(":")[0] for line in said.splitlines()] == [
        "noisy.wav", "quiet.wav", "usable.wav",
    ]  # fmt: skip
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
