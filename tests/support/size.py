"""How large the project is; `python -m tests.support.size` prints it, and lowers the caps to it.

The caps are in `tests/size.toml`, a line for each room, which is a folder of `alphamf/` or of the
repository. `tests/test_size.py` fails where a room has outgrown its cap. No command raises a cap.
"""

import ast
import subprocess
import sys
import tempfile
import tomllib
import wave
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
CAPS = Path(__file__).parents[1] / "size.toml"
OTHERS = "cli", "benchmarks", "tests", "docs", "web"
SAMPLE = "data/sample-noisy.wav"

# Runs the command in a process of its own and prints the files whose functions it has called.
ENTERED = """
import atexit, inspect, sys, threading
names = set()
def watch(frame, event, what):
    if frame.f_code.co_flags & inspect.CO_OPTIMIZED:  # neither a module nor a class
        names.add(frame.f_code.co_filename)
atexit.register(lambda: (sys.settrace(None), print(*names, sep="\\n", file=sys.stderr)))
from alphamf.cli.start import main
import alphamf.cli.denoise, alphamf.batch.file, alphamf.denoising.workers
sys.argv = ["alphamf", "denoise", *sys.argv[1:]]
threading.settrace(watch)
sys.settrace(watch)
main()
"""

Room = dict[str, int]


@cache
def rooms() -> dict[str, Room]:
    """Return files, lines, lines of code and lines of docstrings of each room."""
    found: dict[str, Counter[str]] = {}
    paths = [path for name in ("alphamf", *OTHERS) for path in (ROOT / name).rglob("*.py")]
    for path in paths:
        first, *inner = path.relative_to(ROOT).parts[:-1]
        if inner[:1] == ["gallery"]:  # written by a build of the site
            continue
        room = "/".join([first, *inner[:1]]) if first == "alphamf" else first
        found.setdefault(room, Counter()).update(count(path.read_text()))
    return {room: dict(found[room]) for room in sorted(found)}


def count(text: str) -> Room:
    """Return the size of a file; blank lines and comments are neither code nor docstrings."""
    docstrings: set[int] = set()
    left: list[ast.AST] = [ast.parse(text)]
    while left:  # statements only, which is five times as fast as ast.walk
        match node := left.pop():
            case ast.Expr(value=ast.Constant(value=str()), lineno=first, end_lineno=int(last)):
                docstrings.update(range(first, last + 1))
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, name, ())
            left += inner if isinstance(inner, list) else ()
    lines = text.splitlines()
    code = [
        line
        for number, line in enumerate(lines, 1)
        if number not in docstrings and line.strip() and not line.lstrip().startswith("#")
    ]
    return {"files": 1, "lines": len(lines), "code": len(code), "docstrings": len(docstrings)}


def entered(folder: Path) -> list[str]:
    """Return the files of alphamf that denoising a second of a WAV file enters, below the root."""
    with wave.open(str(ROOT / SAMPLE)) as sample, wave.open(str(folder / "a.wav"), "w") as file:
        file.setparams(sample.getparams())
        file.writeframes(sample.readframes(sample.getframerate()))
    command = [sys.executable, "-c", ENTERED, str(folder / "a.wav")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    rooms = ROOT / "alphamf", ROOT / "cli"
    files = {Path(name) for name in done.stderr.splitlines() if name.endswith(".py")}
    return sorted(str(path.relative_to(ROOT)) for path in files if {*path.parents} & {*rooms})


def caps() -> dict[str, Room]:
    """Return the caps of all rooms."""
    return tomllib.loads(CAPS.read_text())


def lower(sizes: dict[str, Room]) -> None:
    """Write the caps again, each lowered to the size of today if that is smaller."""
    old = caps() if CAPS.exists() else {}
    lines = ["# Caps that only go down: see `tests/support/size.py`."]
    for room, size in sizes.items():
        new = {key: min(value, old.get(room, size).get(key, value)) for key, value in size.items()}
        inner = ", ".join(f"{key} = {value}" for key, value in new.items())
        lines.append(f'"{room}" = {{ {inner} }}')
    CAPS.write_text("\n".join(lines) + "\n")


def main() -> None:
    """Print all sizes, and lower the caps to them."""
    sizes = rooms()
    with tempfile.TemporaryDirectory() as folder:
        sizes["a wav"] = {"files": len(entered(Path(folder)))}
    lower(sizes)
    print(CAPS.read_text(), end="")
    together = Counter[str]()
    for room in sizes:
        if room.startswith("alphamf") or room == "cli":
            together.update(sizes[room])
    print("alphamf and cli together:", dict(together))


if __name__ == "__main__":
    main()
