"""The loop: seeds, records, and runs that go on from a checkpoint as if never stopped."""

import os
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest

from alphamf.errors import AlphaMFError
from alphamf.factorization.alpha_mf import AlphaMFTarget, Source
from alphamf.factorization.priors import Gamma
from alphamf.inference import checkpoint as saved
from alphamf.inference.chain import run
from alphamf.inference.random import generator
from alphamf.inference.records import Extrapolated, Mean, Trace
from alphamf.inference.samplers.hamcmc import HAMCMC
from alphamf.inference.samplers.langevin import SGLD, SGLDState
from alphamf.inference.samplers.richardson import SGRRHMC, SGRRLD
from alphamf.inference.schedule import Held, Polynomial
from alphamf.inference.targets.gaussian import LinearGaussian
from alphamf.inference.targets.perplexity import Perplexity, split
from alphamf.inference.targets.topics import TopicModel
from tests.inference.targets.test_topics import corpus


def regression(dtype=np.float64):
    a = np.random.default_rng(0).standard_normal((20, 3))
    return LinearGaussian(a.astype(dtype), (a @ np.ones(3)).astype(dtype), 1.0, batch=4)


def factors():
    power = np.random.default_rng(1).standard_exponential((6, 5)).astype(np.float32)
    prior = Gamma(2.0, 1.0)
    sources = [Source(1.2, 2, None, prior, prior), Source(1.89, 1, None, prior, prior)]
    return AlphaMFTarget(power, sources, blocks=2)


def same(one, two):
    for mine, other in zip(one, two, strict=True):
        assert type(mine) is type(other)
        if hasattr(mine, "_fields"):
            same(mine, other)
            continue
        np.testing.assert_array_equal(mine, other)


class Stop(Exception):
    """What stops a run."""


def square(theta, target):
    return theta**2


def first(theta, target):
    return theta[..., 0]


def documents():
    return TopicModel(corpus(), 4, rounds=2, batch=10)


def weighted():
    return Mean(square, burn_in=5, thin=2, weight=Polynomial(0.1))


HELD_OUT = split(generator(8), corpus(20, seed=9))


@pytest.mark.parametrize(
    ("make", "sampler", "recorded", "values"),
    [
        (regression, SGLD(Polynomial(1e-4)), weighted, "count mean std"),
        (factors, HAMCMC(1e-3, memory=3, gamma=1e-3, trust=1e3), weighted, "count mean std"),
        (regression, SGRRLD(1e-3), lambda: Extrapolated(square, burn_in=3), "weight mean"),
        (regression, SGRRHMC(0.01), lambda: Extrapolated(first, burn_in=3), "weight mean"),
        (documents, SGLD(1e-4), lambda: Perplexity(*HELD_OUT, burn_in=2, thin=2), "perplexity"),
    ],
)
@pytest.mark.parametrize("chains", [(), (2,)])
def test_resumed_run_is_the_unbroken_one_bit_for_bit(
    make, sampler, recorded, values, chains, tmp_path
):
    path = tmp_path / "run.npz"
    settings = {"steps": 27, "seed": 5, "chains": chains, "segment": 10}

    whole, kept = make(), recorded()
    unbroken = list(run(whole, sampler, record=kept, **settings))

    for state in run(make(), sampler, record=recorded(), checkpoint=path, **settings):
        if state.step == 24:  # past the checkpoint at 20, whose last steps are made again
            break
    target, record = make(), recorded()
    rest = list(run(target, sampler, record=record, checkpoint=path, **settings))
    assert [state.step for state in rest] == list(range(21, 28))
    for mine, other in zip(rest, unbroken[20:], strict=True):
        same(mine[:2], other[:2])  # the rest of a state may be handed on to the next
    same(rest[-1], unbroken[-1])
    same(target.latents.values(), whole.latents.values())
    for name in values.split():
        np.testing.assert_array_equal(getattr(record, name), getattr(kept, name))


