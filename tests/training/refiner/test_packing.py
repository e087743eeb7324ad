"""The archive of a training's data: what it has, how large it is, and that it is enough."""

import subprocess
import sys
import tarfile
from dataclasses import replace

import numpy as np
import pytest
import soundfile

from alphamf.errors import AlphaMFError
from alphamf.training.refiner import recordings
from alphamf.training.refiner.packing import pack
from tests.support import tones


@pytest.fixture
def config(tmp_path, monkeypatch):
    """Write corpora with manifests, four files each of three voices; return their configuration."""
    monkeypatch.setenv("ALPHAMF_DATA", str(tmp_path / "data"))
    base = tmp_path / "data" / "corpora"
    tones.write_corpora(base)
    rows = ["path,split,speaker,level_p10_db,level_p90_db"]
    for k in range(12):
        soundfile.write(base / "speech" / f"{k}.wav", tones.voice(k), tones.RATE)
        split = "dev" if k == 11 else "test" if k == 10 else "train"
        rows.append(f"{k}.wav,{split},speaker {k % 3},-60,{-20 if k else -50}")
    (base / "speech" / "MANIFEST.csv").write_text("\n".join(rows))
    sounds = [f"deeper/{k}.wav,{'dev' if k == 4 else 'train'}" for k in range(5)]
    (base / "noise" / "MANIFEST.csv").write_text("\n".join(["path,split", *sounds]))
    names = {"voices": ["speech"], "sounds": ["noise"], "rooms": ["room"], "quiet": 30.0}
    return tones.changed(base, data=names)


def names(archive):
    with tarfile.open(archive) as packed:
        return set(packed.getnames())


def test_an_archive_has_what_the_training_reads(config, tmp_path, monkeypatch):
    archive = tmp_path / "data.tar"
    assert pack(config, archive) == 0
    speech = {name for name in names(archive) if name.startswith("corpora/speech/")}
    # Neither the loud pauses of the first voice, nor the test file.
    wanted = {f"corpora/speech/{k}.wav" for k in (*range(1, 10), 11)}
    assert speech == wanted | {"corpora/speech/MANIFEST.csv"}
    decoded = []
    for folder in ("here", "there"):
        (tmp_path / folder / "made").mkdir(parents=True)
        recordings.prepare_recordings(config.data, tones.RATE, tmp_path / folder / "made", 2)
        decoded.append(recordings.open_recordings(tmp_path / folder / "made", "train"))
        with tarfile.open(archive) as packed:
            packed.extractall(tmp_path / "unpacked", filter="data")
        monkeypatch.setenv("ALPHAMF_DATA", str(tmp_path / "unpacked"))
    for ours, theirs in zip(*decoded, strict=True):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_small_archive_has_fewer_files_per_speaker(config, tmp_path):
    archive = tmp_path / "data.tar"
    pack(config, archive)
    whole, size = names(archive), archive.stat().st_size
    assert pack(config, archive, (size - 40_000) / 1e6) == 2  # less by two voices and more
    assert len(names(archive)) < len(whole) and archive.stat().st_size < size - 40_000
    with pytest.raises(AlphaMFError, match=r"MB are needed even for one file per speaker"):
        pack(config, tmp_path / "other.tar", 0.01)
    assert not (tmp_path / "other.tar").exists()


def test_what_cannot_be_packed_is_said(config, tmp_path):
    rows = tmp_path / "data" / "corpora" / "room" / "MANIFEST.csv"
    for path, said in (
        ("../speech/1.wav", "names a file elsewhere"),
        ("9.wav", "cannot be packed"),
    ):
        rows.write_text(f"path,split\n{path},train\n")
        with pytest.raises(AlphaMFError, match=said):
            pack(config, tmp_path / "data.tar")
    assert not (tmp_path / "data.tar").exists()
    folder = replace(config, data=replace(config.data, sounds=(str(tmp_path),)))
    with pytest.raises(AlphaMFError, match=r"has no MANIFEST\.csv"):
        pack(folder, tmp_path / "data.tar")
    command = [sys.executable, "-m", "alphamf.training.refiner.packing", "no.toml", "-o", "x.tar"]
    found = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (found.returncode, found.stderr.count("\n")) == (2, 1) and "no.toml" in found.stderr
