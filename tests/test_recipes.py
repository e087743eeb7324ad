"""Programs and sums of the recipes are as the pages say; `test_printed.py` runs their commands."""

import re
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


@pytest.mark.slow
def test_a_corpus_is_sorted_by_its_noise(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("corpus").mkdir()
    (program,) = blocks("corpus", "python")
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
