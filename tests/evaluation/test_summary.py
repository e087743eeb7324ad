"""Means, intervals and tables of results."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphamf.evaluation import outputs
from alphamf.evaluation.runner import audio_name
from alphamf.evaluation.summary import (
    FEWEST,
    SCORES,
    USUAL,
    Result,
    costs,
    paired_difference,
)
from alphamf.tools.tables import mean_and_error


def result(
    method="fast", clip=0, noise=None, snr=None, error=None, reasons=None, depth=None, **scores
):
    return Result(
        version="1",
        key=f"{method} {clip}",
        method=method,
        noisy=f"{noise}/{clip}.wav",
        clean=f"{clip}.wav",
        noise=noise,
        snr=snr,
        seed=0,
        rate=8000,
        seconds=2.0,
        pause_depth=depth,
        scores=scores,
        reasons=reasons or {},
        cpu_seconds=1.0,
        real_time_factor=0.75,
        peak_memory_mb=100.0 + clip,
        error=error,
    )


def rows(text):
    """Return the tables of a Markdown text, each a list of lists of cells."""
    tables = [[]]
    for line in text.splitlines():
        if line.startswith("|"):
            tables[-1].append([cell.strip() for cell in line.strip("|").split(" | ")])
        elif tables[-1]:
            tables.append([])
    return [table for table in tables if table]


def test_a_result_is_json_and_back():
    one = result(si_sdr=1.5, pesq=None, reasons={"pesq": "no"})
    assert Result.from_json(one.to_json()) == one
    with pytest.raises(KeyError):
        Result.from_json({"version": "1"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("key", {"nested": 1}),
        ("key", None),
        ("method", 1),
        ("noise", ["fan"]),
        ("snr", "5"),
        ("snr", math.inf),
        ("seed", True),
        ("seed", 1.0),
        ("rate", 8000.5),
        ("seconds", "2"),
        ("pause_depth", math.nan),
        ("scores", None),
        ("scores", {"pesq": {"nested": 1}}),
        ("scores", {"pesq": math.nan}),
        ("scores", {"pesq": 10**400}),
        ("reasons", {"pesq": 1}),
        ("audio", ["a.flac"]),
        ("error", {}),
    ],
)
def test_a_line_of_other_types_is_refused(name, value):
    with pytest.raises(TypeError, match=name):
        Result.from_json(result(si_sdr=1.5).to_json() | {name: value})


def test_labels_are_plain_text_in_the_summary():
    bad = "<img src=x onerror=alert(1)>\n[a](http://b) ![c](d) `e` & \x1b[31m"
    text = outputs.markdown(
        [
            result(si_sdr=1.0, method=bad, noise=bad),
            result(clip=1, si_sdr=2.0, noise="fan", reasons={"pesq": bad, "unknown": "no"}),
            result(clip=2, error=bad, noise="fan", method=bad),
        ]
    )
    good = r"&lt;img src=x onerror=alert(1)&gt;\n\[a\](http://b) !\[c\](d) \`e\` &amp; \x1b\[31m"
    assert text.count(good) >= 4
    assert "<" not in text and "\x1b" not in text and not re.search(r"(?<!\\)\[", text)


def test_names_of_sounds():
    assert audio_name("fast", "car_5dB/sp01.wav") == "audio/fast/car_5dB/sp01.flac"
    assert audio_name("fast@own.npz", "a.snr2.5.wav") == "audio/fast@own.npz/a.snr2.5.flac"
    one, other = (audio_name(f"fast@{name}.npz", "a.wav") for name in ("a/b", "a_b"))
    assert one != other and one.count("/") == other.count("/") == 2


@given(
    st.lists(st.floats(-50, 50), min_size=FEWEST, max_size=20),
    st.floats(-20, 20),
    st.integers(0, 5),
)
def test_a_difference_of_a_constant_is_certain(scores, shift, missing):
    pairs = [
        (result("a", k, si_sdr=score + shift), result("b", k, si_sdr=score))
        for k, score in enumerate(scores)
    ]
    # Clips that one of them lacks do not count.
    others = [result("a", 100 + k, si_sdr=1000.0) for k in range(missing)]
    others += [result("b", 200 + k, si_sdr=None) for k in range(missing)]
    found = paired_difference([*sum(pairs, ()), *others], "a", "b", "si_sdr", draws=20)
    assert found.clips == len(scores)
    assert found[:3] == pytest.approx((shift,) * 3, abs=1e-9)


def test_the_interval_is_that_of_the_normal_law_and_the_same_every_time():
    rng = np.random.default_rng(1)
    results = []
    for k in range(200):
        base = 10 * rng.standard_normal()
        results += [result("a", k, pesq=base + rng.normal(0.5, 1)), result("b", k, pesq=base)]
    found = paired_difference(results, "a", "b", "pesq")
    assert found == paired_difference(results, "a", "b", "pesq")
    both = zip(results[::2], results[1::2], strict=True)
    mean, error = mean_and_error(a.scores["pesq"] - b.scores["pesq"] for a, b in both)
    assert found.mean == pytest.approx(mean)
    assert (found.low, found.high) == pytest.approx(
        (mean - 1.96 * error, mean + 1.96 * error), abs=0.03
    )


def test_a_difference_of_too_few_clips():
    none = paired_difference([result("a", 0, si_sdr=1.0)], "a", "b", "si_sdr")
    assert none.clips == 0 and all(math.isnan(value) for value in none[:3])
    both = [result("a", 0, si_sdr=1.0), result("b", 0, si_sdr=3.0)]
    one = paired_difference(both, "a", "b", "si_sdr")
    assert (one.mean, one.clips) == (-2.0, 1) and math.isnan(one.low) and math.isnan(one.high)
    again = [replace(result("a", 0, si_sdr=9.0), seed=1), replace(both[1], seed=1)]
    assert paired_difference([*both, *again], "a", "b", "si_sdr").mean == 2.0
    for count, certain in ((FEWEST - 1, False), (FEWEST, True)):
        few = [
            result(name, k, si_sdr=value)
            for k in range(count)
            for name, value in (("a", 9.0), ("b", 1.0))
        ]
        found = paired_difference(few, "a", "b", "si_sdr")
        assert (found.mean, found.clips) == (8.0, count) and math.isfinite(found.low) == certain


def test_the_table_of_methods():
    results = [
        result("a|b", 0, si_sdr=4.0, si_sdr_gain=-1.0, pesq=2.0),
        result("a|b", 1, si_sdr=6.0, si_sdr_gain=1.0, pesq=None, reasons={"pesq": "too short"}),
        result("fast", 0, si_sdr=7.0),
        result("fast", 1, error="it broke"),
    ]
    (table,) = rows(outputs.markdown(results))
    names = ["method", "clips", *(SCORES[score].heading for score in USUAL)]
    assert table[0] == [*names, "better on", "CPU s per s", "real time", "MB"]
    assert table[2] == [
        r"a\|b", "2", "5.00 ± 1.00", "0.00 ± 1.00", *["-"] * 5, "(1 of 2) 2.000", "50%",
        "0.500", "0.750", "101",
    ]  # fmt: skip
    assert table[3][:3] == ["fast", "1 of 2", "7.00"]


def test_costs_are_those_of_all_clips_together():
    long = replace(result(clip=0), seconds=9.0, cpu_seconds=0.9, real_time_factor=0.2)
    short = replace(result(clip=1), seconds=1.0, cpu_seconds=1.1, real_time_factor=2.2)
    failed = replace(result(clip=2), cpu_seconds=None, real_time_factor=None)
    assert costs([long, short, failed]) == pytest.approx((0.2, 0.4))
    assert all(math.isnan(cost) for cost in costs([failed]))


def test_what_could_not_be_had_is_told():
    text = outputs.markdown(
        [
            result("a", 0, reasons=dict.fromkeys(("stoi", "estoi"), "it lasts 0.1 s")),
            result("a", 1, reasons={"stoi": "it lasts 0.25 s"}),
            result("b", 1, reasons={"stoi": "it lasts 0.25 s"}),
            *(result(name, 2, error="no clean file for 2.wav") for name in "ab"),
            result("b", 0, error="it broke"),
        ]
    )
    assert "- No result for None/2.wav (all methods): no clean file for 2.wav.\n" in text
    assert "- No result for None/0.wav (b): it broke.\n" in text
    assert "- No STOI, ESTOI in 1 result of a: it lasts 0.1 s.\n" in text
    assert "- No STOI in 2 results of a, b: it lasts 0.25 s." in text
    many = outputs.markdown([result("a", k, error="it broke") for k in range(40)])
    assert many.count("it broke") == 10 and "- and 30 more: see results.csv." in many


def test_tables_of_noises_and_levels():
    results = [
        result(method, k, noise, snr, si_sdr=value + snr, estoi=0.5)
        for method, value in (("a", 0.0), ("b", 1.0))
        for k, (noise, snr) in enumerate([("fan", 10.0), ("car", 5.0), ("car", -5.0)])
    ]
    _, *tables = rows(outputs.markdown(results))
    assert [table[0] for table in tables] == [
        [f"{score} by {kind}", "a", "b"]
        for kind in ("noise", "SNR")
        for score in ("SI-SDR dB", "PESQ", "ESTOI")
    ]
    assert tables[0][2:] == [
        ["car", "0.00 ± 5.00", "1.00 ± 5.00"],
        ["fan", "10.00", "11.00"],
    ]
    assert tables[1][2:] == [["car", "-", "-"], ["fan", "-", "-"]]
    assert [row[0] for row in tables[3][2:]] == ["-5 dB", "5 dB", "10 dB"]
    unknown = [result("a", k, noise, si_sdr=1.0) for k, noise in enumerate((None, "fan"))]
    _, by_noise, *_ = rows(outputs.markdown(unknown))
    assert [row[0] for row in by_noise[2:]] == ["fan", "not known"]


def test_tables_of_clean_files_with_quiet_pauses_and_without():
    def results(*depths):
        return [
            result(method, k, si_sdr=value + k, depth=depth)
            for method, value in (("a", 0.0), ("b", 1.0))
            for k, depth in enumerate(depths)
        ]

    failed = result("b", 9, error="it broke")
    text = outputs.markdown([*results(49.9, 50.0, 80.0), failed])
    _, *tables = rows(text)
    assert [table[0] for table in tables] == [
        [f"{score} by clean file", "a", "b"] for score in ("SI-SDR dB", "PESQ", "ESTOI")
    ]
    assert tables[0][2:] == [
        ["pauses at least 50 dB down", "1.50 ± 0.50", "2.50 ± 0.50"],
        ["pauses less than 50 dB down", "0.00", "1.00"],
    ]
    assert "- Hiss in a clean file counts as speech" in text
    for depths in ((50.0, 80.0), (10.0, 20.0), (None, 60.0), (None, None)):
        text = outputs.markdown([*results(*depths), failed])
        assert "by clean file" not in text and "Hiss" not in text
