"""Where the repository and its sample lie."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
DATA = ROOT / "data"
"""Folder of the sample, clean and noisy."""
