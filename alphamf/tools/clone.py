"""Find the installed package if Python runs in a clone of the repository and imports its sources.

The sources are not the whole package: ``cli/`` and ``models/`` are outside of them, and the
compiled loops are elsewhere.
"""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec


def package_path(sources: str) -> list[str]:
    """Return the folders of alphamf's modules; raise ImportError or SystemExit if not found."""
    if find_spec("alphamf.cli"):
        return [sources]
    clone = os.path.dirname(os.path.abspath(sources))
    others = [place for place in sys.path if os.path.abspath(place or os.curdir) != clone]
    spec = PathFinder.find_spec("alphamf", others)
    if spec is None or not spec.submodule_search_locations:
        sentence = f"alphamf is not installed in this Python: run 'pip install {clone}'"
        if sys.argv[:1] == ["-m"]:  # python -m alphamf
            raise SystemExit(f"Error: {sentence}")
        raise ImportError(sentence)
    return list(spec.submodule_search_locations)
