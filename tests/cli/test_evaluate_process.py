"""``alphamf evaluate`` as a process: kills, Ctrl-C, locks, terminals, start-up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from alphamf.evaluation import runner
from tests.support.commands import COMMAND, in_a_terminal, leave, until
from tests.support.evaluation_corpus import (
    CORPUS,
    corpus,
    evaluate,
    lines,
    plain_page,
    speech,
    table,
    write,
)

__all__ = ["corpus", "plain_page"]

posix = pytest.mark.skipif(os.name != "posix", reason="signals, locks and terminals are POSIX")


@pytest.mark.slow
@posix
def test_two_runs_do_not_share_a_folder(corpus, plain_page):
    with runner.lock_results(Path("evaluation")):
        result = evaluate(*CORPUS, code=2)
    assert result.stderr == "Error: another evaluation is writing to -o evaluation\n"
    evaluate(*CORPUS)


def test_help_names_the_default_methods_and_imports_nothing_heavy():
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom alphamf.cli.app import app\n"
        "shown = CliRunner().invoke(app, ['evaluate', '--help'], env={'COLUMNS': '200'}).stdout\n"
        "heavy = {'numpy', 'scipy', 'matplotlib', 'alphamf.evaluation.pairs'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "from alphamf.evaluation.methods import DEFAULTS\n"
        "assert ','.join(DEFAULTS) in ''.join(shown.split()), shown\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


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
    (full,) = (line for line in Path("evaluation/summary.md").read_text().splitlines()
               if line.startswith("| logmmse |"))  # fmt: skip
    cells = [cell.split()[0] for cell in full.strip("| ").split(" | ")]
    assert row == [cells[k] for k in (0, 1, 2, 3, 8, 9, 10, 12, 13)]


def start(*arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [*COMMAND, "evaluate", *CORPUS, *arguments, "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


@pytest.mark.slow
@posix
@pytest.mark.parametrize("group", [True, False])
def test_a_killed_run_is_continued(corpus, plain_page, group):
    evaluate(*CORPUS, "-o", "whole")
    # The last one takes seconds: what is killed had not ended.
    process = start("--method", "noisy,logmmse,paper", "--jobs", "2")
    for _ in range(3):
        assert process.stdout.readline()
    (os.killpg if group else os.kill)(process.pid, signal.SIGKILL)
    process.wait()
    leave(process)
    process.communicate()
    before = Path("evaluation/results.jsonl").read_bytes()
    assert 3 <= before.count(b"\n") < 12
    evaluate(*CORPUS)
    assert Path("evaluation/results.jsonl").read_bytes().startswith(before)
    found = lines()
    assert len({item["key"] for item in found}) == len(found)
    assert sum(item["method"] != "paper" for item in found) == 8
    assert table() == table("whole")


@pytest.mark.slow
@posix
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_is_clean(corpus, jobs):
    for k in range(3):
        sound = np.tile(speech("noisy", 0, 5.0), 20)
        write(Path(f"noisy/{k}.wav"), sound)
        write(Path(f"clean/{k}.wav"), 0.9 * sound)
    process = start("--method", "paper", "--jobs", jobs)
    sounds = Path("evaluation/audio/clean")
    until(lambda: len(list(sounds.glob("[0-9].flac"))) >= int(jobs))
    time.sleep(0.5)  # past the imports, which may lose an exception that a signal raises
    os.killpg(process.pid, signal.SIGINT)
    try:
        output, errors = process.communicate(timeout=90)
    finally:
        leave(process)
    said = b"Stopped. The same command continues.\n"
    assert (process.returncode, output, errors) == (130, b"", said)
    assert (Path("evaluation") / "results.jsonl").read_bytes() == b""
    assert not list(Path().rglob(".*.part")) and not Path("evaluation/report.html").exists()
