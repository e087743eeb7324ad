"""Training runs: what they write, that they learn, that a killed one goes on, and adaptation."""

import csv
import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from alphamf.audio.stft import Frame
from alphamf.errors import AlphaMFError
from alphamf.learnt import network, second_stage
from alphamf.learnt.causal import CausalRefiner
from alphamf.learnt.network_file import shipped_networks
from alphamf.learnt.refiner import Refiner
from alphamf.learnt.second_stage import SecondStage
from alphamf.training.refiner import adapt
from alphamf.training.refiner import run as runs
from alphamf.training.refiner.config import Ladder
from tests.support import tones
from tests.support.commands import run as alphamf
from tests.support.tones import FRAME, RATE

pytest.importorskip("torch", reason="training needs PyTorch: pip install 'alphamf[learn]'")

from alphamf.training.refiner import weight_tying

SHORT = {"steps": 4, "report_every": 2, "score_every": 4}


def small(corpora, folder, **sections):
    """Return a small run in a folder, and the list that takes its lines."""
    lines = []
    config = tones.changed(corpora, **sections)
    return runs.Run(config, folder, corpora / "mixtures", 1, lines.append), lines


def toml(table):
    """Write a table of sections as TOML, whose numbers, texts and lists are JSON's."""
    text = ""
    for name, section in table.items():
        nested = {key: value for key, value in section.items() if isinstance(value, dict)}
        flat = {key: value for key, value in section.items() if key not in nested}
        text += f"[{name}]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in flat.items())
        for key, value in nested.items():
            text += f"[{name}.{key}]\n" + "".join(f"{k} = {v}\n" for k, v in value.items())
    return text


def test_a_device_that_is_not_there_is_said(corpora, tmp_path):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is one")
    run, _ = small(corpora, tmp_path / "run")
    with pytest.raises(AlphaMFError, match="PyTorch finds no device cuda on this machine"):
        runs.train(run._replace(device="cuda"))
    assert not (tmp_path / "run").exists()


FILES = ["config.json", "checkpoint.pt", "network.npz", "curves.csv"]


@pytest.mark.skipif(os.name != "posix", reason="needs links")
@pytest.mark.parametrize("name", FILES)
def test_a_folder_with_a_link_or_a_file_of_others_is_refused(corpora, tmp_path, name):
    run, _ = small(corpora, tmp_path / "run")
    run.folder.mkdir()
    place = run.folder / name
    place.symlink_to(tmp_path / "nowhere")
    with pytest.raises(AlphaMFError, match=f"{name} is a link"):
        runs.train(run)
    place.unlink()
    place.write_text("mine")
    other = (
        "with another configuration"
        if name == "config.json"
        else f"{name} does not belong to a run"
    )
    with pytest.raises(AlphaMFError, match=other):
        runs.train(run)
    assert os.listdir(run.folder) == [name] and place.read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


