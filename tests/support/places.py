"""Where the repository and its sample lie."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DATA = ROOT / "data"
"""Folder of the sample, clean and noisy."""


def checkout(folder: Path) -> list[str]:
    """Copy what is committed or staged to a folder, and return the names; skip without git."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    names = os.fsdecode(listed.stdout).split("\0")[:-1]
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return names
