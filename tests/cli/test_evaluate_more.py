"""``alphamf evaluate`` over several runs, with other scores, and as a process that is stopped."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from alphamf.evaluation import runner
from alphamf.evaluation.extra_scores import ExtraScores, read_transcripts
from alphamf.scores.recognisers import error_rate, recognise_words, words
from tests.support.commands import COMMAND, in_a_terminal, leave
from tests.support.evaluation_corpus import CORPUS, evaluate, lines, table, write

CLIPS = {"fan_5dB/a.wav", "fan_5dB/b.wav", "a_fan_sn11.wav", "b_fan_sn11.wav"}


def methods() -> list[str]:
    """Return the methods of results.csv, and check that every one has every clip."""
    found = table()
    names = list(dict.fromkeys(method for method, _ in found))
    assert set(found) == {(name, clip) for name in names for clip in CLIPS}
    return names


def test_results_accumulate_and_only_narrows(corpus, plain_page):
    evaluate(*CORPUS, method="noisy,logmmse")
    before = Path("evaluation/results.jsonl").read_bytes()
    printed = evaluate(*CORPUS, method="oracle-mask").stdout
    assert methods() == ["noisy", "logmmse", "oracle-mask"]
    assert all(f"| {name} | 4 |" in printed for name in methods())
    assert Path("evaluation/results.jsonl").read_bytes().startswith(before) and len(lines()) == 12
    settings = json.loads(Path("evaluation/settings.json").read_text())
    assert list(settings["methods"]) == methods()
    evaluate(*CORPUS, "--only", method="logmmse")
    assert methods() == ["logmmse"] and len(lines()) == 12
    for name in ("logmmse", "noisy"):  # what --only left out has to be named again
        evaluate(*CORPUS, method=name)
    assert methods() == ["logmmse", "noisy"] and len(lines()) == 12


def test_what_does_not_hold_for_these_clips_is_not_shown(corpus, plain_page):
    evaluate(*CORPUS, method="noisy,logmmse")
    evaluate(*CORPUS, "--limit", 1, method="noisy")
    assert len(table()) == 2
    clean, rate = soundfile.read("clean/a.wav")
    write(Path("clean/a.wav"), 0.9 * clean, rate)
    evaluate(*CORPUS, method="noisy")
    clips = {(method, clip[0]) for method, clip in ((m, Path(c).name) for m, c in table())}
    assert clips == {("noisy", "a"), ("noisy", "b"), ("logmmse", "b")}
    evaluate(*CORPUS, "--seed", 1, method="noisy")
    assert {method for method, _ in table()} == {"noisy"}
    Path("evaluation/settings.json").write_text("[broken")
    evaluate(*CORPUS, method="noisy")


def test_the_files_of_another_system_are_scored(corpus, plain_page):
    shutil.copytree("noisy", "theirs")
    Path("theirs/fan_5dB/b.wav").rename("theirs/fan_5dB/b.denoised.wav")
    sound, rate = soundfile.read("theirs/a_fan_sn11.wav")
    Path("theirs/a_fan_sn11.wav").unlink()
    write(Path("theirs/a_fan_sn11.flac"), sound[:-100], rate)
    Path("theirs/b_fan_sn11.wav").unlink()
    done = evaluate(*CORPUS, "--method", "Their system=theirs", method="noisy", code=2)
    assert "theirs holds no file for b_fan_sn11.wav" in done.stderr
    found = {(line["method"], line["noisy"]): line for line in lines()}
    for clip in ("fan_5dB/a.wav", "fan_5dB/b.wav"):
        theirs, noisy = found["Their system", clip], found["noisy", clip]
        assert theirs["error"] is None
        assert theirs["scores"]["si_sdr"] == pytest.approx(noisy["scores"]["si_sdr"], abs=1e-3)
        assert theirs["cpu_seconds"] is None and theirs["audio"]
    assert found["Their system", "a_fan_sn11.wav"]["error"] is None
    count = len(lines())
    evaluate(*CORPUS, "--method", "Their system=theirs", method="noisy", code=2)
    assert len(lines()) == count
    write(Path("theirs/fan_5dB/a.wav"), 0.5 * sound, 16000)
    done = evaluate(*CORPUS, "--method", "Their system=theirs", method="noisy", code=2)
    assert "8000 samples at 16000 Hz, but the noisy file has 8000 at 8000 Hz" in done.stderr


LISTEN = """
import sys, soundfile
sound, rate = soundfile.read(sys.argv[1])
if abs(sound).max() > 0.35:
    sys.exit("it is too loud")
