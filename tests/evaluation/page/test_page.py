"""report.html: its numbers, its sentences, and what it makes of few results or none."""

import math
import re
import statistics

import pytest

from alphamf.errors import AlphaMFError
from alphamf.evaluation.page import report
from tests.support.report_page import MINUS, MIXED, corpus, result, sounds, written


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """Six methods on eleven clips, with sound: results and page."""
    folder = tmp_path_factory.mktemp("mixed")
    results = corpus(MIXED)
    sounds(folder, results)
    return results, written(folder, results)


@pytest.mark.slow
def test_the_summary_holds_means_standard_errors_and_the_best(mixed):
    results, found = mixed
    decimals = {"SI-SDR dB": ("si_sdr", 2), "SAR dB": ("sar", 2), "PESQ": ("pesq", 3)}
    for heading, (score, digits) in decimals.items():
        column = found.column("Mean ±", heading)
        assert list(column) == list(MIXED)
        means = {}
        for method, (text, value, _) in column.items():
            scores = [r.scores[score] for r in results if r.method == method]
            means[method] = statistics.mean(scores)
            error = statistics.stdev(scores) / math.sqrt(len(scores))
            assert (
                text.removesuffix(" (best)") == f"{means[method]:.{digits}f} ± {error:.{digits}f}"
            )
            assert float(value) == pytest.approx(means[method])
        marked = [method for method, cell in column.items() if cell[2] == "best"]
        assert marked == ["plain"]
        assert max(means, key=means.__getitem__) == "oracle-mask"
    assert found.column("Mean ±", "SI-SDR gain dB")["noisy"][0] == "\N{EN DASH}"
    gains = [r.scores["si_sdr_gain"] for r in results if r.method == "is-nmf"]
    share = sum(gain > 0 for gain in gains) / len(gains)
    assert found.column("Mean ±", "better on")["is-nmf"][0].startswith(f"{100 * share:.0f} %")


def test_a_method_that_lacks_clips_is_not_the_best(tmp_path):
    results = [
        *(result("logmmse", k, si_sdr=2.0, si_sdr_gain=1.0) for k in range(2)),
        *(result("fast", k, si_sdr=3.0, si_sdr_gain=2.0) for k in range(2)),
        result("mute", 0, si_sdr=9.0, si_sdr_gain=8.0),
        result("mute", 1, si_sdr=None, si_sdr_gain=None),
    ]
    found = written(tmp_path, results)
    assert {name: cell[0] for name, cell in found.column("Mean ±", "SI-SDR dB").items()} == {
        "logmmse": "2.00 ± 0.00",
        "fast": "3.00 ± 0.00 (best)",
        "mute": "9.00 1 of 2",
    }
    assert "1.00 dB more than the best baseline, logmmse" in " ".join(found.text.split())


def test_speed_and_memory_are_mean_and_maximum_and_less_is_better(tmp_path):
    results = [
        result("fast", k, si_sdr=1.0, real_time_factor=f, peak_memory_mb=m)
        for k, (f, m) in enumerate([(0.2, 50.0), (0.4, 80.0)])
    ] + [result("logmmse", si_sdr=1.0, real_time_factor=2.0, peak_memory_mb=None)]
    found = written(tmp_path, results)
    speed, memory = (found.column("Mean ±", h) for h in ("real-time factor", "peak memory MB"))
    assert speed == {"fast": ("0.30 (best)", "0.30000000000000004", "best"),
                     "logmmse": ("2.00", "2.0", "")}  # fmt: skip
    assert memory == {"fast": ("80", "80.0", ""), "logmmse": ("\N{EN DASH}", "", "")}


@pytest.mark.slow
def test_differences_are_paired_and_to_the_best_baseline(mixed):
    results, found = mixed
    label = "Mean difference to logmmse"
    clips = {(r.method, r.noisy): r.scores["si_sdr"] for r in results}
    column = found.column(label, "SI-SDR dB")
    assert list(column) == [method for method in MIXED if method != "logmmse"]
    for method, (text, _, mark) in column.items():
        differences = [clips[m, c] - clips["logmmse", c] for m, c in clips if m == method]
        mean = statistics.mean(differences)
        low, high = map(float, re.search(r"\[(.*), (.*)\]", text.replace(MINUS, "-")).groups())
        assert min(differences) - 0.01 < low < mean < high < max(differences) + 0.01
        assert text.startswith(f"{mean:+.2f}".replace("-", MINUS))
        assert mark == ("better" if low > 0 else "worse" if high < 0 else "")
    assert column["plain"][2] == "better" and column["is-nmf"][2] == "worse"
    headings = [cell[0] for cell in found.table(label)[0]]
    assert "SI-SDR gain dB" not in headings
    chart = next(c for c in found.charts if c.startswith("ESTOI, difference to logmmse"))
    assert "plain +0.0" in chart and "noisy" not in chart and "oracle" not in chart


