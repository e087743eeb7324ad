"""On a CUDA device: the same steps, and the same speech but for the random numbers."""

import numpy as np
import pytest
import soundfile

from alphamf import PRESETS, AlphaMFError, denoise
from alphamf.denoising.settings import HYPERPARAMETERS, kernel
from alphamf.inference.random import generator
from alphamf.scores.score import si_sdr
from alphamf.tools.arrays import module
from tests.support import paper, tones
from tests.support.places import DATA

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def cupy():
    try:
        return module("cuda")
    except AlphaMFError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("alpha", [0.8, 1.0, 1.2, 2.0])
def test_steps_that_draw_nothing(cupy, alpha):
    paper.check_cells(cupy, alpha)


def test_moves_accept_as_often(cupy):
    shares = []
    for xp in (np, cupy):
        power, basis = (xp.asarray(array) for array in paper.synthetic())
        target = paper.target(power, basis, 1)
        rng = generator(0, 0, xp=xp)
        theta = target.start(rng)
        theta[...] = 0.5
        for _ in range(20):
            target.draw(rng, theta)
        shares.append(target.acceptance)
    np.testing.assert_allclose(*shares, atol=0.01)


@pytest.mark.parametrize("name", sorted(HYPERPARAMETERS))
@pytest.mark.parametrize("blocks", [1, 10])
def test_every_sampler_runs(cupy, name, blocks):
    from alphamf.inference.chain import run

    power, basis = (cupy.asarray(array) for array in paper.synthetic())
    target = paper.target(power, basis, blocks)
    start = target.start(generator(0, 0, xp=cupy))
    *_, state = run(target, kernel(name), steps=60, seed=0, start=start)
    assert type(state.theta) is cupy.ndarray
    assert bool(cupy.isfinite(state.theta).all())


@pytest.mark.parametrize("preset", ["fast", "plain"])
@pytest.mark.parametrize("jobs", [1, 3])
def test_the_same_speech(cupy, preset, jobs):
    noisy, rate = soundfile.read(DATA / "sample-noisy.wav", dtype="float32")
    clean = np.tile(soundfile.read(DATA / "sample-clean.wav", dtype="float32")[0], 4)
    noisy = np.tile(noisy, 4)
    scores = [
        si_sdr(clean, denoise(noisy, rate, PRESETS[preset], device=device, jobs=jobs).audio)
        for device in ("cpu", "cuda")
    ]
    np.testing.assert_allclose(*scores, atol=0.3)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_training_steps_are_those_of_the_cpu(precision, tmp_path):
    torch = pytest.importorskip("torch", reason="training needs PyTorch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch finds no CUDA device")
    from alphamf.training.refiner import run as runs

    tones.write_corpora(tmp_path)
    short = {"steps": 4, "report_every": 1, "score_every": 4, "precision": precision}
    config = tones.changed(tmp_path, schedule=short | {"muon": 1.0})
    losses = []
    for device in ("cpu", "cuda"):
        run = runs.Run(config, tmp_path / device, tmp_path / "mixtures", 1, print, device)
        losses.append([row["loss"] for row in runs.train(run)])
    np.testing.assert_allclose(*losses, rtol=1e-3 if precision == "float32" else 3e-2)
