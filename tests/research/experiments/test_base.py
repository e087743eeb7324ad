"""The experiments' frame and their command: resume, tables, errors."""

import csv
import dataclasses
import json
import math
from functools import partial
from importlib.metadata import version

import pytest

from alphamf.research.experiments.base import Experiment, job_key, markdown, mean_and_error
from alphamf.research.experiments.catalogue import EXPERIMENTS
from alphamf.research.experiments.hamcmc import speech_search
from alphamf.research.experiments.run import results_file, run
from alphamf.training.dictionary.api import train
from tests.support.commands import run as run_command

TINY = {"figure": "slope", "size": 1, "steps": 12, "burn_in": 2, "chains": 4, "seed": 0}


def tiny(full, seed):
    """Four jobs of `richardson`, each a few milliseconds."""
    return [
        {**TINY, "method": method, "gamma": gamma, "seed": seed, "full": full}
        for method in ("SGLD", "SGRRLD")
        for gamma in (1e-3, 5e-4)
    ]


def counts(records):
    return [{"method": job["method"], "bias": n["bias"][0], "paper": None} for job, n in records]


def picture(records):
    from matplotlib.figure import Figure

    drawing = Figure()
    drawing.subplots().plot([n["bias"][0] for _, n in records])
    return drawing


@pytest.fixture
def small(monkeypatch):
    """`richardson` with those jobs; the processes that do them find its own ``work``."""
    experiment = dataclasses.replace(
        EXPERIMENTS["richardson"], jobs=tiny, table=counts, figure=picture
    )
    monkeypatch.setitem(EXPERIMENTS, "richardson", experiment)
    return experiment


command = partial(run_command, "experiment")


def one_sentence(text):
    assert text.startswith("Error: ") and text.count("\n") == 1
    return text


