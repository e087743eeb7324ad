"""Build the npm package and the static page from one set of files: ``python web/build.py OUT``.

OUT/npm is ready for ``npm pack``, OUT/page for any web host. The engine is compiled to
WebAssembly by the package ziglang, unless ``--wasm`` names a file that was.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

WEB = Path(__file__).parent
ROOT = WEB.parent
STATIC = ROOT / "alphamf" / "serving" / "static"
SHARED = "player.js", "picture.js", "text.js", "wav.js", "style.css", "icon.svg", "sample.flac"
"""Files that the page has in common with that of ``alphamf serve``."""

EXPORTS = "create", "destroy", "reset", "control", "latency", "process"


def compile_engine(target: Path) -> None:
    """Compile the engine to WebAssembly with vectors of 128 bits."""
    native = ROOT / "alphamf" / "native"
    sources = sorted(file for file in native.glob("*.c") if file.name != "plugin.c")
    exports = ["malloc", "free", *(f"alphamf_{name}" for name in EXPORTS)]
    flags = "-O3 -g0 -msimd128 -fno-math-errno -fno-trapping-math -ffp-contract=fast".split()
    subprocess.run(
        [sys.executable, "-m", "ziglang", "cc", "-target", "wasm32-wasi", "-mexec-model=reactor"]
        + [*flags, *map(str, sources), "-o", str(target), "-s"]
        + [f"-Wl,--export={name}" for name in exports],
        check=True,
    )


def write_weights(folder: Path) -> None:
    """Write the weights that the engine reads, those of 16 kHz and those of 8 kHz."""
    from alphamf.denoising.weights import find_online
    from alphamf.native import weights

    for rate, name in ((48000, "alphamf-16k.bin"), (8000, "alphamf-8k.bin")):
        found = find_online(rate)
        (folder / name).write_bytes(weights.pack(found.dictionary, found.online, 0))


def build(out: Path, wasm: Path | None) -> None:
    """Write OUT/npm and OUT/page, replacing what is there."""
    npm, page = out / "npm", out / "page"
    for folder in (npm, page):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    if wasm:
        shutil.copyfile(wasm, npm / "alphamf.wasm")
    else:
        compile_engine(npm / "alphamf.wasm")
    write_weights(npm)
    for file in [*WEB.glob("*.js"), WEB / "alphamf.d.ts", WEB / "package.json", ROOT / "LICENSE"]:
        shutil.copy(file, npm)
    shutil.copyfile(WEB / "README.md", npm / "README.md")
    licences = (ROOT / "LICENSE", ROOT / "models" / "README.md")
    text = "\n\n".join(file.read_text(encoding="utf-8") for file in licences)
    (npm / "LICENSES.txt").write_text(text, encoding="utf-8")
    for file in npm.iterdir():
        if file.suffix in (".js", ".wasm", ".bin"):
            shutil.copy(file, page)
    for file in (*(WEB / "page").iterdir(), *(STATIC / name for name in SHARED)):
        shutil.copy(file, page)
    (page / "licences.txt").write_text(text, encoding="utf-8")
    files = sorted(file.name for file in page.iterdir() if file.name != "offline.js")
    digest = hashlib.sha256(b"".join((page / name).read_bytes() for name in files)).hexdigest()
    offline = (page / "offline.js").read_text(encoding="utf-8")
    offline = offline.replace("@VERSION@", f"alphamf-{digest[:16]}")
    offline = offline.replace("[/* @FILES@ */]", json.dumps(["./", *files]))
    (page / "offline.js").write_text(offline, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--wasm", type=Path, help="compiled engine, in place of compiling it")
    asked = parser.parse_args()
    build(asked.out, asked.wasm)
