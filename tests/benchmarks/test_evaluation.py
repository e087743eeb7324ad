"""The commands that lead to an evaluation and from it into BENCHMARKS.md."""

from __future__ import annotations

import csv
import json
import sys

import pytest

from alphamf.evaluation.pairs import read_pairs
from alphamf.tools.tables import markdown
from benchmarks import evaluate, pairs
from benchmarks.report import run_main

MANIFEST = """path,sample_rate,seconds,split,speaker,noise,snr_db
clean/sp01.flac,8000,2.8,test,sp01,,clean
clean/sp02.flac,8000,2.6,train,sp02,,clean
car_5dB/sp01.flac,8000,2.8,test,sp01,car,5
car_5dB/sp02.flac,8000,2.6,train,sp02,car,5
car_10dB/sp02.flac,8000,2.6,train,sp02,car,10
"""


def run(module, monkeypatch, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", [module.__name__, *map(str, arguments)])
    run_main(module.main)


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


def test_pairs_of_a_split_and_of_levels(corpus, monkeypatch):
    table = corpus / "pairs.csv"
    run(pairs, monkeypatch, "noizeus", "-o", table)
    folder = str(corpus / "corpora/noizeus")
    assert len(read_pairs(str(table), folder, folder)) == 3
    run(pairs, monkeypatch, "noizeus", "--split", "train", "--snr", "5,0", "-o", table)
    (pair,) = read_pairs(str(table), folder, folder)
    assert pair.noisy == str(corpus / "corpora/noizeus/car_5dB/sp02.flac")
    assert pair.clean == str(corpus / "corpora/noizeus/clean/sp02.flac")
    assert (pair.noise, pair.snr, pair.problem) == ("car", 5.0, None)
    with pytest.raises(SystemExit, match="2"):
        run(pairs, monkeypatch, "noizeus", "--snr", "3", "-o", table)


def test_a_summary_replaces_its_section(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(evaluate, "REPOSITORY", tmp_path)
    (tmp_path / "BENCHMARKS.md").write_text("# Benchmarks\n\nOther words.\n")
    settings = {
        "command": "alphamf evaluate --pairs pairs.csv",
        "date": "2026-11-20",
        "packages": {"numpy": "2.4.6"},
        "python": "3.11.7",
        "cpus": 2,
        "seed": 3,
    }
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    for text in ("| old |", "| new |"):
        (tmp_path / "summary.md").write_text(f"{text}\n")
        run(evaluate, monkeypatch, tmp_path, "--table", "small")
    page = (tmp_path / "BENCHMARKS.md").read_text()
    assert "Other words." in page and "| old |" not in page
    section = page.split("<!-- evaluate:small -->")[1].split("<!-- /evaluate:small -->")[0].strip()
    assert capsys.readouterr().out.endswith(f"{section}\n")
    assert section.splitlines() == [
        "| new |",
        "",
        "Seed 3. `alphamf evaluate --pairs pairs.csv`, 2026-11-20; numpy 2.4.6, Python 3.11.7; "
        "2 CPUs, one thread per process.",
    ]
    with pytest.raises(SystemExit, match="2"):
        run(evaluate, monkeypatch, tmp_path / "nothing", "--table", "small")


def test_sections_of_one_evaluation_share_its_files(tmp_path, monkeypatch):
    monkeypatch.setattr(evaluate, "REPOSITORY", tmp_path)
    (found := tmp_path / "found").mkdir()
    (tmp_path / "BENCHMARKS.md").write_text("# Benchmarks\n")
    settings = dict.fromkeys(("command", "date", "python", "cpus", "seed"), 1) | {"packages": {}}
    (found / "settings.json").write_text(json.dumps(settings))
    headings = ["method", *"ABCDEF"]
    table = markdown(headings, [["one", *"123456"]])
    (found / "summary.md").write_text(f"{table}\n\n{table.replace('method', 'A by noise', 1)}")
    for name in ("whole", "by-group"):
        run(evaluate, monkeypatch, found, "--table", name, "--columns", "method,A")
    files = {path.name for path in (tmp_path / "docs" / "benchmarks").iterdir()}
    assert files == {"evaluate-found.csv", "evaluate-found-groups.csv"}
    page = (tmp_path / "BENCHMARKS.md").read_text()
    assert page.count("[evaluate-found.csv](docs/benchmarks/evaluate-found.csv)") == 2
