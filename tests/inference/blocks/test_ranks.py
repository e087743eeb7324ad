"""Matrix factorisation over MPI ranks: the bits, the bytes, and a rank that is killed."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from alphamf.inference.blocks.samplers import layout
from alphamf.research.experiments import run
from tests.support import distributed_walks as walks
from tests.support.distributed_walks import BLOCKS, RANK, SAMPLERS, SHAPE, STEPS, tiny
from tests.support.places import ROOT

WALKS = ("-m", "tests.support.distributed_walks")
MPIEXEC = Path(sys.executable).with_name("mpiexec")

pytestmark = pytest.mark.slow
over_mpi = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None or not MPIEXEC.exists(),
    reason="no mpi4py with mpiexec: pip install 'alphamf[mpi]'",
)


def ranks_run(count, *arguments, code=0):
    result = subprocess.run(
        [MPIEXEC, "-n", str(count), sys.executable, *map(str, arguments)],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (result.returncode == code) if code is not None else result.returncode, result.stderr
    return result


@pytest.fixture(scope="module")
def in_turn():
    return walks.outcomes()


@pytest.fixture(scope="module", params=[2, 4])
def on_ranks(request, tmp_path_factory):
    if over_mpi.args[0]:
        pytest.skip(over_mpi.kwargs["reason"])
    output = tmp_path_factory.mktemp("ranks") / "found.npz"
    ranks_run(request.param, *WALKS, "small", output)
    return request.param, dict(np.load(output))


def test_ranks_give_the_bits_of_blocks_in_turn(on_ranks, in_turn):
    walks.same(on_ranks[1], in_turn)
    assert len(in_turn["HAMCMC.curve"]) > 5
    assert in_turn["HAMCMC.sent"] == 0


def test_bytes_sent_are_those_of_the_formula(on_ranks):
    # docs/scale.md
    count, found = on_ranks
    share = BLOCKS // count
    for name, sampler in SAMPLERS.items():
        kept = layout(sampler)
        shifts = found[f"{name}.passed"]
        assert len(shifts) == STEPS * kept.moves
        blocks = count * np.minimum(np.minimum(shifts, share), BLOCKS - shifts).sum()
        expected = blocks * 4 * kept.arrays * SHAPE[1] // BLOCKS * RANK
        points = len(found[f"{name}.curve"])
        expected += 8 * (count - 1) * BLOCKS * (STEPS * kept.sums + 2 * points)
        assert found[f"{name}.sent"] == expected
        # Shifts are even chances, so that about 1 - 1 / R of the blocks change ranks.
        assert blocks / len(shifts) / BLOCKS == pytest.approx(1 - 1 / count, abs=0.12)
    assert [layout(s).arrays for s in SAMPLERS.values()] == [1, 2, 7, 1]
    assert [layout(s).sums for s in SAMPLERS.values()] == [0, 0, 24, 0]


@over_mpi
def test_killed_rank_ends_the_run_and_any_number_of_ranks_goes_on(tmp_path, in_turn):
    output, folder = tmp_path / "found.npz", tmp_path / "checkpoint"
    arguments = *WALKS, "kill", output, folder
    result = ranks_run(4, *arguments, 70, 2, code=None)
    assert "Error: a rank was lost: again\n" in result.stderr
    assert "Traceback" not in result.stderr and not output.exists()
    assert json.loads((folder / "checkpoint.json").read_text())["steps"] == 60
    result = ranks_run(2, *arguments, 0, 0)
    assert "Error" not in result.stderr
    found = np.load(output)
    for key in ("factors", "curve"):
        np.testing.assert_array_equal(found[key], in_turn[f"HAMCMC.{key}"])


TINY = """
import sys
from pathlib import Path
from alphamf.research.experiments import run
from tests.support.distributed_walks import tiny

print(len(run.run(tiny(), Path(sys.argv[1]))))
"""


@over_mpi
def test_experiment_over_ranks_is_the_one_in_turn(tmp_path, shared, monkeypatch):
    monkeypatch.setenv("ALPHAMF_DATA", str(shared))
    result = ranks_run(2, "-c", TINY, tmp_path / "ranks")
    assert sorted(result.stdout.split()) == ["0", "3"]
    assert len(run.run(tiny(), tmp_path / "turn")) == 3
    found = {}
    for name in ("ranks", "turn"):
        lines = (tmp_path / name / "distributed-mf.jsonl").read_text().splitlines()
        found[name] = [
            (job, numbers["rmse"], [point[::2] for point in numbers["curve"]])
            for job, numbers in ((line["job"], line["numbers"]) for line in map(json.loads, lines))
        ]
        assert not list((tmp_path / name).glob("*.checkpoint"))
    assert found["ranks"] == found["turn"] and len(found["turn"]) == 3


@over_mpi
def test_experiment_of_one_process_says_so(tmp_path):
    code = "from alphamf.cli.app import main; main()"
    result = ranks_run(2, "-c", code, "experiment", "richardson", "--output", tmp_path, code=2)
    assert result.stderr.count("Error: ") == 1
    assert "Error: richardson runs in one process; start it without mpiexec" in result.stderr
