"""Build the npm package and the static page from one set of files: ``python -m web.build OUT``.

OUT/npm is ready for ``npm pack``, OUT/page for any web host.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import library

WEB = Path(__file__).parent
ROOT = WEB.parent
STATIC = ROOT / "alphamf" / "serving" / "static"
SHARED = "player.js", "picture.js", "text.js", "wav.js", "style.css", "icon.svg", "sample.flac"
"""Files that the page has in common with that of ``alphamf serve``."""


def build(out: Path) -> None:
    """Write OUT/npm and OUT/page, replacing what is there."""
    npm, page = out / "npm", out / "page"
    for folder in (npm, page):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    with TemporaryDirectory() as made:
        shutil.copyfile(library.build("wasm", Path(made)), npm / "alphamf.wasm")
    library.write_weights(npm)
    for file in [*WEB.glob("*.js"), WEB / "alphamf.d.ts", WEB / "package.json", ROOT / "LICENSE"]:
        shutil.copy(file, npm)
    shutil.copyfile(WEB / "README.md", npm / "README.md")
    licences = (ROOT / "LICENSE", ROOT / "models" / "README.md")
    text = "\n\n".join(file.read_text(encoding="utf-8") for file in licences)
    (npm / "LICENSES.txt").write_text(text, encoding="utf-8")
    for file in npm.iterdir():
        if file.suffix in (".js", ".wasm", ".weights"):
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
    build(parser.parse_args().out)
