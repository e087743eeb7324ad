"""``alphamf benchmark``: it compares equal computations, and reports them."""

from __future__ import annotations

import json
from itertools import islice

import numpy as np
import pytest
from typer.testing import CliRunner

from alphamf.cli.app import app
from alphamf.errors import AlphaMFError
from alphamf.evaluation.cost import Cost
from alphamf.inference.random import generator
from alphamf.research.speed import measure as speed
from alphamf.research.speed import paper, parallel, peers, rows
from alphamf.research.speed.floor import floor
from alphamf.research.speed.naive import Naive
from alphamf.tools import pool


def test_plain_numpy_is_the_same_model():
    power, basis = paper.synthetic()
    plain = Naive(power, basis, 1.0)
    target = paper.target(power.astype(float), basis.astype(float), 1)
    theta = target.start(generator(0, 0))
    assert plain.start(generator(1, 0)).shape == theta.shape
    plain.latents = target.latents
    potential = plain.draw(generator(2, 0), theta)
    ours = target.potential()
    np.testing.assert_allclose(potential.grad(theta), ours.grad(theta), rtol=1e-9, atol=1e-9)
    for one, two in zip(potential.parts(theta)[:3], ours.parts(theta)[:3], strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9)


def test_plain_numpy_accepts_as_many_moves_and_a_tenth_of_them():
    power, basis = paper.synthetic()
    shares = []
    for target in (
        Naive(power, basis, 1.0),
        Naive(power, basis, 0.1),
        paper.target(power, basis, 1),
    ):
        rng = generator(3, 0)
        theta = target.start(rng)
        theta[...] = generator(4, 0).random(len(theta)) + 0.1
        for _ in range(5):
            target.draw(rng, theta)
        shares.append(np.sum(target.accepted) / (10 * power.size))
    assert shares[2] == pytest.approx(shares[0], abs=0.01)
    assert shares[1] == pytest.approx(shares[0] / 10, rel=0.1)


@pytest.mark.slow
def test_the_floor_grows_with_what_a_step_needs():
    least = [min(floor(*what)() for _ in range(9)) for what in ((10, 1, 0), (1, 1, 0), (1, 2, 4))]
    assert 0 < 2 * least[0] < least[1] < least[2]


@pytest.mark.slow
def test_a_row_of_each_table():
    step = next(speed.steps(1))
    assert (step.sampler, step.cells) == ("sgld", "all")
    assert step.faster == pytest.approx(step.naive / step.alphamf)
    assert step.above == pytest.approx(step.alphamf / step.floor)
    assert step.faster > 2
    denoiser = next(speed.denoisers(1))
    assert (denoiser.name, denoiser.rate) == ("fast", 8000)
    assert 0 < denoiser.real_time < 5


@pytest.mark.slow
@pytest.mark.parametrize("as_json", [False, True])
def test_command(as_json, monkeypatch):
    steps, denoisers = speed.steps, speed.denoisers
    monkeypatch.setattr(speed, "steps", lambda *given: islice(steps(*given), 1))
    monkeypatch.setattr(speed, "denoisers", lambda *given: islice(denoisers(*given), 1))
    monkeypatch.setattr(speed, "synthetic_sound", lambda *given: np.ones(100, np.float32))
    monkeypatch.setattr(parallel, "synthetic_sound", lambda *given: np.ones(100, np.float32))
    monkeypatch.setattr(pool, "cores", lambda: 1)
    monkeypatch.setattr(peers, "names", lambda: ["logmmse", "fast"])
    monkeypatch.setattr(peers, "LENGTHS", (0.25, 0.5))
    monkeypatch.setattr(peers, "RATES", (8000,))
    monkeypatch.setattr(rows, "RATES", (8000,))
    result = CliRunner().invoke(
        app, ["benchmark", "--rounds", "1", *["--json"] * as_json], catch_exceptions=False
    )
    assert result.exit_code == 0
    if as_json:
        found = [json.loads(line) for line in result.stdout.splitlines()]
        assert [row["table"] for row in found] == [
            *("steps", "denoisers"),
            *("peers", "peers"),
            *("cores", "cores"),
        ]
        assert found[0]["times as fast as plain"] > 1
    else:
        assert "| sgld | all |" in result.stdout
        assert "| a folder of clips | 16 |" in result.stdout


def test_command_refuses_what_does_not_do():
    result = CliRunner().invoke(app, ["benchmark", "--rounds", "0"])
    assert result.exit_code == 2
    assert "--rounds" in result.output


def test_peers_are_compared_in_one_run_and_one_that_fails_is_left_blank(monkeypatch):
    costs = {"logmmse": 0.01, "rnnoise": 0.02, "fast": 0.1, "webrtc": None}

    def timed(name, clip):
        if costs[name] is None:
            raise AlphaMFError("webrtc failed")
        return clip.noisy, Cost(0.5 + costs[name] * len(clip.noisy) / clip.rate, 1.0, None)

    monkeypatch.setattr(peers, "timed", timed)
    monkeypatch.setattr(peers, "names", lambda: list(costs))
    found = {row["method"]: row for row in rows.peer_rows(peers.peers(3))}
    for rate in (8, 16, 48):  # what starts it, half a second, is not counted
        assert found["fast"][f"CPU s per s, {rate} kHz"] == pytest.approx(0.1)
        assert found["fast"][f"rnnoise = 1, {rate} kHz"] == pytest.approx(5)
        assert found["logmmse"][f"rnnoise = 1, {rate} kHz"] == pytest.approx(0.5)
        assert np.isnan(found["webrtc"][f"CPU s per s, {rate} kHz"])


def test_the_presets_are_among_the_peers():
    found = peers.names()
    assert {"logmmse", "fast", "balanced"} <= set(found)
    assert not {"noisy", "oracle-mask", "paper"} & set(found)
