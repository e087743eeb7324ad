"""``alphamf evaluate`` as a user meets it: files, resuming, messages, exit codes."""

import json
import os
import shlex
from pathlib import Path

import numpy as np
import pytest
import soundfile

from alphamf.evaluation import runner
from alphamf.evaluation.baselines.base import Method
from alphamf.evaluation.baselines.registry import METHODS
from alphamf.evaluation.summary import Result
from alphamf.scores.score import si_sdr
from tests.support.commands import run
from tests.support.evaluation_corpus import CORPUS, evaluate, lines, speech, table, write

FILES = ["report.html", "results.csv", "results.jsonl", "settings.json", "summary.md"]


def test_a_corpus(corpus):
    result = evaluate(*CORPUS, "--json")
    printed = [json.loads(line) for line in result.stdout.splitlines()]
    assert printed == lines() and len(printed) == 8 and result.stderr == ""
    assert sorted(os.listdir("evaluation")) == sorted(["audio", *FILES])
    results = [Result.from_json(item) for item in printed]
    assert {(r.method, r.noisy, r.clean, r.noise, r.snr) for r in results} == {
        (method, noisy, f"{name}.wav", "fan", snr)
        for method in ("noisy", "logmmse")
        for name in "ab"
        for noisy, snr in ((f"fan_5dB/{name}.wav", 5.0), (f"{name}_fan_sn11.wav", 11.0))
    }
    for each in results:
        assert each.error is None and each.rate == 8000 and each.seconds == 1.0
        clean = soundfile.read(Path("clean", each.clean))[0]
        noisy = soundfile.read(Path("noisy", each.noisy))[0]
        if each.method == "noisy":
            assert each.scores["si_sdr"] == pytest.approx(si_sdr(clean, noisy), abs=1e-5)
        kept = soundfile.read(Path("evaluation", each.audio))[0]
        assert each.scores["si_sdr"] == pytest.approx(si_sdr(clean, kept), abs=0.02)
    for name in ("noisy/a_fan_sn11", "noisy/fan_5dB/b", "clean/a", "logmmse/fan_5dB/a"):
        assert Path(f"evaluation/audio/{name}.flac").is_file()

    rows = table()
    assert len(rows) == 8
    row = rows["logmmse", "fan_5dB/a.wav"]
    (same,) = (r for r in results if (r.method, r.noisy) == ("logmmse", "fan_5dB/a.wav"))
    assert row["estoi"] == round(same.scores["estoi"], 9) and row["snr"] == "5.0"
    settings = json.loads(Path("evaluation/settings.json").read_text())
    assert set(settings["methods"]) == {"noisy", "logmmse"} and settings["seed"] == 0
    assert settings["clean"] == "clean" and settings["packages"]["numpy"]
    summary = Path("evaluation/summary.md").read_text()
    assert "| SI-SDR dB by SNR |" in summary and "| 11 dB |" in summary
    assert Path("evaluation/report.html").read_text().lstrip().startswith("<!doctype html>")


def test_pauses_of_clean_files_are_measured(corpus, plain_page):
    voice, hiss = speech("clean", 0.5, 1.0), np.random.default_rng(0).standard_normal(4000)
    for name, depth in (("a", 66), ("b", 20)):
        pause = voice.std() * 10 ** (-depth / 20) * hiss
        for folder in ("clean", "noisy/fan_5dB"):
            write(Path(f"{folder}/{name}.wav"), np.concatenate([voice, pause]))
    evaluate("--clean", "clean", "--noisy", "noisy/fan_5dB", method="noisy")
    depths = {item["clean"]: item["pause_depth"] for item in lines()}
    assert depths["a.wav"] > 60 and 15 < depths["b.wav"] < 35
    assert "| pauses less than 50 dB down |" in Path("evaluation/summary.md").read_text()