def test_list_shows_name_paper_and_time():
    lines = command("list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(EXPERIMENTS)
    for line, experiment in zip(lines, EXPERIMENTS.values(), strict=True):
        assert experiment.paper in line
        quick, full = experiment.minutes
        assert line.split()[-5:] == [f"{quick:g}", "min,", "full", f"{full:g}", "min"]
        assert quick <= 3
    assert command().stdout == command("list").stdout


def test_every_experiment_lists_different_jobs_that_json_can_hold(shared, monkeypatch):
    monkeypatch.setenv("ALPHAMF_DATA", str(shared))
    for name, experiment in EXPERIMENTS.items():
        assert experiment.name == name
        for full in (False, True):
            keys = [job_key(job) for job in experiment.jobs(full, 3)]
            assert len(set(keys)) == len(keys) > 0
            for job in experiment.jobs(full, 3):
                assert json.loads(json.dumps(job)) == job
        assert not set(keys) & {job_key(job) for job in experiment.jobs(True, 1000)}


MOST = {
    "steps": 30, "burn_in": 10, "keep": 20, "thin": 10, "timed": 5, "chains": 3, "time": 1.0,
    "users": 300, "documents": 150, "samples": 64, "rows": 600,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_gives_a_table_and_a_figure(name, shared, tmp_path, monkeypatch):
    """All methods at small sizes, and with a dictionary of ten spectra."""
    monkeypatch.setenv("ALPHAMF_DATA", str(shared))
    paths = [shared / "corpora/noizeus" / speech_search.training_files()[0]]
    model = train(paths, rank=10, alpha=1.2, context=1, steps=5)
    monkeypatch.setattr(speech_search, "dictionary", lambda: model)
    experiment = EXPERIMENTS[name]
    jobs = [
        job | {key: min(job[key], MOST[key]) for key in job.keys() & MOST.keys()}
        for job in experiment.jobs(False, 0)
    ]
    rows = run(dataclasses.replace(experiment, jobs=lambda full, seed: jobs), tmp_path)
    assert len(list(results_file(tmp_path / name).read())) == len(jobs)
    assert (tmp_path / f"{name}.md").read_text() == markdown(rows) + "\n"
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_run_writes_four_files_and_resumes(small, tmp_path):
    shown = command("richardson", "--output", tmp_path, "--jobs", 2)
    files = {suffix: tmp_path / f"richardson.{suffix}" for suffix in ("jsonl", "csv", "md", "png")}
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in files.values()}
    assert files["md"].read_text() in shown.stdout + "\n"
    assert files["png"].read_bytes().startswith(b"\x89PNG")
    with files["csv"].open() as file:
        rows = list(csv.DictReader(file))
    assert [row["method"] for row in rows] == ["SGLD", "SGLD", "SGRRLD", "SGRRLD"]

    # Half of the lines lost, and the next one cut off in the middle.
    lines = files["jsonl"].read_text().splitlines()
    before = {path: path.read_bytes() for path in files.values()}
    files["jsonl"].write_text(lines[0] + "\n" + lines[1][:40])
    done = []
    run(small, tmp_path, progress=lambda *numbers: done.append(numbers))
    assert done == [(1, 4), (2, 4), (3, 4), (4, 4)]
    for suffix in ("csv", "md", "png"):
        assert files[suffix].read_bytes() == before[files[suffix]]
    again = files["jsonl"].read_text().splitlines()
    assert again[0] == lines[0] and again[1] == lines[1][:40] and len(again) == 5

    # Nothing is left to do, and no process is started.
    done.clear()
    run(small, tmp_path, progress=lambda *numbers: done.append(numbers))
    assert done == [(4, 4)]
    assert files["jsonl"].read_text().splitlines() == again


@pytest.mark.slow
def test_full_seed_and_version_are_jobs_of_their_own(small, tmp_path):
    first = run(small, tmp_path)
    other = run(small, tmp_path, seed=1)
    assert first != other
    assert run(small, tmp_path) == first
    assert len(list(results_file(tmp_path / "richardson").read())) == 8
    command("richardson", "--full", "--quiet", "--output", tmp_path)
    assert len(list(results_file(tmp_path / "richardson-full").read())) == 4
    lines = (tmp_path / "richardson.jsonl").read_text()
    old = lines.replace(f'"version": "{version("alphamf")}"', '"version": "0"')
    (tmp_path / "richardson.jsonl").write_text(old)
    assert old != lines and not list(results_file(tmp_path / "richardson").read())


def test_a_resumed_run_has_the_numbers_of_the_first(tmp_path):
    experiment = Experiment(
        "x", "paper", (0, 0),
        jobs=lambda full, seed: [{"n": n} for n in range(2)],
        work=lambda job: {"bias": [math.inf if job["n"] else 0.5]},
        table=lambda records: [
            {"n": job["n"], "bias": mean_and_error(n["bias"])} for job, n in records
        ],
        figure=lambda records: picture([]),
    )  # fmt: skip
    assert run(experiment, tmp_path) == run(experiment, tmp_path)


def test_unknown_name_is_one_sentence():
    text = one_sentence(command("nothing", code=2).stderr)
    assert "'nothing'" in text
    assert all(name in text for name in EXPERIMENTS)


def test_folder_that_cannot_be_written_is_one_sentence(small, tmp_path):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        text = one_sentence(command("richardson", "--output", folder, code=2).stderr)
        assert str(tmp_path / "file") in text
    (tmp_path / "richardson.jsonl").mkdir()
    one_sentence(command("richardson", "--output", tmp_path, code=2).stderr)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_job_that_fails_keeps_those_done_before(tmp_path, small, monkeypatch):
    def broken(full, seed):
        return [*tiny(full, seed)[:1], {**TINY, "method": "SGLD", "gamma": 1e200}]

    monkeypatch.setitem(EXPERIMENTS, "richardson", dataclasses.replace(small, jobs=broken))
    text = one_sentence(command("richardson", "--output", tmp_path, "--jobs", 1, code=2).stderr)
    assert "diverged" in text
    assert len(list(results_file(tmp_path / "richardson").read())) == 1
    assert not (tmp_path / "richardson.md").exists()


def test_markdown():
    rows = [{"a": "x", "b": 0.123456, "|c|": None}, {"a": "y", "b": 3, "|c|": "1 ± 2"}]
    assert markdown(rows).splitlines() == [
        r"| a | b | \|c\| |",
        "| --- | ---: | ---: |",
        "| x | 0.1235 | - |",
        "| y | 3 | 1 ± 2 |",
    ]


def test_mean_and_error():
    assert mean_and_error([2.0]) == "2"
    assert mean_and_error([1.0, 2.0, 3.0]) == "2 ± 0.58"
    assert mean_and_error([0.123456], 2) == "0.12"
