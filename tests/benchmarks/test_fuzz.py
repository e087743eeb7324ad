"""Damaged and hostile files: a small part of what ``python -m benchmarks.attacks.fuzz`` tries."""

import struct
import sys
from collections import Counter
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alphamf.denoising.settings import PRESETS
from alphamf.errors import AlphaMFError

if sys.platform == "win32":
    pytest.skip("limits of a process are POSIX", allow_module_level=True)

from benchmarks.attacks import fuzz
from benchmarks.attacks.mutants import model

QUICK = replace(PRESETS["fast"], steps=2, keep=1, noise_rank=1)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tiny.npz").write_bytes(model())
    return tmp_path


def outcome(folder, kind, data):
    path = folder / f"file.{kind if kind.isalnum() else 'npz'}"
    path.write_bytes(data)
    return fuzz.attempt(path, kind, QUICK, folder)


@pytest.mark.slow
def test_what_a_byte_mutator_makes_is_a_result_or_a_sentence(folder, monkeypatch, capfd):
    monkeypatch.delenv("ALPHAMF_DATA", raising=False)
    counts = Counter()
    for number, kind, data in islice(fuzz.files(0, 0), 600):
        found, details = outcome(folder, kind, data)
        assert found != "finding", (number, kind, details)
        counts[found] += 1
    assert min(counts["result"], counts["refused"]) > 30


@pytest.mark.parametrize("error", [ZeroDivisionError(), AlphaMFError("the decoder crashed")])
def test_the_fuzzer_knows_a_finding(folder, monkeypatch, error):
    def crash(path):
        raise error

    assert outcome(folder, "model", model())[0] == "result"
    monkeypatch.setattr("alphamf.learnt.dictionary.load", crash)
    found, details = outcome(folder, "model", model())
    assert found == "finding" and str(error) in details


@pytest.mark.parametrize("n_fft", [2, 4])
def test_a_model_of_a_few_bins_for_wider_sound_gives_a_result(folder, n_fft):
    basis = np.ones((n_fft // 2 + 1, 2), np.float16)
    form = {"n_fft": n_fft, "hop_length": n_fft // 2, "rate": 12000, "context": 1}
    assert outcome(folder, "model", model(basis, **form)) == ("result", "")


fields = st.one_of(
    st.sampled_from([0, 1, 2, 3, 6, 8, 16, 24, 32, 64, 255, 1024, 2**15, 2**16 - 1]),
    st.integers(0, 2**16 - 1),
)
sizes = st.one_of(
    st.sampled_from([0, 1, 999, 1000, 8000, 768_000, 768_001, 2**31 - 1, 2**31, 2**32 - 1]),
    st.integers(0, 2**32 - 1),
)


@given(
    tag=st.sampled_from([1, 2, 3, 6, 7, 17, 49, 0xFFFE, 0x55, 0]),
    channels=fields,
    rate=sizes,
    per_second=sizes,
    align=fields,
    bits=fields,
    fmt=st.sampled_from([16, 18, 40, 0, 2**32 - 1]),
    riff=sizes,
    length=st.one_of(st.none(), sizes),
    data=st.binary(max_size=600),
)
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_wav_header_is_a_result_or_a_sentence(
    folder, tag, channels, rate, per_second, align, bits, fmt, riff, length, data
):
    head = struct.pack("<HHIIHH", tag, channels, rate, per_second, align, bits)
    chunk = struct.pack("<4sI", b"data", len(data) if length is None else length)
    whole = struct.pack("<4sI8sI", b"RIFF", riff, b"WAVEfmt ", fmt) + head + chunk + data
    assert outcome(folder, "wav", whole)[0] != "finding"