def test_finished_run_yields_nothing_and_fills_the_record(tmp_path):
    settings = {"steps": 6, "seed": 0, "segment": 3, "checkpoint": tmp_path / "run.npz"}
    trace = Trace(lambda theta, target: theta)
    states = list(run(regression(), SGLD(1e-3), record=trace, **settings))
    again = Trace(lambda theta, target: theta)
    assert not list(run(regression(), SGLD(1e-3), record=again, **settings))
    np.testing.assert_array_equal(again.values, [state.theta for state in states])


def test_fewer_steps_than_a_checkpoint_has_are_refused(tmp_path):
    path = tmp_path / "run.npz"
    list(run(regression(), SGLD(1e-3), steps=6, seed=0, segment=3, checkpoint=path))
    with pytest.raises(AlphaMFError, match=r"run\.npz has 6 steps, more than 5"):
        run(regression(), SGLD(1e-3), steps=5, seed=0, segment=3, checkpoint=path)


@pytest.mark.parametrize("chains", [(), (2, 3)])
def test_mean_of_an_indicator_is_a_probability(chains):
    for kind in (bool, int):
        share = Mean(lambda theta, target, kind=kind: (theta > 1).astype(kind), burn_in=0)
        states = run(regression(), SGLD(1e-3), steps=40, seed=2, chains=chains, record=share)
        above = np.reshape([state.theta > 1 for state in states], (-1, 3))
        np.testing.assert_allclose(share.mean, above.mean(0))
        np.testing.assert_allclose(share.std, above.std(0))


def test_a_chain_that_diverges_stops_at_once_and_says_when():
    target = regression()
    steps = []
    sentence = r"SGLD chain diverged at step \d+ \(theta is -?(inf|nan)"
    with np.errstate(all="ignore"), pytest.raises(AlphaMFError, match=sentence):
        steps.extend(state.step for state in run(target, SGLD(1e9), steps=1000, seed=0))
    # The state that is not finite is not yielded.
    assert 0 < len(steps) < 100


@pytest.mark.parametrize("chains", [(), (4,), (2, 3)])
@pytest.mark.parametrize("thin", [1, 3])
def test_mean_is_that_of_the_stacked_samples(chains, thin):
    mean = Mean(lambda theta, target: np.exp(theta), burn_in=7, thin=thin)
    states = run(regression(), SGLD(1e-3), steps=40, seed=2, chains=chains, record=mean)
    stacked = np.reshape([np.exp(state.theta) for state in states][6 + thin :: thin], (-1, 3))
    assert mean.count == len(stacked)
    np.testing.assert_allclose(mean.mean, stacked.mean(0), rtol=1e-12)
    np.testing.assert_allclose(mean.std, stacked.std(0), rtol=1e-10)


@pytest.mark.parametrize("chains", [(), (4,)])
@pytest.mark.parametrize("thin", [1, 3])
def test_weighted_mean_is_eq_12_of_hamcmc(chains, thin):
    """Samples weighted by the steps that HAMCMC made, which it holds over blocks of M."""
    steps = Polynomial(1e-4, 0.9)
    sampler = HAMCMC(steps, memory=3, gamma=1e-3, trust=1e3)
    held = Held(steps, 3)

    mean = Mean(lambda theta, target: np.exp(theta), burn_in=7, thin=thin, weight=held)
    asked = []

    def watched(step):
        asked.append(step)
        return steps(step)

    watching = HAMCMC(watched, memory=3, gamma=1e-3, trust=1e3)
    settings = {"steps": 40, "seed": 2, "chains": chains}
    values = [np.exp(state.theta) for state in run(regression(), watching, **settings)]
    for _ in run(regression(), sampler, record=mean, **settings):
        pass
    made = np.array([steps(step) for step in asked])
    np.testing.assert_array_equal([held(step) for step in range(40)], made)
    kept = slice(6 + thin, None, thin)
    each = np.reshape(values[kept], (len(values[kept]), -1, 3))
    weights = np.repeat(made[kept], each.shape[1])
    stacked = each.reshape(-1, 3)
    expected = np.average(stacked, axis=0, weights=weights)
    np.testing.assert_allclose(mean.mean, expected, rtol=1e-10)
    std = np.average((stacked - expected) ** 2, axis=0, weights=weights) ** 0.5
    np.testing.assert_allclose(mean.std, std, rtol=1e-10)
    assert np.abs(stacked.mean(0) - expected).max() > 1e-6  # weights matter


