"""``alphamf serve`` as a command: what it refuses, whom it lets in, what it leaves."""

import os
import re
import signal
import socket
import stat
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import alphamf.serving
from tests.support.commands import run, until

pytest.importorskip("uvicorn", reason="the extra web is not installed")

from benchmarks.page_server import Server, running
from tests.support.places import DATA

TOKEN = "a-token-of-this-test"


EVERYWHERE = ["--host", "0.0.0.0"]
WEAK = "ALPHAMF_TOKEN must have at least 16 characters"


@pytest.mark.parametrize(
    ("token", "options", "sentence"),
    [
        (None, ["--port", "-1"], "--port must be from 0 to 65535, not -1"),
        (None, ["--port", "99999"], "--port must be from 0 to 65535, not 99999"),
        (None, ["--max-size", "0"], "--max-size must be at least 1, not 0"),
        (None, ["--jobs", "0"], "--jobs must be at least 1, not 0"),
        (None, EVERYWHERE, "set the environment variable ALPHAMF_TOKEN"),
        (None, ["--host", "no such host"], "ALPHAMF_TOKEN"),
        (None, [*EVERYWHERE, "--public"], "--name"),
        (TOKEN, EVERYWHERE, "--name"),
        ("short", [*EVERYWHERE, "--name", "a.example"], WEAK),
        ("a token with spaces in it", [*EVERYWHERE, "--name", "a.example"], WEAK),
        ("../../../../etc/passwd", [*EVERYWHERE, "--name", "a.example"], WEAK),
    ],
)
def test_what_cannot_be_served_is_one_sentence(token, options, sentence, monkeypatch):
    monkeypatch.setenv("ALPHAMF_TOKEN", token or "")
    result = run("serve", "--no-browser", *options, code=2)
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_public_server_lets_everybody_in_and_keeps_no_names(tmp_path):
    with running(tmp_path / "tmp", "--public", "--jobs", "1") as server:
        assert server.path == "/"
        found = server.json("GET", "api/server")
        assert (found["named"], found["kept_minutes"], found["max_minutes"]) == (False, 15, 10)
        key = server.send(DATA / "sample-noisy.wav", name="Dr. Miller, diagnosis.wav")
        state = server.wait(key)
        assert state["state"] == "done" and state["output"] == "recording.denoised.wav"
        assert "Miller" not in str(state) + str(server.files()) + server.said()
        assert server.ask("GET", f"api/recordings/{'0' * 32}")[0] == 404  # an id must be known
        headers = server.ask("GET", "", whole=False)[1]
        assert "frame-ancestors" not in headers["content-security-policy"]
        # Another site's page, or another name for this address, is refused as everywhere.
        assert server.ask("GET", "api/server", headers={"Host": "evil.example"})[0] == 421


def test_a_port_that_is_taken_is_one_sentence(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = run("serve", "--no-browser", "--port", str(port), code=2)
    assert f"cannot listen on 127.0.0.1:{port}: " in result.stderr


def test_without_the_extra_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    # The package is imported anew; afterwards `alphamf.serving` has to be the one of sys.modules.
    monkeypatch.setattr(alphamf, "serving", alphamf.serving)
    for name in [name for name in sys.modules if name.startswith("alphamf.serving")]:
        monkeypatch.delitem(sys.modules, name)
    result = run("serve", "--no-browser", code=2)
    assert "pip install 'alphamf[web]'" in result.stderr


@pytest.mark.slow
def test_a_server_for_others_answers_to_its_name_alone_and_hides_its_token(tmp_path):
    options = ["--host", "127.0.0.2", "--name", "denoise.example"]
    with running(tmp_path / "tmp", *options, environment={"ALPHAMF_TOKEN": TOKEN}) as server:
        assert TOKEN not in server.said() and "$ALPHAMF_TOKEN" in server.said()
        server.host, server.path = f"127.0.0.2:{server.host.split(':')[1]}", f"/{TOKEN}/"
        assert server.ask("GET", "api/server")[0] == 421
        for name in ("denoise.example", "denoise.example:443", "DENOISE.example"):
            assert server.ask("GET", "api/server", headers={"Host": name})[0] == 200


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="the browser is a shell script")
def test_the_browser_is_led_to_the_page_once_by_a_file_of_the_user(tmp_path):
    """Other users see the arguments of every process, so that no secret is among them."""
    import psutil

    script = tmp_path / "browser"
    script.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/asked.new\nmv {tmp_path}/asked.new {tmp_path}/asked\n'
    )
    script.chmod(0o755)
    server = Server(tmp_path / "tmp", environment={"BROWSER": str(script)}, opens=True)
    try:
        until((tmp_path / "asked").exists)
        address = (tmp_path / "asked").read_text().strip()
        entrance = Path(urlsplit(address).path)
        assert address.startswith("file:///") and tmp_path in entrance.parents
        assert [stat.S_IMODE(each.stat().st_mode) for each in (entrance, entrance.parent)] == [
            0o600,
            0o700,
        ]
        (path,) = set(re.findall(f'http://{server.host}(/open/[^"]+)', entrance.read_text()))
        code = path.rpartition("/")[2]
        process = psutil.Process(server.process.pid)
        for each in [process, *process.children(recursive=True)]:
            seen = " ".join(each.cmdline())
            assert code not in seen and server.path.strip("/") not in seen
        assert code not in address and code not in server.said()
        status, headers, _ = server.ask("GET", path, whole=True)
        assert (status, headers["location"]) == (303, server.path)
        assert server.ask("GET", path, whole=True)[0] == 404
    finally:
        server.stop()
    assert not entrance.exists()


