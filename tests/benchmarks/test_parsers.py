"""Parsers and what a coverage-guided fuzzer has found for them."""

import subprocess
import sys

import pytest

from alphamf.errors import AlphaMFError
from benchmarks.attacks.fuzz_parsers import CORPORA, NAMES, kept
from benchmarks.attacks.parsers import PARSERS
from tests.support.places import ROOT


def test_every_parser_has_a_corpus():
    assert set(PARSERS) == set(NAMES) == {path.stem for path in CORPORA.glob("*.zip")}


@pytest.mark.filterwarnings("ignore")  # of zipfile and numpy, which the fuzzer does not see
@pytest.mark.parametrize("name", NAMES)
def test_what_was_found_before_is_parsed_or_refused(tmp_path, monkeypatch, name):
    """Every seed is accepted, every other input accepted or refused in a sentence."""
    import zipfile

    # Some parsers switch it off, so that changed bytes get further.
    monkeypatch.setattr(zipfile.ZipExtFile, "_update_crc", zipfile.ZipExtFile._update_crc)
    parse, seeds = PARSERS[name]
    for data in seeds():
        parse(data, tmp_path)
    for data in kept(name).values():
        try:
            parse(data, tmp_path)
        except AlphaMFError as error:
            assert str(error).isprintable()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_fuzzer_finds_nothing(tmp_path, name):
    """With a fixed seed, beside the corpora of longer runs; minutes are for the command."""
    pytest.importorskip("atheris", reason="coverage-guided fuzzing needs atheris")
    words = ["fuzz", name, str(tmp_path / "found"), "--inputs", "400"]
    command = [sys.executable, "-m", "benchmarks.attacks.fuzz_parsers", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stdout + done.stderr
    assert int(done.stderr.partition("number_of_executed_units: ")[2].split()[0]) >= 400