def test_mean_keeps_float32_and_survives_a_large_offset():
    mean = Mean(lambda theta, target: theta + np.float32(1e3), burn_in=0)
    states = run(regression(np.float32), SGLD(1e-3), steps=500, seed=2, record=mean)
    stacked = np.stack([state.theta.astype(float) for state in states]) + 1e3
    assert mean.mean.dtype == mean.std.dtype == np.float32
    np.testing.assert_allclose(mean.mean, stacked.mean(0), rtol=1e-6)
    np.testing.assert_allclose(mean.std, stacked.std(0), rtol=1e-3)


def test_records_copy_what_a_target_may_overwrite():
    target = regression(np.float32)
    buffer = np.zeros(3, np.float32)

    def reused(theta, target):
        np.copyto(buffer, theta)
        return buffer

    trace = Trace(reused, burn_in=2, thin=2)
    states = list(run(target, SGLD(1e-3), steps=7, seed=0, record=trace))
    np.testing.assert_array_equal(trace.values, [states[3].theta, states[5].theta])
    record, fresh = (Extrapolated(f, burn_in=0) for f in (reused, lambda theta, target: theta))
    for state in run(target, SGRRLD(1e-3), steps=3, seed=0):
        record.add(state, target)
        fresh.add(state, target)
    np.testing.assert_array_equal(record.mean, fresh.mean)
    assert record.mean.dtype == np.float32


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"sampler": SGLD(2e-3)}, "its sampler is SGLD"),
        ({"seed": 1}, "its seed is 0, not 1"),
        ({"chain": 1}, "its chain is 0, not 1"),
        ({"segment": 2}, "its segment is 3, not 2"),
        ({"record": None}, "its record is Mean"),
        ({"record": Mean(lambda theta, target: theta, burn_in=1)}, "its record is Mean"),
        ({"record": Mean(lambda theta, target: theta**2, burn_in=0)}, "its record is Mean"),
        ({"record": Mean(np.positive, burn_in=0)}, "its record is Mean"),
        (
            {"record": Mean(lambda theta, target: theta, burn_in=0, weight=Polynomial(0.1))},
            "its record is Mean",
        ),
        ({"chains": (2,)}, "another target: its state"),
        ({"target": regression(np.float32)}, "another target: its state"),
        ({"target": factors()}, "another target: its state"),
    ],
)
def test_checkpoint_of_another_run_is_refused(change, named, tmp_path):
    settings = {
        "target": regression(),
        "sampler": SGLD(1e-3),
        "seed": 0,
        "segment": 3,
        "record": Mean(lambda theta, target: theta, burn_in=0),
        "steps": 3,
        "checkpoint": tmp_path / "run.npz",
    }
    list(run(**settings))
    with pytest.raises(AlphaMFError, match=named):
        run(**{**settings, **change})


def test_identity_of_a_statistic_is_the_same_in_every_process():
    code = (
        "from alphamf.inference.records import Trace\n"
        "print(Trace(lambda theta, _: [theta if name in {'a', 'b'} else 1.5 for name in 'abc']))"
    )
    shown = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in "12"
    }  # fmt: skip
    assert len(shown) == 1 and shown.pop().startswith("Trace(<lambda> ")


@pytest.mark.parametrize("content", [b"", b"not an archive", None])
def test_unreadable_checkpoint_is_refused(content, tmp_path):
    path = tmp_path / "run.npz"
    if content is None:
        with path.open("wb") as file:
            np.savez(file, theta=np.ones(3))
    else:
        path.write_bytes(content)
    with pytest.raises(AlphaMFError, match=r"run\.npz cannot be read"):
        run(regression(), SGLD(1e-3), steps=3, seed=0, checkpoint=path)


