"""Everything that runs on a device, on CUDA and on a strict stand-in for CuPy.

On the stand-in there is no implicit copy, and there are few waits.
"""

from dataclasses import replace

import numpy as np
import pytest
import soundfile

from alphamf import PRESETS, AlphaMF, AlphaMFError, denoise
from alphamf.audio.resample import resample
from alphamf.denoising.settings import HYPERPARAMETERS, kernel
from alphamf.factorization.stable import positive_stable
from alphamf.inference.chain import run
from alphamf.inference.metric import Dense
from alphamf.inference.random import generator, noise, uniform
from alphamf.inference.targets.gaussian import LinearGaussian
from alphamf.scores.score import si_sdr
from alphamf.separation import fitting
from alphamf.tools.arrays import module, to_host
from tests.support import device, paper, tones
from tests.support.device import Device
from tests.support.places import DATA
from tests.support.sampler_cases import CASES, EXACT, made, posterior


@pytest.fixture
def cuda():
    try:
        return module("cuda")
    except AlphaMFError as error:
        pytest.skip(str(error))


@pytest.fixture(params=["stand-in", pytest.param("cuda", marks=pytest.mark.gpu)])
def cupy(request, monkeypatch):
    if request.param == "stand-in":
        return device.install(monkeypatch)
    return request.getfixturevalue("cuda")


def test_the_stand_in_refuses_what_cupy_refuses(monkeypatch):
    cupy = device.install(monkeypatch)
    array = cupy.asarray(np.ones(3))
    for refused in (
        lambda: np.asarray(array),
        lambda: array + np.ones(3),
        lambda: np.ones(3) + array,
        lambda: np.add(array, 1.0),
        lambda: cupy.exp(np.ones(3)),
    ):
        with pytest.raises(TypeError):
            refused()
    assert not hasattr(cupy, "apply_along_axis")
    assert Device.waits == 0 and float(array.sum()) == 3 and Device.waits == 1
    one = cupy.random.Generator(cupy.random.XORWOW(0)).random(dtype=np.float32, out=cupy.empty(9))
    assert len(set(to_host(one).tolist())) == 1
    indefinite = cupy.asarray(np.diag([1.0, -1.0]))
    assert np.isnan(to_host(cupy.linalg.cholesky(indefinite))).any()
    with pytest.raises(ValueError, match="solve"):
        cupy.linalg.solve(indefinite, cupy.ones((5, 2, 1)))


@pytest.mark.parametrize("draw", [uniform, lambda rng, out: positive_stable(rng, 1.2, out)])
def test_draws_differ_from_each_other(cupy, draw):
    """A generator that is given no size would fill the array with one number."""
    drawn = to_host(draw(generator(0, 1, xp=cupy), cupy.empty((50, 20), np.float32)))
    assert len(np.unique(drawn)) > 900


def test_a_metric_of_all_chains_solves_for_each(cupy):
    g = np.array([[2.0, 0.5], [0.5, 1.0]])
    z = np.random.default_rng(0).standard_normal((7, 2))
    for name in ("solve", "root", "inverse_root"):
        one = getattr(Dense(g), name)(z)
        two = to_host(getattr(Dense(cupy.asarray(g)), name)(cupy.asarray(z)))
        np.testing.assert_allclose(one, two, rtol=1e-12)


@pytest.mark.parametrize("alpha", [0.8, 1.0, 1.2, 2.0])
def test_steps_that_draw_nothing_are_the_same(cupy, alpha):
    paper.check_cells(cupy, alpha)


@pytest.mark.parametrize("name", sorted(HYPERPARAMETERS))
@pytest.mark.parametrize("blocks", [1, 10])
def test_samplers_of_the_denoiser_wait_for_nothing(cupy, name, blocks):
    """But for a check for divergence now and then, and a seed of the blocks."""
    target = paper.target(*map(cupy.asarray, paper.synthetic()), blocks)
    start = target.start(generator(0, 0, xp=cupy))
    for drawn in (start, *target.latents.values()):
        assert len(np.unique(to_host(drawn))) > drawn.size / 2
    check_run(cupy, target, kernel(name), start, 60, 2 + (blocks > 1))
    assert all(0.1 < share <= 1 for share in target.acceptance)


@pytest.mark.parametrize("name", sorted(CASES))
@pytest.mark.parametrize("batch", [None, 10])
def test_every_sampler_runs_on_a_device(cupy, name, batch):
    """Side by side chains stay on the device."""
    if batch and name in EXACT:
        pytest.skip("a Metropolis sampler takes all data")
    host = posterior(batch=batch)
    target = LinearGaussian(cupy.asarray(host.a), cupy.asarray(host.x), 1.0, batch=batch)
    sampler, _ = made(name, host)
    start = noise(generator(0, 3, xp=cupy), cupy.empty((20, target.size)))
    with np.errstate(over="ignore"):  # of a trajectory that is then refused
        check_run(cupy, target, sampler, start, 40, 2)


def check_run(cupy, target, sampler, start, steps, waits):
    Device.reset()
    *_, state = run(target, sampler, steps=steps, seed=0, start=start)
    assert type(state.theta) is cupy.ndarray
    assert Device.copies == 0
    assert Device.waits <= waits
    assert np.isfinite(to_host(state.theta)).all()


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "rate"), [("fast", 16000), ("plain", 8000)])
def test_a_device_denoises_as_well_as_the_cpu(cupy, preset, rate):
    """With other random numbers: dictionary, chain, networks, and two segments together."""
    noisy, clean = (
        np.tile(resample(soundfile.read(DATA / f"sample-{name}.wav")[0][:48000], 16000, rate), 6)
        for name in ("noisy", "clean")
    )
    scores = []
    for where in ("cpu", "cuda"):
        Device.reset()
        found = denoise(noisy, rate, PRESETS[preset], device=where, jobs=2)
        scores.append(si_sdr(clean, found.audio))
    np.testing.assert_allclose(*scores, atol=0.2)
    # A few for each segment: what comes back, and the acceptance.
    assert Device.copies <= 40
    assert Device.waits <= 60


@pytest.mark.gpu
@pytest.mark.usefixtures("cuda")
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
    for where in ("cpu", "cuda"):
        made = runs.Run(config, tmp_path / where, tmp_path / "mixtures", 1, print, where)
        losses.append([row["loss"] for row in runs.train(made)])
    np.testing.assert_allclose(*losses, rtol=1e-3 if precision == "float32" else 3e-2)


def test_chains_on_a_device_say_how_far_they_agree(cupy):
    noisy, rate = soundfile.read(DATA / "sample-noisy.wav", frames=16000)
    settings = replace(PRESETS["fast"], chains=2)
    found, expected = (
        denoise(noisy, rate, settings, device=where).agreement for where in ("cuda", "cpu")
    )
    assert found.mcse_db == pytest.approx(expected.mcse_db, rel=0.5)
    assert found.rhat == pytest.approx(expected.rhat, rel=0.2)


@pytest.mark.parametrize(("sampler", "alpha"), [("em", 2.0), ("sgrld", "estimate")])
def test_the_estimator_runs_on_a_device(cupy, sampler, alpha, monkeypatch):
    monkeypatch.setattr(fitting, "ALPHA_ROUNDS", 1)
    V = cupy.asarray(np.random.default_rng(0).exponential(size=(20, 30)))
    model = AlphaMF(2, alpha=alpha, sampler=sampler, steps=30, draws=5, chains=2).fit(V)
    for found in (*model.posterior_, *model.sample(3), model.inverse_transform(model.transform(V))):
        assert type(found) is type(V) and np.isfinite(to_host(found)).all()
