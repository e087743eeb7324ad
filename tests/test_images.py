"""The images: without Docker, their commands are run in a folder, as a user without rights."""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.support.commands import until
from tests.support.places import DATA, ROOT, checkout

IMAGES = {name: ROOT / name for name in ("Dockerfile", "docs/demo/Dockerfile")}
TOKEN = "a-token-of-this-test"


def stages(name: str) -> list[list[tuple[str, str]]]:
    """Return the instructions of each stage of a Dockerfile, and what follows them."""
    text = IMAGES[name].read_text(encoding="utf-8").replace("\\\n", " ")
    found: list[list[tuple[str, str]]] = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            first, _, rest = line.partition(" ")
            found += [[]] if first == "FROM" else []
            found[-1].append((first, " ".join(rest.split())))
    return found


def command(name: str) -> str:
    """Return what the image runs, as a line of shell."""
    (kind, text) = stages(name)[-1][-1]
    if kind == "ENTRYPOINT":
        return shlex.join(["exec", *json.loads(text), "--name", "localhost"])
    assert kind == "CMD"
    return text


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_has_no_compiler_and_its_user_no_rights(name):
    build, image = stages(name)
    assert build == stages("Dockerfile")[0]
    copied = [text for kind, text in image if kind in ("COPY", "ADD")]
    assert copied == ["--from=build /venv /venv"]
    made = [re.fullmatch(r"useradd (.*)", text)[1] for kind, text in image if kind == "RUN"]
    assert len(made) == 1 and "--no-create-home" in made[0] and "-G" not in made[0].split()
    assert int(re.search(r"--uid (\d+)", made[0])[1]) >= 1000
    user = [text for kind, text in image if kind == "USER"]
    assert user == [made[0].split()[-1]]  # and so not root
    (port,) = (text for kind, text in image if kind == "EXPOSE")
    assert f"--port {port} " in command(name)
    assert [f"127.0.0.1:{port}/health" in text for kind, text in image if kind == "HEALTHCHECK"]


@pytest.fixture(scope="module")
def installed():
    """Run what installs the package into /venv, in a folder that everybody may read."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        folder.chmod(0o755)
        checkout(folder / "source")
        for left_out in (ROOT / ".dockerignore").read_text(encoding="utf-8").split():
            if "*" not in left_out:
                shutil.rmtree(folder / "source" / left_out, ignore_errors=True)
        system = shutil.which("python3", path="/usr/bin")  # one that every user may run
        python = system if system and sys.version_info[:2] == version(system) else sys.executable
        for kind, text in stages("Dockerfile")[0]:
            if kind == "RUN" and not text.startswith("apt-get"):
                line = re.sub(r"(?<![\w.])/(venv|source)\b", rf"{folder}/\1", text)
                line = re.sub(r"\bpython -m venv", f"{python} -m venv", line)
                line = re.sub(r"\bpip --python", f"{sys.executable} -m pip -q --python", line)
                subprocess.run(["sh", "-ec", line], check=True, cwd=folder)
        (folder / "tmp").mkdir()
        (folder / "tmp").chmod(0o1777)
        yield folder, python == system


def version(python: str) -> tuple[int, ...]:
    """Return the first two numbers of an interpreter's version."""
    show = "import sys; print(*sys.version_info[:2])"
    done = subprocess.run([python, "-c", show], check=True, capture_output=True, text=True)
    return tuple(map(int, done.stdout.split()))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed")
@pytest.mark.parametrize("name", IMAGES)
def test_what_an_image_installs_serves_a_user_without_rights(name, installed):
    folder, for_all = installed
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    without = ["setpriv", "--no-new-privs"]
    if os.geteuid() == 0:
        without += ["--bounding-set=-all", "--inh-caps=-all"]
        without += ["--reuid=1000", "--regid=1000", "--clear-groups"] if for_all else []
    process = subprocess.Popen(
        [*without, "sh", "-ec", command(name).replace("8000", str(port))],
        cwd="/", stdin=subprocess.DEVNULL,
        env={"PATH": f"{folder}/venv/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1",
             "SPACE_HOST": "localhost", "ALPHAMF_TOKEN": TOKEN, "TMPDIR": f"{folder}/tmp"},
    )  # fmt: skip

    def ask(path: str, body: bytes | None = None) -> bytes:
        start = "" if path == "health" or "demo" in name else f"{TOKEN}/"
        kind = {"Content-Type": "application/octet-stream"}  # urllib says else that it is a form
        asked = Request(f"http://localhost:{port}/{start}{path}", body, kind)
        with urlopen(asked, timeout=60) as answer:
            return answer.read()

    def healthy() -> bool:
        assert process.poll() is None
        with suppress(OSError):
            return bool(ask("health"))
        return False

    try:
        until(healthy)
        sent = ask("api/recordings?name=a.wav", (DATA / "sample-noisy.wav").read_bytes())
        key = json.loads(sent)["id"]
        until(lambda: json.loads(ask(f"api/recordings/{key}"))["state"] in ("done", "failed"))
        result = ask(f"api/recordings/{key}/result")
        assert len(result) == (DATA / "sample-noisy.wav").stat().st_size
    finally:
        process.terminate()  # as Docker does
        process.wait(60)
    assert list((folder / "tmp").iterdir()) == []  # nothing stays, and nothing could be elsewhere