@pytest.mark.slow
def test_the_breakdown_has_the_means_of_each_noise_and_level(tmp_path):
    results = [
        result(method, k, noisy=f"{noise}{snr}/{k}.wav", noise=noise, snr=snr,
               si_sdr=base + snr + k, si_sdr_gain=base, estoi=0.5)
        for method, base in (("logmmse", 2.0), ("fast", 3.0))
        for noise in ("car", "babble")
        for snr in (-5.0, 10.0)
        for k in range(2)
    ]  # fmt: skip
    found = written(tmp_path, results)
    tables = list(found.tables.items())
    by_noise = next(rows for name, rows in tables if rows[0][-1][0] == "car")
    assert [cell[0] for cell in by_noise[0]] == ["method", "babble", "car"]
    assert [cell[1] for cell in by_noise[2]] == ["fast", "6.0", "6.0"]
    charts = [c for c in found.charts if "against SNR" in c]
    assert [c.partition(":")[0] for c in charts] == [
        "Mean SI-SDR gain against SNR, all noises",
        "Mean ESTOI against SNR, all noises",
        "Mean SI-SDR gain against SNR, babble",
        "Mean SI-SDR gain against SNR, car",
    ]
    assert charts[0].endswith(
        "logmmse 2.00 at -5 dB, 2.00 at 10 dB; fast 3.00 at -5 dB, 3.00 at 10 dB."
    )


def test_clips_whose_clean_file_has_hiss_are_apart(tmp_path):
    results = [
        result(method, k, si_sdr=base + k, pause_depth=depth)
        for method, base in (("logmmse", 2.0), ("fast", 3.0))
        for k, depth in enumerate([62.5, 20.0])
    ]
    found = written(tmp_path, results)
    deep, shallow = (f"pauses {side} 50 dB down" for side in ("at least", "less than"))
    table = next(rows for rows in found.tables.values() if rows[0][1][0] == deep)
    assert [cell[0] for cell in table[0]] == ["method", deep, shallow]
    assert [cell[1] for cell in table[2]] == ["fast", "3.0", "4.0"]
    assert "By clean file Hiss in a clean file counts as speech" in " ".join(found.text.split())
    found = written(tmp_path, [each for each in results if each.pause_depth == 20.0])
    assert "By clean file" not in found.text


@pytest.mark.parametrize(
    ("gains", "sentence"),
    [
        ({"noisy": [0, 0], "fast": [1, 2]},
         "fast raises SI-SDR by 1.50 dB on average over 2 clips."),
        ({"fast": [1, 2], "plain": [2, 3], "logmmse": [1, 1]},
         "plain raises SI-SDR by 2.50 dB on average over 2 clips, 1.50 dB more than the best "
         "baseline, logmmse (not significant with so few clips)."),
        ({"fast": [1, 2], "low": [2, 3]},
         "low raises SI-SDR by 2.50 dB on average over 2 clips."),
        ({"fast": [-1], "logmmse": [2], "oracle-mask": [9]},
         "fast lowers SI-SDR by 1.00 dB on one clip; best method: logmmse, 3.00 dB more (not "
         "significant with so few clips)."),
        pytest.param({"plain@own.npz": [4], "plain": [3]},
         "plain@own.npz raises SI-SDR by 4.00 dB on one clip.", marks=pytest.mark.slow),
        pytest.param({"logmmse": [1, 1], "is-nmf": [3, 3]},
         "is-nmf raises SI-SDR by 3.00 dB on average over 2 clips.", marks=pytest.mark.slow),
        ({"noisy": [0, 0]},
         "No method was run, or none has a score; noisy has an SI-SDR of 5.50 dB on average."),
        ({}, "There are no results."),
    ],
)  # fmt: skip
def test_the_result_in_one_sentence(tmp_path, gains, sentence):
    results = [
        result(method, k, si_sdr=5.0 + k + gain, si_sdr_gain=float(gain))
        for method, those in gains.items()
        for k, gain in enumerate(those)
    ]
    assert sentence in " ".join(written(tmp_path, results).text.split())


