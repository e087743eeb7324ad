"""``alphamf serve`` as a command: what it refuses, whom it lets in, what it leaves."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time

import pytest

from tests.support.commands import run, until

pytest.importorskip("uvicorn", reason="the extra web is not installed")

from benchmarks.page_server import Server, running
from tests.support.places import DATA

TOKEN = "a-token-of-this-test"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--port", "-1"], "--port must be from 0 to 65535, not -1"),
        (["--port", "99999"], "--port must be from 0 to 65535, not 99999"),
        (["--max-size", "0"], "--max-size must be at least 1, not 0"),
        (["--jobs", "0"], "--jobs must be at least 1, not 0"),
        (["--host", "0.0.0.0"], "set the environment variable ALPHAMF_TOKEN"),
        (["--host", "no such host"], "ALPHAMF_TOKEN"),
    ],
)
def test_what_cannot_be_served_is_one_sentence(options, sentence, monkeypatch):
    monkeypatch.delenv("ALPHAMF_TOKEN", raising=False)
    result = run("serve", "--no-browser", *options, code=2)
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("token", ["short", "a token with spaces in it", "../../../../etc/passwd"])
def test_a_weak_token_is_refused(token, monkeypatch):
    monkeypatch.setenv("ALPHAMF_TOKEN", token)
    result = run("serve", "--no-browser", "--host", "0.0.0.0", "--name", "a.example", code=2)
    assert "ALPHAMF_TOKEN must be 16 or more" in result.stderr


def test_a_server_for_others_needs_its_name(monkeypatch):
    monkeypatch.setenv("ALPHAMF_TOKEN", TOKEN)
    result = run("serve", "--no-browser", "--host", "0.0.0.0", code=2)
    assert "--name" in result.stderr


def test_a_port_that_is_taken_is_one_sentence(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = run("serve", "--no-browser", "--port", str(port), code=2)
    assert f"127.0.0.1:{port} cannot be listened at" in result.stderr


def test_without_the_extra_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
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
def test_the_browser_is_led_to_the_page_once(tmp_path):
    """Other users see the arguments of a process, so that the token is not among them."""
    script = tmp_path / "browser"
    script.write_text(
        f'#!/bin/sh\necho "$1" > {tmp_path}/asked.new\nmv {tmp_path}/asked.new {tmp_path}/asked\n'
    )
    script.chmod(0o755)
    server = Server(tmp_path / "tmp", environment={"BROWSER": str(script)}, opens=True)
    try:
        until((tmp_path / "asked").exists)
        address = (tmp_path / "asked").read_text().strip()
        assert server.path.strip("/") not in address
        path = address.partition(server.host)[2]
        status, headers, _ = server.ask("GET", path, whole=True)
        assert (status, headers["location"]) == (303, server.path)
        assert server.ask("GET", path, whole=True)[0] == 404
    finally:
        server.stop()


def test_a_browser_that_python_waits_for_is_served(monkeypatch):
    """One of the console, such as w3m: `webbrowser.open` returns when it ends."""
    from alphamf.serving import server

    served, opened = threading.Event(), []

    def serve(serving, ready):
        ready("page", "once")
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
@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGHUP"])
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


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
def test_what_a_killed_server_left_is_deleted_by_the_next_and_that_of_others_is_not(tmp_path):
    killed = Server(tmp_path / "tmp")
    killed.send(DATA / "sample-noisy.wav", preset="plain")
    left = {path.name for path in (tmp_path / "tmp").iterdir()}
    killed.process.kill()
    killed.stop()
    foreign = tmp_path / "tmp/alphamf-serve-link"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/file").touch()
    foreign.symlink_to(tmp_path / "elsewhere")
    time.sleep(1)  # its workers end, too
    with running(tmp_path / "tmp") as first:
        mine = {path.name for path in (tmp_path / "tmp").iterdir()} - {foreign.name}
        assert len(mine) == 1 and not mine & left
        with running(tmp_path / "tmp"):
            assert mine < {path.name for path in (tmp_path / "tmp").iterdir()}
        assert first.ask("GET", "api/server")[0] == 200
    assert (tmp_path / "elsewhere/file").exists()
