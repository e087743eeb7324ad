"""The second stage of low latency in training: it is the one that the engine runs."""

import numpy as np
import pytest

from alphamf.denoising.weights import find_online
from alphamf.learnt import network, second_stage
from alphamf.learnt.causal import CausalNetworks, CausalSecondStage
from alphamf.training.refiner import run as runs
from alphamf.training.refiner.config_file import parse_config
from tests.support import tones
from tests.support.twin.engine import ReferenceEngine
from tests.support.twin.networks import FrameNetwork

torch = pytest.importorskip("torch", reason="training needs PyTorch: pip install 'alphamf[learn]'")

from alphamf.training.refiner import losses  # noqa: E402
from alphamf.training.refiner.optimise import stack_clips  # noqa: E402

RATE = 8000
SIZES = {"width": 16, "hidden": 32, "blocks": 2, "maps": 3, "local": 8, "deep": 1}


def config(corpora, **kind):
    """Return a small run on the shipped causal refiner."""
    table = tones.table(corpora)
    table["network"] |= SIZES | {"model": "speech-8k"}
    table["network"]["kind"] = {"name": "causal-second-stage", **kind}
    table["mixtures"] |= {"clips": 4, "dev_clips": 3, "chains": {}}
    table["schedule"] |= {"steps": 4, "batch": 2, "report_every": 2, "score_every": 4}
    return parse_config(table)


def test_the_network_in_training_makes_the_sound_that_the_engine_makes(
    corpora, tmp_path, monkeypatch
):
    monkeypatch.setattr(FrameNetwork, "change", 1.0)  # training is of the whole change
    monkeypatch.setattr("alphamf.training.refiner.clips.RESIDUAL_PROBABILITY", 0.0)
    asked = config(corpora)
    run = runs.Run(asked, tmp_path / "run", tmp_path / "mixtures", 1, print)
    clip = runs.prepare_clips(run, 0)[1][0]
    frame = second_stage.frame(RATE)
    values = network.start(np.random.default_rng(2), frame.bins, network.Sizes(**SIZES))
    values["map.bias"] += np.random.default_rng(3).standard_normal(len(values["map.bias"])) / 2
    values = {name: value.astype(np.float32) for name, value in values.items()}
    tensors = {name: torch.from_numpy(value) for name, value in values.items()}
    grid = losses.TrainingGrid(frame, RATE, causal=True)
    batch = stack_clips([clip], [0])
    made = losses.run_network(tensors, batch, grid, losses.BatchPart(slice(None)))
    noisy = clip.noisy.astype(np.float32)
    power = (grid.forward(batch.noisy.float()).abs() ** 2).mean()
    wanted = (torch.sqrt(power) * grid.inverse(made.estimate))[0].numpy()

    weights = find_online(RATE)
    networks = CausalNetworks(weights.causal, CausalSecondStage(values, RATE, frame))
    options = {"linked": False, "least": 0.0, "seed": 1}
    engine = ReferenceEngine(RATE, 1, weights.dictionary, networks, **options)
    found = engine.process(noisy[: len(noisy) // engine.hop * engine.hop, None]).speech[:, 0]
    first = clip.first.astype(np.float32)[: len(found)]
    error = np.std(found - wanted[: len(found)]) / np.std(found)
    assert np.std(found - first) > 10 * error * np.std(found), "the network changes something"
    # The second half of a frame lacks a frame of the first stage, and clips have half precision.
    assert error < 0.03
