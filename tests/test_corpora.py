"""Data sets found by name, and the sentences where they are not."""

from __future__ import annotations

import hashlib

import pytest

from alphamf import corpora
from alphamf.corpora import CORPORA, find
from alphamf.errors import AlphaMFError


def test_every_corpus_of_the_local_copy_is_the_right_one(shared, monkeypatch):
    if not (shared / "datasets").is_dir():
        pytest.skip(f"no datasets in {shared}: set ALPHAMF_DATA to the folder that holds them")
    monkeypatch.setenv("ALPHAMF_DATA", str(shared))
    for name, corpus in CORPORA.items():
        assert find(name) == shared / corpus.path
        assert corpus.home.startswith("http") and corpus.terms


@pytest.mark.parametrize("name", CORPORA)
def test_missing_data_is_one_sentence_with_home_and_terms(name, tmp_path, monkeypatch):
    corpus = CORPORA[name]
    monkeypatch.delenv("ALPHAMF_DATA", raising=False)
    with pytest.raises(AlphaMFError, match="set ALPHAMF_DATA") as unset:
        find(name)
    monkeypatch.setenv("ALPHAMF_DATA", str(tmp_path))
    with pytest.raises(AlphaMFError, match="is not at") as absent:
        find(name)
    for error in (unset, absent):
        text = str(error.value)
        assert name in text and corpus.home in text and corpus.terms in text and "\n" not in text


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