@pytest.mark.slow
def test_only_what_has_changed_is_done_again(corpus, plain_page, monkeypatch):
    def added(*arguments: object, method: str = "noisy,logmmse") -> list[tuple[str, str]]:
        before = len(lines())
        evaluate(*CORPUS, *arguments, method=method)
        return [(item["method"], item["noisy"]) for item in lines()[before:]]

    shown = evaluate(*CORPUS).stdout
    assert shown.startswith("| method | clips | SI-SDR dB |") and "evaluation/report.html" in shown
    assert shown.split("\n\n")[0] in Path("evaluation/summary.md").read_text()
    every = [(item["method"], item["noisy"]) for item in lines()]
    assert added() == [] and evaluate(*CORPUS).stdout == shown
    assert evaluate(*CORPUS, "--quiet").output == ""
    printed = evaluate(*CORPUS, "--json").stdout.splitlines()
    assert {json.loads(line)["key"] for line in printed} == {item["key"] for item in lines()}
    write(Path("noisy/fan_5dB/a.wav"), speech("noisy", 0.5, 1.0) * 0.5)
    assert added() == [("noisy", "fan_5dB/a.wav"), ("logmmse", "fan_5dB/a.wav")]
    write(Path("clean/b.wav"), speech("clean", 1.5, 1.0) * 0.5)
    assert {noisy for _, noisy in added()} == {"fan_5dB/b.wav", "b_fan_sn11.wav"}
    Path("evaluation/audio/logmmse/a_fan_sn11.flac").unlink()
    assert added() == [("logmmse", "a_fan_sn11.wav")]
    # Sounds are those of the last run, so that going back is to do it again.
    assert added("--seed", 1, method="noisy") == [(m, n) for m, n in every if m == "noisy"]
    assert added(method="noisy") == [(m, n) for m, n in every if m == "noisy"]
    kept = lines()
    monkeypatch.setattr(runner, "version", lambda package: "9.9")
    assert added() == every
    assert lines()[: len(kept)] == kept and {row["version"] for row in table().values()} == {"9.9"}


def test_a_line_of_another_clip_is_done_again(corpus, plain_page):
    evaluate(*CORPUS, method="noisy")
    path, before, (first, *rest) = Path("evaluation/results.jsonl"), table(), lines()
    found = ["[" * 100_000, json.dumps(first | {"noisy": "x.wav"}), *map(json.dumps, rest)]
    path.write_text("\n".join(found) + "\n")
    evaluate(*CORPUS, method="noisy")
    assert table() == before and path.read_text().splitlines()[: len(found)] == found


def test_what_cannot_be_done_is_reported_and_the_rest_is_done(corpus, plain_page):
    clean, noisy = speech("clean", 0.5, 1.0), speech("noisy", 0.5, 1.0)
    write(Path("noisy/lost.wav"), noisy)
    for name in ("rate", "short", "bad", "quiet"):
        write(Path(f"clean/{name}.wav"), clean * (name != "quiet"))
        write(Path(f"noisy/{name}_1.wav"), noisy)
    write(Path("noisy/rate_1.wav"), noisy, 16000)
    write(Path("noisy/short_1.wav"), noisy[:-3])
    Path("noisy/bad_1.wav").write_text("no audio")
    result = evaluate(*CORPUS, code=2)
    both = "noisy/{0}_1.wav and clean/{0}.wav must have the same "
    errors = [
        "no clean file matches lost.wav",
        "noisy/bad_1.wav is not an audio file in a known format",
        "clean/quiet.wav is silent, so no scores can be computed",
        f"{both.format('rate')}sampling rate, not 16000 and 8000 Hz",
        f"{both.format('short')}length, not 7997 and 8000 samples",
    ]
    assert result.stderr.splitlines() == [
        *(f"Error: {'quiet_1.wav: ' * ('quiet' in each)}{each}" for each in errors),
        "Error: 10 of 18 results failed",
    ]
    kept = lines()
    assert {item["error"] for item in kept if item["error"]} == set(errors)
    assert sum(item["error"] is None for item in kept) == 8
    assert "- No result for lost.wav (all methods): " in Path("evaluation/summary.md").read_text()
    # Tried again, and written down again only if something else came of it.
    write(Path("noisy/bad_1.wav"), noisy)
    evaluate(*CORPUS, code=2)
    found = [(item["noisy"], item["error"]) for item in lines()[len(kept) :]]
    assert found == [("bad_1.wav", None)] * 2


def test_a_method_that_breaks_has_code_1_and_the_others_go_on(corpus, plain_page, monkeypatch):
    def run(clip):
        raise RuntimeError("no luck")

    monkeypatch.setitem(METHODS, "odd", Method("odd", "for a test", run))
    result = evaluate(*CORPUS, method="odd,noisy", code=1)
    assert result.stderr.count("Traceback") == 1
    assert result.stderr.count("RuntimeError: no luck\n") == 1 + 4
    assert "Error: fan_5dB/a.wav: RuntimeError: no luck\n" in result.stderr
    assert result.stderr.endswith("Error: 4 of 8 results failed\n")
    assert sum(item["error"] is None for item in lines()) == 4


