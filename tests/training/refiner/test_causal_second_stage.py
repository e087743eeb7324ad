"""The second stage of low latency in training: it is the one that the engine runs."""

import numpy as np
import pytest

from alphamf.denoising.reference_engine import ReferenceEngine
from alphamf.denoising.weights import find_online
from alphamf.errors import AlphaMFError
from alphamf.learnt import network, second_stage
from alphamf.learnt.causal import CausalNetworks, CausalSecondStage
from alphamf.training.refiner import run as runs
from alphamf.training.refiner.config_file import parse_config
from tests.support import tones

torch = pytest.importorskip("torch", reason="training needs PyTorch: pip install 'alphamf[learn]'")

from alphamf.training.refiner import causal_start, losses, torch_layers  # noqa: E402
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
    monkeypatch.setattr(CausalSecondStage, "change", 1.0)  # training is of the whole change
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


@pytest.mark.slow
def test_it_is_trained_from_one_for_whole_recordings(corpora, tmp_path):
    sizes = {"width": 192, "hidden": 384, "blocks": 8, "maps": 3, "local": 16, "deep": 3}
    table = config(corpora, made_from="second-stage-8k").as_dict()
    table["network"] |= sizes
    run = runs.Run(parse_config(table), tmp_path / "run", tmp_path / "mixtures", 1, print)
    rows = runs.train(run)
    assert all(np.isfinite(rows[-1][name]) for name in run.config.losses)
    learnt = CausalSecondStage.load(tmp_path / "run" / "network.npz")
    assert (learnt.rate, learnt.frame) == (RATE, second_stage.frame(RATE))
    other = table | {"network": table["network"] | {"width": 100}}
    wrong = runs.Run(parse_config(other), tmp_path / "other", tmp_path / "mixtures", 1, print)
    with pytest.raises(AlphaMFError, match="second-stage-8k does not have the rate and sizes"):
        runs.train(wrong)


def test_a_start_without_later_frames_is_the_same_network():
    """What the network for whole recordings reads of later frames comes from the frame itself."""
    whole = network.Sizes(12, 24, 3, 3, 4, 3, *second_stage.WITH_TAPS)
    sizes = whole._replace(features=network.FEATURES, outputs=network.OUTPUTS)
    rng, bins = np.random.default_rng(0), 97
    known = network.start(rng, bins, whole)
    known = {k: v + 0.1 * rng.standard_normal(v.shape, np.float32) for k, v in known.items()}
    read = known["in.weight"].reshape(bins, whole.features, -1)
    read[:, sizes.features :] = 0
    known["local.weight"][:, :, sizes.features : whole.features] = 0
    for name, value in known.items():
        if name.endswith(".taps"):
            value[3:] = 0
        elif value.ndim == 4:
            value[2] = 0
    made = causal_start.start_second_stage(known, sizes)
    assert {k: v.shape for k, v in made.items()} == network.shapes(bins, sizes)
    features = rng.standard_normal((1, 40, bins, whole.features), np.float32)
    ours, theirs = (
        torch_layers.outputs(
            {name: torch.from_numpy(value) for name, value in values.items()},
            torch.from_numpy(features[..., :count]),
            causal,
        ).numpy()
        for values, count, causal in ((made, sizes.features, True), (known, whole.features, False))
    )
    np.testing.assert_allclose(ours, theirs[..., : sizes.outputs], atol=1e-4)
