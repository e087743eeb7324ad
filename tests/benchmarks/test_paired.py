"""The table of differences to methods that were scored elsewhere."""

from __future__ import annotations

import sys

import pytest

from benchmarks import paired


def write(path, pesq, rows):
    path.write_text(f"method,noisy,noise,si_sdr,{pesq},estoi\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture
def files(tmp_path):
    own = ["fast,a,babble,10,2.0,.7", "fast,b,keys,12,2.5,.8", "fast,c,keys,1,1,.1"]
    other = ["Other,b,keys,11,2.6,.7", "Other,a,babble,11,1.5,.6"]
    return write(tmp_path / "own.csv", "pesq", own), write(tmp_path / "o.csv", "pesq_wb", other)


def test_clips_are_compared_with_themselves(files, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["paired", *map(str, files)])
    paired.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| SI-SDR dB, by noise | less Other |"
    assert lines[2:5] == ["| all | +0.00 ± 1.00 |", "| babble | -1.00 |", "| keys | +1.00 |"]
    assert lines[6] == "| PESQ, by noise | less Other |"
    assert lines[8:10] == ["| all | +0.200 ± 0.300 |", "| babble | +0.500 |"]
    assert lines[12] == "| ESTOI, by noise | less Other |"
    assert lines[14] == "| all | +0.100 ± 0.000 |"


def test_clips_are_grouped_by_voice(tmp_path, monkeypatch, capsys):
    own = [
        "fast,keys/ann/1,keys,10,2,.7",
        "fast,babble/ann/2,babble,12,2,.7",
        "fast,keys/bob/1,keys,3,2,.7",
    ]
    other = [
        "Other,keys/ann/1,keys,9,2,.7",
        "Other,babble/ann/2,babble,9,2,.7",
        "Other,keys/bob/1,keys,7,2,.7",
    ]
    files = write(tmp_path / "own.csv", "pesq", own), write(tmp_path / "o.csv", "pesq_wb", other)
    monkeypatch.setattr(sys, "argv", ["paired", *map(str, files), "--by", "voice"])
    paired.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| SI-SDR dB, by voice | less Other |"
    assert lines[2] == "| all | +0.00 ± 2.08 |"
    assert lines[3] == "| ann | +2.00 ± 1.00 |"
    assert lines[4].startswith("| bob | -4.00")


def test_clips_are_grouped_by_the_pauses_of_their_clean_file(files, tmp_path, monkeypatch, capsys):
    own, other = files
    depths = ["pause_depth", "62.5", "30.25", "70"]
    lines = own.read_text().splitlines()
    own.write_text("\n".join(f"{a},{b}" for a, b in zip(lines, depths, strict=True)) + "\n")
    monkeypatch.setattr(sys, "argv", ["paired", str(own), str(other), "--by", "pauses"])
    paired.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| SI-SDR dB, by pauses | less Other |"
    assert lines[3:5] == [
        "| pauses at least 50 dB down | -1.00 |",
        "| pauses less than 50 dB down | +1.00 |",
    ]


def test_a_method_that_is_not_there_is_named(files, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["paired", *map(str, files), "--method", "best"])
    with pytest.raises(SystemExit):
        paired.main()
    assert "has no method 'best'" in capsys.readouterr().err