def test_a_run_writes_its_network_its_curves_and_goes_on(corpora, tmp_path):
    run, lines = small(corpora, tmp_path / "run", schedule=SHORT)
    rows = runs.train(run)
    assert [row["step"] for row in rows] == [2, 4]
    assert any("step 4 of 4" in line and "dev si_sdr" in line for line in lines)
    with (tmp_path / "run" / "curves.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert [float(row["loss"]) for row in written] == [row["loss"] for row in rows]
    learnt = Refiner.load(tmp_path / "run" / "network.npz")
    assert (learnt.rate, learnt.frame, learnt.about["step"]) == (RATE, FRAME, 4)
    assert learnt.about["config"] == json.loads(json.dumps(run.config.as_dict()))
    packed = np.concatenate([each.ravel() for each in learnt.parameters.values()])
    digest = hashlib.sha256(packed.astype(np.float16).tobytes()).hexdigest()
    assert learnt.about["sha256 of parameters"] == digest
    # Nothing is left to do; another configuration is refused, and so is a damaged checkpoint.
    assert runs.train(run) == rows
    other = run._replace(config=replace(run.config, losses={"distortion": 1.0}))
    with pytest.raises(AlphaMFError, match="contains a run with another configuration"):
        runs.train(other)
    (tmp_path / "run" / "checkpoint.pt").write_bytes(b"nothing")
    with pytest.raises(AlphaMFError, match=r"checkpoint\.pt is not a checkpoint of this run"):
        runs.train(run)


@pytest.mark.slow
def test_a_causal_network_is_trained_on_what_the_online_chain_finds(corpora, tmp_path):
    kind = {"network": {"kind": {"name": "causal"}}, "mixtures": {"chains": {}}}
    run, _ = small(corpora, tmp_path / "run", schedule=SHORT, **kind)
    run = run._replace(mixtures=tmp_path / "mixtures")
    rows = runs.train(run)
    assert all(np.isfinite(rows[-1][name]) for name in run.config.losses)
    learnt = CausalRefiner.load(tmp_path / "run" / "network.npz")
    assert (learnt.rate, learnt.frame) == (RATE, Frame(FRAME.n_fft, FRAME.n_fft // 8))
    # Those of another kind of network are not taken for it.
    with pytest.raises(AlphaMFError, match="contains mixtures with another recipe"):
        other, _ = small(corpora, tmp_path / "other", schedule=SHORT)
        runs.train(other._replace(mixtures=tmp_path / "mixtures"))


@pytest.mark.slow
def test_a_network_tied_in_bands_is_one_like_others(corpora, tmp_path):
    kind = {"network": {"model": "speech-8k", "bands": 70}, "schedule": SHORT}
    run, _ = small(corpora, tmp_path / "run", **kind)
    run = run._replace(mixtures=tmp_path / "mixtures")
    runs.train(run, 2)
    runs.train(run)
    learnt = Refiner.load(tmp_path / "run" / "network.npz")
    bins = learnt.frame.bins
    made = learnt.parameters["map.bias"].reshape(bins, -1)
    assert np.abs(made).max() > 0.001
    spread = weight_tying.band_shares(bins, 70)
    between = spread @ np.linalg.lstsq(spread, made, rcond=None)[0]
    np.testing.assert_allclose(made, between, atol=1e-5)
    # A second round, whose first steps change next to nothing, goes on from there.
    path = str(tmp_path / "run" / "network.npz")
    kind["network"] |= {"start": path}
    kind["schedule"] = SHORT | {"steps": 2, "score_every": 2, "step_size": 1e-9}
    again, _ = small(corpora, tmp_path / "again", **kind)
    runs.train(again._replace(mixtures=run.mixtures))
    second = Refiner.load(tmp_path / "again" / "network.npz").parameters
    for name, value in learnt.parameters.items():
        np.testing.assert_allclose(second[name], value, atol=1e-3)
    too_many = small(corpora, tmp_path / "many", network={"bands": 66})[0]
    with pytest.raises(AlphaMFError, match="bands must be fewer than the 65 bins, not 66"):
        runs.train(too_many)


def test_a_check_compares_with_the_recorded_loss(corpora, tmp_path):
    short = {"steps": 8, "report_every": 2, "score_every": 8}
    run, _ = small(corpora, tmp_path / "a", schedule=short)
    with pytest.raises(AlphaMFError, match=r"has no \[ladder\]"):
        runs.check(run)
    run = run._replace(config=replace(run.config, ladder=Ladder(4)))
    sentence = runs.check(run)
    assert (
        sentence.startswith("the loss at step 4 is ")
        and "the configuration has no loss to compare it with" in sentence
    )
    loss = float(sentence.split()[6].rstrip(","))
    run = run._replace(config=replace(run.config, ladder=Ladder(4, loss, 0.01)))
    assert "as " in runs.check(run)
    run = run._replace(config=replace(run.config, ladder=Ladder(4, loss + 1, 0.01)))
    with pytest.raises(AlphaMFError, match=r"the loss at step 4 is .* is recorded"):
        runs.check(run)
    # The run itself goes on from there.
    assert [row["step"] for row in runs.train(run)] == [2, 4, 6, 8]


def test_a_network_of_other_sizes_is_not_gone_on_from(corpora, tmp_path):
    start = {"start": str(shipped_networks()["refiner-8k"])}
    run, _ = small(corpora, tmp_path / "run", network=start)
    with pytest.raises(AlphaMFError, match="refiner-8k does not have the rate and sizes"):
        runs.train(run)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_network_may_go_a_part_of_the_way_from_its_start(corpora, tmp_path):
    schedule = {"steps": 4, "report_every": 2, "score_every": 4, "step_size": 0.01}
    first, _ = small(corpora, tmp_path / "start", schedule=schedule)
    runs.train(first)
    start = tmp_path / "start" / "network.npz"

    def parameters(moved):
        network = {"start": str(start), "moved": moved}
        run, _ = small(corpora, tmp_path / f"{moved}", schedule=schedule, network=network)
        runs.train(run, 2)  # and what goes on from the checkpoint knows where it began
        runs.train(run)
        return Refiner.load(tmp_path / f"{moved}" / "network.npz").parameters

    begun, end = Refiner.load(start).parameters, parameters(1.0)
    part = parameters(0.25)
    for name, value in part.items():
        wanted = 0.75 * begun[name] + 0.25 * end[name]
        np.testing.assert_allclose(value, wanted, rtol=2e-3, atol=2e-4)  # halves
    assert any(np.abs(end[name] - begun[name]).max() > 0.01 for name in begun)


@pytest.mark.slow
def test_a_second_stage_is_trained_in_short_windows(corpora, tmp_path):
    run, _ = small(corpora, tmp_path / "first", schedule={"steps": 10, "score_every": 10})
    runs.train(run)
    kind = {"name": "second-stage", "of": str(tmp_path / "first" / "network.npz")}
    again, _ = small(corpora, tmp_path / "run", network={"kind": kind})
    rows = runs.train(again._replace(mixtures=tmp_path / "mixtures"))
    assert rows[-1]["loss"] < rows[0]["loss"]
    learnt = SecondStage.load(tmp_path / "run" / "network.npz")
    assert (learnt.rate, learnt.frame) == (RATE, second_stage.frame(RATE))
    taps = {"kind": kind | {"taps": True}}
    more, _ = small(corpora, tmp_path / "taps", network=taps)
    assert runs.train(more._replace(mixtures=tmp_path / "mixtures"))
    found = SecondStage.load(tmp_path / "taps" / "network.npz")
    assert (found.sizes.features, found.sizes.outputs) == second_stage.WITH_TAPS
    assert found.parameters["out.bias"][network.OUTPUTS :].any()


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_bits(corpora, tmp_path):
    table = tones.table(corpora)
    table["schedule"] |= {"steps": 60, "score_every": 60, "precision": "bfloat16", "muon": 2}
    (tmp_path / "small.toml").write_text(toml(table))

    def command(name):
        words = [sys.executable, "-m", "alphamf.training", "small.toml", "--run", name]
        return [*words, "--jobs", "1", "--mixtures", str(corpora / "mixtures")]

    subprocess.run(command("whole"), cwd=tmp_path, check=True, capture_output=True)
    kills = 0
    for steps in (10, 30):
        with subprocess.Popen(command("killed"), cwd=tmp_path, stdout=subprocess.PIPE) as process:
            for line in process.stdout:
                if line.startswith(b"step") and int(line.split()[1]) >= steps:
                    break
            time.sleep(0.05)  # into the next steps
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
                kills += 1
    assert kills == 2
    done = subprocess.run(command("killed"), cwd=tmp_path, check=True, capture_output=True)
    assert b"step 60 of 60" in done.stdout
    whole, killed = (tmp_path / name / "network.npz" for name in ("whole", "killed"))
    assert whole.read_bytes() == killed.read_bytes()
    rows = [
        list(csv.DictReader((tmp_path / name / "curves.csv").read_text().splitlines()))
        for name in ("whole", "killed")
    ]
    for row in (*rows[0], *rows[1]):
        del row["seconds"]
    assert rows[0] == rows[1]


def test_files_of_a_run_that_cannot_be_read_or_written_are_said(corpora, tmp_path):
    resource = pytest.importorskip("resource")
    run, _ = small(corpora, tmp_path / "run", schedule=SHORT)
    runs.train(run, until=2)
    checkpoint = tmp_path / "run" / "checkpoint.pt"
    before = checkpoint.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, limits[1]))
    try:
        with pytest.raises(AlphaMFError, match=r"checkpoint\.pt cannot be written: File too large"):
            runs.train(run)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert checkpoint.read_bytes() == before
    copied = run._replace(mixtures=shutil.copytree(run.mixtures, tmp_path / "mixtures"))
    (tmp_path / "mixtures" / "dev-0000.npy").write_bytes(b"nothing")
    with pytest.raises(AlphaMFError, match=r"dev-0000\.npy cannot be read"):
        runs.train(copied)
    (tmp_path / "run" / "config.json").write_bytes(b"\xff")
    with pytest.raises(AlphaMFError, match=r"config\.json cannot be read"):
        runs.train(run)


@pytest.mark.parametrize(
    ("after", "worse"),
    [
        ((11.0, 2.1, 0.81), []),
        ((11.0, 2.0, 0.8), []),
        ((11.0, float("nan"), 0.8), []),
        ((11.0, 1.9, 0.79), ["pesq", "estoi"]),
        ((9.0, 2.1, 0.8), ["si_sdr"]),
        ((10.0, 2.0, 0.8), ["si_sdr", "pesq", "estoi"]),
    ],
)
def test_a_better_network_loses_no_score(after, worse):
    before = adapt.Scores(10.0, 2.0 if after[1] == after[1] else after[1], 0.8)
    found = adapt.FineTuningResult(None, before, adapt.Scores(*after), 100, 20)
    assert found.worse == worse


@pytest.mark.parametrize("worse", [True, False])
def test_adapt_shows_stages_and_writes_what_wins(tmp_path, monkeypatch, worse):
    shipped = Refiner.load(shipped_networks()["refiner-8k"])

    def work(wish, tell):
        for stage, share in (("Reading the recordings", 0.0), ("Training", 0.5), ("Training", 1.0)):
            tell(stage, share)
        scores = adapt.Scores(11.0, 1.9 if worse else 2.1, 0.8)
        return adapt.FineTuningResult(shipped, adapt.Scores(10.0, 2.0, 0.8), scores, 100, 20)

    monkeypatch.setattr(adapt, "adapt", work)
    made = tmp_path / "mine.npz"
    words = ["adapt", "--clean", "c", "--noise", "n", "-o", str(made), "--rate", "8000"]
    done = alphamf(*words, code=2 if worse else 0)
    assert done.stderr.splitlines()[:2] == ["Reading the recordings", "Training"]
    assert made.exists() != worse
    assert ("(PESQ did not rise)" in done.stderr) == worse


@pytest.mark.slow
def test_adaptation_gains_on_the_users_own_noise(corpora, tmp_path):
    words = ["adapt", "--clean", str(corpora / "speech"), "--noise", str(corpora / "noise")]
    words += ["-o", str(tmp_path / "mine.npz"), "--rate", "8000", "--minutes", "0.5", "--jobs", "1"]
    done = alphamf(*words)
    table = [line.split("|")[1:-1] for line in done.stdout.splitlines() if line.startswith("|")]
    assert [row[0].strip() for row in table[2:]] == ["before", "after"]
    before, after = (float(row[1]) for row in table[2:])
    assert after > before
    learnt = Refiner.load(tmp_path / "mine.npz")
    assert learnt.rate == 8000 and learnt.about["config"]["network"]["start"] == "refiner-8k"
    noisy = Path(__file__).parents[3] / "data" / "sample-noisy.wav"
    *_, command = done.stdout.splitlines()
    name, *used = shlex.split(command.replace("RECORDING", shlex.quote(str(noisy))))
    assert name == "alphamf" and "second-stage-8k" in used
    alphamf(*used, "-o", str(tmp_path / "out.wav"))
    assert "already exists" in alphamf(*words, code=2).stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--rate", "44100"], "--rate must be 8000 or 16000, not 44100"),
        (["--minutes", "0"], "--minutes must be above 0, not 0"),
        (["--clean", "-"], "standard input cannot be used for training"),
        (["-o", "mine.wav"], "the output of -o must end in .npz, not mine.wav"),
        (["--clean", "d"], "c does not exist"),
    ],
)
def test_what_adapt_refuses(empty, words, sentence):
    done = alphamf("adapt", "--clean", "c", "--noise", "n", "-o", "mine.npz", *words, code=2)
    assert sentence in done.stderr
    *stages, error = done.stderr.splitlines()
    assert error.startswith("Error: ") and stages in ([], ["Reading the recordings"])
    assert not list(empty.iterdir())
