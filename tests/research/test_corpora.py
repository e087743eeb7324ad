"""Data sets found by name, or downloaded, and the sentences where neither can be."""

import dataclasses
import functools
import hashlib
import http.server
import logging
import socket
import threading

import numpy as np
import pooch
import pytest

from alphamf.errors import AlphaMFError
from alphamf.research import corpora
from alphamf.research.corpora import CORPORA, find
from tests.support.originals import MADE


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_request(self, *arguments):
        self.server.asked.append(self.path)

    def log_error(self, *arguments):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Serve ``served`` from this machine, and keep what is downloaded in ``cache``."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    monkeypatch.delenv("ALPHAMF_DATA", raising=False)
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)
    (tmp_path / "served").mkdir()
    handler = functools.partial(Quiet, directory=str(tmp_path / "served"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        running.asked = []
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def serve(server, tmp_path, monkeypatch):
    """Have a corpus come from the server, with the contents and the checksums given."""

    def put(name, files, *, sums=None, before=()):
        for file, data in files.items():
            (tmp_path / "served" / file).write_bytes(data)
        source = CORPORA[name].source
        assert [original.name for original in source.originals] == list(files)
        address = f"http://127.0.0.1:{server.server_port}"
        originals = tuple(
            dataclasses.replace(
                original,
                sha256=(sums or {}).get(
                    original.name, hashlib.sha256(files[original.name]).hexdigest()
                ),
                addresses=(*before, f"{address}/{original.name}"),
            )
            for original in source.originals
        )
        source = dataclasses.replace(source, originals=originals)
        monkeypatch.setitem(CORPORA, name, dataclasses.replace(CORPORA[name], source=source))

    return put


@pytest.fixture
def offline(tmp_path, monkeypatch):
    """Lead every connection to where nobody listens."""
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{closed_port()}")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def arrays(path):
    with np.load(path) as file:
        return dict(file)


def test_every_corpus_of_the_local_copy_is_the_right_one(shared, datasets):
    for name, corpus in CORPORA.items():
        assert find(name) == shared / corpus.path
        assert corpus.home.startswith("http") and corpus.terms


@pytest.mark.parametrize("name", CORPORA)
def test_missing_data_is_one_sentence_with_home_and_terms(name, tmp_path, monkeypatch, offline):
    corpus = CORPORA[name]
    monkeypatch.delenv("ALPHAMF_DATA", raising=False)
    with pytest.raises(AlphaMFError, match="is not part of alphamf") as unset:
        find(name)
    monkeypatch.setenv("ALPHAMF_DATA", str(tmp_path))
    with pytest.raises(AlphaMFError, match="is not at") as absent:
        find(name)
    for error in (unset, absent):
        text = str(error.value)
        assert name in text and corpus.home in text and corpus.terms in text and "\n" not in text
        assert f"set ALPHAMF_DATA to a folder that holds {corpus.path}" in text
        if corpus.source is None:
            assert "cannot be downloaded automatically because no checksum is published" in text
            assert ". Get it from its home page, " in text
            work = f"a MANIFEST.csv with the columns {', '.join(corpus.columns)}"
            assert (work if corpus.columns else "count its words") in text
        else:
            assert "cannot be downloaded (no connection to " in text
            files = " and ".join(original.name for original in corpus.source.originals)
            assert f"put {files} into {tmp_path / 'cache/alphamf'}" in text


def test_another_version_is_refused_and_a_folder_is_not_hashed(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"right")
    (tmp_path / "b").mkdir()
    digest = hashlib.sha256(b"right").hexdigest()
    monkeypatch.setitem(CORPORA, "file", corpora.Corpus("a", digest, "http://x", "free"))
    monkeypatch.setitem(CORPORA, "folder", corpora.Corpus("b", "", "http://x", "free"))
    monkeypatch.setenv("ALPHAMF_DATA", str(tmp_path))
    assert find("file") == tmp_path / "a"
    assert find("folder") == tmp_path / "b"
    (tmp_path / "a").write_bytes(b"wrong")
    with pytest.raises(AlphaMFError, match="sha256 differs"):
        find("file")
    (tmp_path / "a").unlink()
    (tmp_path / "a").mkdir()
    with pytest.raises(AlphaMFError):
        find("file")


@pytest.mark.parametrize("name", MADE)
def test_download_once_with_the_terms_said_first(name, serve, server, tmp_path, caplog):
    files = MADE[name]()
    serve(name, files)
    with caplog.at_level(logging.WARNING, "alphamf"):
        path = find(name)
    assert path == tmp_path / "cache/alphamf" / f"{name}.npz"
    assert server.asked == [f"/{file}" for file in files]
    (message,) = caplog.messages
    corpus = CORPORA[name]
    assert message.startswith(f"Downloading {name} ({corpus.terms}) from {corpus.home} into ")
    assert message.endswith(corpus.source.unlike or str(path.parent))
    found, number = arrays(path), path.stat().st_ino
    assert find(name) == path and path.stat().st_ino == number
    assert len(server.asked) == len(files) and len(caplog.messages) == 1

    # The arrays are made again from what was downloaded before, or put there by hand.
    path.unlink()
    again = arrays(find(name))
    assert {key: value.tobytes() for key, value in again.items()} == {
        key: value.tobytes() for key, value in found.items()
    }
    assert len(server.asked) == len(files) and len(caplog.messages) == 1


def test_mirrors_are_tried_in_turn(serve, server):
    files = MADE["heart"]()
    gone = f"http://127.0.0.1:{server.server_port}/gone/heart.dat"
    serve("heart", files, before=(f"http://127.0.0.1:{closed_port()}/heart.dat", gone))
    assert arrays(find("heart"))["y"].tolist() == [1, 0]
    assert server.asked == ["/gone/heart.dat", "/heart.dat"]


def test_what_goes_wrong_is_one_sentence_and_nothing_is_kept(serve, server, tmp_path, monkeypatch):
    files = MADE["heart"]()
    gone = f"http://127.0.0.1:{server.server_port}/gone"
    serve("heart", files, sums={"heart.dat": "0" * 64}, before=(gone,))
    with pytest.raises(AlphaMFError) as caught:
        find("heart")
    host = f"127.0.0.1:{server.server_port}"
    reasons = f"({host} answered 404, {host} returned a file that differs from heart.dat)"
    assert reasons in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "cache/alphamf").iterdir()) == []

    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(corpora, "SECONDS", 0.05)
        slow = f"http://127.0.0.1:{silent.getsockname()[1]}/heart.dat"
        serve("heart", files, sums={"heart.dat": "0" * 64}, before=(slow,))
        with pytest.raises(AlphaMFError, match="did not answer"):
            find("heart")

    (tmp_path / "file").touch()
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "file" / project)
    serve("heart", files)
    with pytest.raises(AlphaMFError, match="file/alphamf cannot be written") as caught:
        find("heart")
    assert "\n" not in str(caught.value)


def test_the_local_copy_comes_before_the_download(serve, server, tmp_path, monkeypatch):
    serve("heart", MADE["heart"]())
    corpus = dataclasses.replace(CORPORA["heart"], path="x", sha256="")
    monkeypatch.setitem(CORPORA, "heart", corpus)
    monkeypatch.setenv("ALPHAMF_DATA", str(tmp_path / "data"))
    assert find("heart").parent.name == "alphamf"
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x").touch()
    assert find("heart") == tmp_path / "data/x"
    assert len(server.asked) == 1