@pytest.mark.slow
def test_the_clips_are_best_median_and_worst_of_the_main_method_with_all_sounds(mixed):
    results, found = mixed
    mine = sorted((r for r in results if r.method == "plain"), key=lambda r: r.scores["si_sdr"])
    ordered = sorted(mine, key=lambda r: -r.scores["si_sdr_gain"])
    text = " ".join(found.text.split())
    for title, place in (("Best", 0), ("Median", 5), ("Worst", -1)):
        chosen = ordered[place]
        gain = f"{chosen.scores['si_sdr_gain']:+.2f}".replace("-", MINUS)
        assert f"{title} clip: {chosen.noisy} {gain} dB" in text
    players = found.of("audio")
    labels = ["clean", "noisy", "oracle-mask", "logmmse", "is-nmf", "fast", "plain"]
    assert [p["aria-label"].partition(",")[0] for p in players] == 3 * labels
    same = {r.method: r.scores["si_sdr"] for r in results if r.noisy == ordered[0].noisy}
    shown = text.partition("Best clip")[2].partition("Median clip")[0]
    assert re.findall(r"SI-SDR dB (\S+)", shown) == [f"{same[m]:.2f}" for m in labels[1:]]


@pytest.mark.parametrize(
    "results",
    [
        [],
        [result("fast", si_sdr=5.0, si_sdr_gain=2.0, pesq=2.0)],
        [result("noisy", si_sdr=5.0, si_sdr_gain=0.0, real_time_factor=0.0)],
        [result("oracle-mask", k, si_sdr=5.0, si_sdr_gain=2.0) for k in range(2)],
        [result("fast", k, noise=None, snr=None, si_sdr=5.0, si_sdr_gain=k - 1.0) for k in (0, 1)],
        [result(m, k, error="it broke", audio=None) for m in ("fast", "noisy") for k in range(3)],
        [result("fast", snr=s, si_sdr=5.0, si_sdr_gain=0.0, real_time_factor=None) for s in (0, 5)],
        [result("fast", si_sdr=math.inf, si_sdr_gain=math.inf), result("noisy", si_sdr=-math.inf)],
        [result("fast", si_sdr=None, reasons={"si_sdr": "why"}), result("fast", 1, pesq=2.0)],
        [result("fast", seconds=None, rate=None, noise="car", snr=None, estoi=0.5)],
        pytest.param(
            corpus({f"method-with-a-long-name-{k}": k for k in range(10)}, clips=1),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["none", "one", "noisy", "oracle", "unknown", "failed", "level", "infinite", "score",
         "short", "many"],
)  # fmt: skip
def test_whatever_the_results_are_there_is_a_page(tmp_path, results):
    found = written(tmp_path, results, {})
    assert "Settings" in found.text and "nan" not in found.text
    assert "What failed" in found.text


def test_what_failed_and_what_is_missing_is_told(tmp_path):
    results = [
        result("fast", 0, error="a.wav is silent", audio=None),
        result("logmmse", 0, error="a.wav is silent", audio=None),
        result("fast", 1, error="no memory", audio=None),
        result("logmmse", 1, si_sdr=1.0),
        *(
            result("fast", k, si_sdr=1.0, pesq=None,
                   reasons={"pesq": f"PESQ takes at most 18 s, not {k}.5 s"})
            for k in range(20, 25)
        ),
    ]  # fmt: skip
    found = written(tmp_path, results)
    rows = [[cell[0] for cell in row] for row in found.table("Runs that failed")]
    assert rows[1:] == [
        ["car_5dB/sp00.wav", "a.wav is silent", "all"],
        ["car_5dB/sp01.wav", "no memory", "fast"],
    ]
    assert "3 of 9 runs gave no result" in found.text
    reasons = [[cell[0] for cell in row] for row in found.table("Scores that could not")]
    assert reasons[1:] == [["PESQ", "5", "PESQ takes at most 18 s, not 20.5 s"]]
    assert found.column("Mean ±", "clips")["fast"][0] == "5 of 7"


def test_a_folder_that_cannot_be_written_to_is_an_error(tmp_path):
    with pytest.raises(AlphaMFError, match=r"report\.html cannot be written"):
        report.write(tmp_path / "none", [], {})