@pytest.mark.skipif(os.name != "posix", reason="links and modes are POSIX")
def test_the_file_for_the_browser_is_a_new_one_and_no_link_is_followed(tmp_path):
    from alphamf.errors import AlphaMFError
    from alphamf.serving.server import write_entrance

    before = os.umask(0)
    try:
        path = write_entrance(tmp_path, "http://127.0.0.1:1/open/a&b")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "url=http://127.0.0.1:1/open/a&amp;b" in path.read_text()
    other = tmp_path / "other"
    for make in (other.touch, lambda: None):  # the file that the link leads to is there, or not
        path.unlink()
        make()
        path.symlink_to(other)
        with pytest.raises(AlphaMFError, match="File exists"):
            write_entrance(tmp_path, "http://127.0.0.1:1/open/secret")
        assert not other.exists() or other.read_text() == ""
        other.unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--no-browser"], "Open http://page/\nPress Ctrl-C to stop it.\n"),
        (
            [],
            "If the browser does not show the page, open http://page/\nPress Ctrl-C to stop it.\n",
        ),
        (["--quiet"], ""),
    ],
)
def test_the_address_is_printed_for_browsers_that_cannot_read_the_file(options, said, monkeypatch):
    from alphamf.serving import server

    monkeypatch.setattr(server, "serve", lambda _, ready: ready("http://page/", Path("/open.html")))
    monkeypatch.setattr("webbrowser.open", lambda _: True)
    assert run("serve", *options).stderr == said


def test_a_browser_that_python_waits_for_is_served(monkeypatch):
    """One of the console, such as w3m: `webbrowser.open` returns when it ends."""
    from alphamf.serving import server

    served, opened = threading.Event(), []

    def serve(serving, ready):
        ready("page", Path("/once"))
        served.set()

    monkeypatch.setattr(server, "serve", serve)
    monkeypatch.setattr("webbrowser.open", lambda _: opened.append(served.wait(5)))
    run("serve")
    until(lambda: opened)
    assert opened == [True]


def test_a_server_ends_with_its_signal_where_the_exception_of_that_was_lost(tmp_path, monkeypatch):
    from alphamf.serving import server
    from alphamf.tools import stopping

    monkeypatch.setattr(stopping._state, "exit_code", 130)
    monkeypatch.setattr(server._Server, "run", lambda *_: None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(SystemExit) as end:
        server.serve(server.Serving(), lambda *_: None)
    assert end.value.code == 130
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_a_stopped_server_leaves_nothing_and_no_process(tmp_path, number):
    import psutil

    server = Server(tmp_path / "tmp", "--jobs", "2")
    keys = [server.send(DATA / "sample-noisy.wav", preset="plain") for _ in range(3)]
    server.wait(keys[0], "denoising")
    workers = psutil.Process(server.process.pid).children(recursive=True)
    server.process.send_signal(getattr(signal, number))
    assert server.process.wait(90) in (130, 143)
    assert "Traceback" not in server.said()
    assert list((tmp_path / "tmp").iterdir()) == []
    psutil.wait_procs(workers, timeout=60)
    assert not any(each.is_running() for each in workers)
    server.stop()
