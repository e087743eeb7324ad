"""The commands that lead to an evaluation and from it into docs/benchmarks."""

import csv
import sys

import pytest

from benchmarks import evaluation, scored
from benchmarks.report import run_main

MANIFEST = """path,sample_rate,seconds,split,speaker,noise,snr_db
clean/sp01.flac,8000,2.8,test,sp01,,clean
clean/sp02.flac,8000,2.6,train,sp02,,clean
car_5dB/sp01.flac,8000,2.8,test,sp01,car,5
car_5dB/sp02.flac,8000,2.6,train,sp02,car,5
car_10dB/sp02.flac,8000,2.6,train,sp02,car,10
"""


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    folder = tmp_path / "corpora/noizeus"
    folder.mkdir(parents=True)
    (folder / "MANIFEST.csv").write_text(MANIFEST)
    for row in csv.DictReader(MANIFEST.splitlines()):
        (folder / row["path"]).parent.mkdir(exist_ok=True)
        (folder / row["path"]).touch()
    monkeypatch.setenv("ALPHAMF_DATA", str(tmp_path))
    return tmp_path


def test_scores_of_an_evaluation_and_of_peers_are_grouped_and_compared(corpus, monkeypatch):
    monkeypatch.setattr(scored, "TABLES", corpus)
    head = "method,noisy,noise,snr,pause_depth,si_sdr,pesq_wb,estoi\n"
    (corpus / "results.csv").write_text(
        head + "fast,v1/a.wav,car,5,60,10,2.5,0.8\nfast,v2/b.wav,car,0,20,6,2,0.7\n"
    )
    (corpus / "peers.csv").write_text(
        head + "X,v1/a.wav,car,5,60,7,2,0.9\nX,c.wav,car,5,60,1,1,1\n"
    )
    evaluation.main(corpus, peers=corpus / "peers.csv", output="found.csv")
    found = scored.read("found.csv")
    assert found["all", "fast"]["SI-SDR dB"] == "8.00" and found["car", "fast"]["clips"] == "2"
    assert found["all", "fast"]["error of SI-SDR dB"] == "2.00"
    apart = found["pauses at least 50 dB down", "fast less X, own program"]
    assert (apart["SI-SDR dB"], apart["PESQ"], apart["ESTOI"]) == ("3.00", "0.500", "-0.100")
    assert found["v2", "fast"]["PESQ"] == "2.000" and ("c.wav", "X") not in found


def test_a_folder_without_scores_is_one_sentence(corpus, monkeypatch, capsys):
    """As a command: the arguments are read, and the error is printed."""
    monkeypatch.setattr(sys, "argv", ["", str(corpus), "-o", "found.csv"])
    with pytest.raises(SystemExit, match="2"):
        run_main(evaluation.main)
    assert "does not hold scores" in capsys.readouterr().err