def test_checkpoint_holds_no_pickled_objects_and_leaves_no_other_file(tmp_path):
    path = tmp_path / "run.npz"
    sampler = HAMCMC(1e-3, memory=3, gamma=1e-3, trust=1e3)
    list(run(factors(), sampler, steps=4, seed=0, checkpoint=path, segment=2))
    assert [file.name for file in tmp_path.iterdir()] == ["run.npz"]
    with np.load(path, allow_pickle=False) as file:
        assert {"identity", "state.theta", "latent.phi1"} <= set(map(str, dict(file)))


def test_failed_save_keeps_the_old_checkpoint(tmp_path, monkeypatch):
    settings = {"seed": 0, "segment": 2, "checkpoint": tmp_path / "run.npz"}
    unbroken = list(run(regression(), SGLD(1e-3), steps=6, seed=0, segment=2))
    states = run(regression(), SGLD(1e-3), steps=6, **settings)
    next(states), next(states)

    def fail(file, **arrays):
        file.write(b"half of it")
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(saved.np, "savez", fail)
        with pytest.raises(Stop):
            list(states)
    assert [file.name for file in tmp_path.iterdir()] == ["run.npz"]
    rest = list(run(regression(), SGLD(1e-3), steps=6, **settings))
    assert rest[0].step == 3
    same(rest[-1], unbroken[-1])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"steps": -1}, "steps must not be negative, not -1"),
        ({"seed": -1}, "seed must not be negative, not -1"),
        ({"chain": -1}, "chain must not be negative, not -1"),
        ({"segment": 0}, "segment must be at least 1, not 0"),
        (
            {"start": np.ones((2, 3)), "chains": (2,)},
            r"chains \(2,\) cannot be combined with start",
        ),
        ({"checkpoint": "no/such/folder/run.npz"}, "in a folder that does not exist"),
        ({"sampler": SGLD(lambda step: 0.1), "checkpoint": "run.npz"}, "repr is the same"),
    ],
)
def test_arguments_are_refused_before_the_first_step(change, named):
    with pytest.raises(AlphaMFError, match=named):
        run(**{"target": regression(), "sampler": SGLD(1e-3), "steps": 3, "seed": 0, **change})


@pytest.mark.parametrize("kind", [Mean, Trace, Extrapolated])
def test_records_refuse_what_cannot_be_kept(kind):
    def theta(theta, target):
        return theta

    with pytest.raises(AlphaMFError, match="burn_in must not be negative, not -1"):
        kind(theta, burn_in=-1)
    if kind is not Extrapolated:
        with pytest.raises(AlphaMFError, match="thin must be at least 1, not 0"):
            kind(theta, burn_in=0, thin=0)
    record = kind(theta, burn_in=10)
    list(run(regression(), SGRRLD(1e-3), steps=3, seed=0, record=record))
    with pytest.raises(AlphaMFError, match="no state was kept yet: burn_in is 10"):
        getattr(record, "values" if kind is Trace else "mean")


def test_clips_are_not_averaged_over():
    """Of chains and clips, only the chains."""
    record = Mean(lambda theta, target: theta, burn_in=0, apart=1)
    values = np.random.default_rng(0).standard_normal((4, 2, 3, 5))
    for k, theta in enumerate(values):
        record.add(SGLDState(theta, k + 1), None)
    assert record.count == 8
    np.testing.assert_allclose(record.mean, values.mean((0, 1)))
    np.testing.assert_allclose(record.std, values.std((0, 1)))


@dataclass(frozen=True)
class Draw:
    """A sampler whose position is the next number of its stream."""

    needs = ()

    def init(self, rng, theta):
        return SGLDState(theta, 0)

    def step(self, rng, state, target):
        return SGLDState(rng.random(1), state.step + 1)


def test_start_and_each_segment_draw_from_a_stream_of_their_own():
    states = run(regression(), Draw(), steps=5, seed=3, chain=7, segment=2)
    streams = [generator(3, 7, number).random(2) for number in (1, 2, 3)]
    drawn = [float(state.theta[0]) for state in states]
    np.testing.assert_array_equal(drawn, np.concatenate(streams)[:5])
    (state,) = run(regression(), SGLD(1e-30), steps=1, seed=3, chain=7)
    np.testing.assert_allclose(state.theta, regression().start(generator(3, 7, 0)), atol=1e-9)