def test_inputs_that_vanish_after_their_results_leave_them_in_the_tables(
    corpus, plain_page, monkeypatch
):
    measured = []

    def run(clip):
        measured.append(clip)
        if len(measured) == 4:
            for path in {*Path("noisy").rglob("*.wav")} - {Path("noisy/fan_5dB/b.wav")}:
                path.unlink()
        return clip.noisy

    monkeypatch.setitem(METHODS, "odd", Method("odd", "for a test", run))
    evaluate(*CORPUS, method="odd")
    assert len(table()) == len(lines()) == 4


def test_channels_count_as_their_mean(corpus, plain_page):
    clean, noisy = speech("clean", 0.5, 1.0), speech("noisy", 0.5, 1.0)
    noise = noisy - clean
    write(Path("two/a.wav"), np.stack([clean + 2 * noise, clean], axis=1))
    write(Path("one/a.wav"), noisy)
    for folder in ("one", "two"):
        evaluate("--clean", "clean/a.wav", "--noisy", folder, "-o", f"{folder}.out")
    for one, two in zip(lines("one.out"), lines("two.out"), strict=True):
        assert one["scores"] == pytest.approx(two["scores"], abs=0.01)


def test_pairs_limit_and_model(corpus, plain_page):
    Path("pairs.csv").write_text("clean,noisy,noise\na.wav,fan_5dB/b.wav,rain\n")
    evaluate("--pairs", "pairs.csv", *CORPUS, "-o", "x", "--model", "speech-8k", method="noisy")
    (item,) = lines("x")
    assert (item["clean"], item["noisy"], item["noise"]) == ("a.wav", "fan_5dB/b.wav", "rain")
    settings = json.loads(Path("x/settings.json").read_text())
    assert settings["pairs"] == "pairs.csv" and settings["methods"]["noisy"]["model"] == "speech-8k"
    evaluate(*CORPUS, "--limit", 2, "-o", "y", method="noisy")
    assert len(lines("y")) == 2


def test_no_input_is_replaced_by_a_result(corpus):
    source = write(Path("out/audio/clean/a.flac"), speech("clean", 0.5, 1.0))
    Path("out/results.jsonl").touch()
    Path("p.csv").write_text("clean,noisy\na.flac,a.wav\n")
    before = source.read_bytes()
    folders = ("--clean", source.parent, "--noisy", "noisy/fan_5dB", "-o", "out")
    refused = evaluate("--pairs", "p.csv", *folders, code=2).stderr
    assert f"{source} would be overwritten by a result in -o out" in refused
    assert source.read_bytes() == before


BOTH = " ".join(CORPUS)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (f"{BOTH} --method none", "unknown method 'none'; it must be one of noisy, "),
        (f"{BOTH} --model none", "unknown model 'none'"),
        ("--clean clean", "give the corpus as --clean and --noisy, or as --pairs"),
        ("--clean gone --noisy noisy", "--clean gone does not exist"),
        ("--pairs gone.csv", "gone.csv cannot be read: No such file or directory"),
        ("--pairs x --clean clean/a.wav", "if --pairs is given; clean/a.wav is not one"),
        ("--pairs x --noisy a --noisy b", "with --pairs, give one folder as --noisy, not 2"),
        (f"{BOTH} --method mine=nowhere", "nowhere is not a folder"),
        (f"{BOTH} --method noisy=noisy", "needs a new name before the ="),
        (f"{BOTH} --method clean=noisy", "needs a new name before the ="),
        (f"{BOTH} --asr listen", "must contain {file}, which stands for the audio file"),
        (f"{BOTH} --asr '\"listen {{file}}'", "is not a valid command: "),
        (f"{BOTH} --asr whisper:nowhere", "nowhere contains no model.bin of a Whisper model"),
        (f"{BOTH} --transcripts x.txt", "--transcripts needs --asr"),
        (f"{BOTH} --asr 'listen {{file}}' --transcripts x.txt", "x.txt cannot be read"),
        (f"{BOTH} --dnsmos x.onnx", "x.onnx does not exist"),
        (f"{BOTH} --limit 0", "--limit must be at least 1, not 0"),
        (f"{BOTH} --jobs 0", "--jobs must be at least 1, not 0"),
        (f"{BOTH} --seed -1", "--seed must be at least 0, not -1"),
        (f"{BOTH} --output clean/a.wav", "clean/a.wav cannot be created: "),
    ],
)
def test_a_request_that_cannot_be_met_is_refused_before_any_work(corpus, line, sentence):
    result = run("evaluate", *shlex.split(line), code=2)
    assert result.stderr.startswith("Error: ") and result.stderr.count("\n") == 1
    assert sentence in result.stderr
    assert not Path("evaluation").exists() and result.stdout == ""