print("Hello," if rate == 8000 else "no", "the WORLD")
"""


def test_word_error_rates(corpus, plain_page):
    Path("listen.py").write_text(LISTEN)
    Path("text").write_text("a hello world\nb hello the world\n")
    command = f"{sys.executable} listen.py {{file}}"
    printed = evaluate(*CORPUS, "--asr", command, "--transcripts", "text", method="noisy").stdout
    assert "WER %" in printed
    found = {line["noisy"]: line for line in lines()}
    for clip, line in found.items():
        if line["scores"]["wer"] is None:
            assert "it is too loud" in line["reasons"]["wer"]
        else:
            assert line["scores"]["wer"] == (50.0 if Path(clip).name[0] == "a" else 0.0)
    assert any(line["scores"]["wer"] is not None for line in found.values())
    evaluate(*CORPUS, method="noisy")  # without a recogniser the score is not there
    assert "wer" not in Path("evaluation/results.csv").read_text().splitlines()[0]


def test_words_that_are_wrong():
    assert words("It's 5 o’clock: HÉLÈNE, go!") == ["it's", "5", "o'clock", "hélène", "go"]  # noqa: RUF001
    for said, heard, rate in [
        ("a b c", "a b c", 0),
        ("a b c", "", 1),
        ("a b c", "a x c", 1 / 3),
        ("a b c", "a c", 1 / 3),
        ("a b", "x a y b z", 3 / 2),
    ]:
        assert error_rate(said.split(), heard.split()) == pytest.approx(rate)


def test_without_transcripts_the_clean_speech_is_recognised(tmp_path):
    script = tmp_path / "count.py"
    script.write_text("import sys, soundfile\nprint('w ' * len(soundfile.read(sys.argv[1])[0]))")
    extra = ExtraScores(f"{sys.executable} {script} {{file}}")
    sound = np.zeros(10, np.float32)
    ((found, problem),) = extra.scores(sound[:5], sound, 8000, "a.wav")
    assert problem is None and found == {"wer": 50.0}
    (tmp_path / "text").write_text("a\thello world\nb  hi\n", "utf-8-sig")
    said = read_transcripts(str(tmp_path / "text"))
    assert {n: words(t) for n, t in said.items()} == {"a": ["hello", "world"], "b": ["hi"]}
    (tmp_path / "text").write_text("a\n")
    with pytest.raises(Exception, match="no words after the name in line 1"):
        read_transcripts(str(tmp_path / "text"))


def test_a_recogniser_does_not_read_the_standard_input():
    read, write_end = os.pipe()
    os.write(write_end, b"somebody else's words")
    os.close(write_end)
    kept = os.dup(0)
    os.dup2(read, 0)
    try:
        command = f'{sys.executable} -c "import sys; print(sys.stdin.read())" {{file}}'
        assert not recognise_words(command, np.zeros(10, np.float32), 8000).strip()
    finally:
        os.dup2(kept, 0)
        os.close(kept)
        os.close(read)


def network(path: Path, samples: int = 144160) -> Path:
    """Write a network whose three outputs are 2, 3 and 4 for every sound."""
    make = pytest.importorskip("onnx").helper
    given = make.make_tensor_value_info("input_1", 1, ["batch", samples])
    found = make.make_tensor_value_info("scores", 1, [1, 3])
    nodes = [
        make.make_node("ReduceSum", ["input_1"], ["sum"], keepdims=1),
        make.make_node("Sub", ["sum", "sum"], ["zero"]),
        make.make_node("Add", ["zero", "constant"], ["scores"]),
    ]
    constant = make.make_tensor("constant", 1, [1, 3], [2.0, 3.0, 4.0])
    graph = make.make_graph(nodes, "scores", [given], [found], [constant])
    opset = [make.make_opsetid("", 13)]
    path.write_bytes(make.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString())
    return path


def test_scores_of_a_dnsmos_network(corpus, plain_page):
    pytest.importorskip("onnxruntime")
    done = evaluate(*CORPUS, "--dnsmos", "clean/a.wav", method="noisy", code=2)
    assert done.stderr.startswith("Error: ") and done.stderr.count("\n") == 1
    assert "clean/a.wav" in done.stderr and not done.stdout and not Path("evaluation").exists()
    path = network(corpus / "net.onnx")
    printed = evaluate(*CORPUS, "--dnsmos", path, method="noisy").stdout
    assert "DNSMOS OVR" in printed
    for line in lines():
        sig = -0.08397278 * 4 + 1.22083953 * 2 + 0.0052439
        ovr = -0.06766283 * 16 + 1.11546468 * 4 + 0.04602535
        assert line["scores"]["dnsmos_sig"] == pytest.approx(sig)
        assert line["scores"]["dnsmos_ovr"] == pytest.approx(ovr)
    other = network(corpus / "other.onnx", 100)
    done = evaluate(*CORPUS, "--dnsmos", other, method="noisy", code=2)
    assert "is not a DNSMOS P.835 network" in done.stderr.replace("\n", " ")


# As a process: kills, Ctrl-C, locks, terminals.


posix = pytest.mark.skipif(os.name != "posix", reason="signals, locks and terminals are POSIX")


@pytest.mark.slow
@posix
def test_two_runs_do_not_share_a_folder(corpus, plain_page):
    with runner.lock_results(Path("evaluation")):
        result = evaluate(*CORPUS, code=2)
    assert result.stderr == "Error: another evaluation is writing to -o evaluation\n"
    evaluate(*CORPUS)


@pytest.mark.slow
@posix
def test_a_terminal_shows_a_narrow_table(corpus, plain_page):
    evaluate(*CORPUS)
    seen, piped, code = in_a_terminal(
        "evaluate", *CORPUS, "--method", "noisy,logmmse", stream="stdout", kind="dumb"
    )
    assert piped == b""
    shown = seen.decode()
    assert code == 0 and "±" not in shown and "…" not in shown
    (row,) = (line.split() for line in shown.splitlines() if line.startswith(" logmmse"))
    summary = Path("evaluation/summary.md").read_text()
    (full,) = (line for line in summary.splitlines() if line.startswith("| logmmse |"))
    cells = [cell.split()[0] for cell in full.strip("| ").split(" | ")]
    assert row == [cells[k] for k in (0, 1, 2, 3, 8, 9, 10, 12, 13)]


def start(*arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [*COMMAND, "evaluate", *CORPUS, *arguments, "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


@pytest.mark.slow
@posix
def test_a_killed_run_is_continued(corpus, plain_page):
    evaluate(*CORPUS, "-o", "whole")
    # The last one takes seconds: what is killed had not ended.
    process = start("--method", "noisy,logmmse,paper", "--jobs", "2")
    for _ in range(3):
        assert process.stdout.readline()
    process.kill()
    process.wait()
    leave(process)  # its workers end, too
    process.communicate()
    before = Path("evaluation/results.jsonl").read_bytes()
    assert 3 <= before.count(b"\n") < 12
    evaluate(*CORPUS)
    assert Path("evaluation/results.jsonl").read_bytes().startswith(before)
    found = lines()
    assert len({item["key"] for item in found}) == len(found)
    assert sum(item["method"] != "paper" for item in found) == 8
    assert table() == table("whole")
