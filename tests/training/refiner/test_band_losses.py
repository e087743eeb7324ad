"""Training of the network of the bands above: its clips, its losses, and a run."""

from dataclasses import replace

import numpy as np
import pytest
import soundfile

from alphamf import Stream
from alphamf.audio.stft import Frame, frame_of
from alphamf.denoising.grids import Grid
from alphamf.denoising.weights import find, find_online
from alphamf.errors import AlphaMFError
from alphamf.learnt import high_band, network
from alphamf.learnt.bands import ABOVE, BELOW, COUNT, edges
from alphamf.learnt.causal import CausalHighBand, CausalNetworks
from alphamf.learnt.high_band import IN_PAUSES, HighBand
from alphamf.learnt.refiner import Refiner
from alphamf.learnt.second_stage import SecondStage
from alphamf.native.engine import Engine
from alphamf.training.refiner import run as runs
from alphamf.training.refiner.config_file import parse_config
from alphamf.training.refiner.mixtures import mixture
from alphamf.training.refiner.recordings import open_recordings
from alphamf.training.refiner.shaping import rms
from tests.support import tones

torch = pytest.importorskip("torch", reason="training needs PyTorch: pip install 'alphamf[learn]'")

from alphamf.training.refiner import band_losses  # noqa: E402
from alphamf.training.refiner.clips import BandClip  # noqa: E402

RATE = 48000
SIZES = {"width": 16, "hidden": 32, "blocks": 1, "maps": 3, "local": 8, "deep": 0}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """Write voices and noises at 48 kHz that go up to 24 kHz."""
    folder = tmp_path_factory.mktemp("corpora")
    rng = np.random.default_rng(0)
    for name in ("speech", "noise"):
        (folder / name).mkdir()
        for k in range(5):
            heard = np.sin(np.pi * 4 * np.arange(RATE) / RATE) ** 2 if name == "speech" else 1
            sound = 0.1 * rng.standard_normal(RATE) * heard
            soundfile.write(folder / name / f"{k}.wav", sound, RATE)
    return folder


def config(corpora, after=(), kind="high-band"):
    """Return a small run on the shipped weights below, but for those that are named."""
    table = tones.table(corpora)
    table["network"] |= SIZES | {"model": "speech-16k"}
    table["network"]["kind"] = {"name": kind, "after": after}
    if kind == "causal-high-band":
        table["mixtures"]["chains"] = {}
    table["data"] = {"voices": [str(corpora / "speech")], "sounds": [str(corpora / "noise")]}
    table["mixtures"] |= {"clips": 4, "dev_clips": 2, "rooms": 0, "codec": 0, "telephone": 0}
    table["losses"] = {"distortion": 1.0, "distance": 0.2}
    table["schedule"] |= {"steps": 4, "batch": 2, "report_every": 2, "score_every": 4}
    return parse_config(table)


def energies(rng, bins=7, frames=20):
    """Return spectra of one band's bins in a mixture and in its speech."""
    return tuple(
        rng.standard_normal((ABOVE, bins, frames)) + 1j * rng.standard_normal((ABOVE, bins, frames))
        for _ in range(2)
    )


def test_losses_of_energies_are_those_of_the_sounds():
    rng = np.random.default_rng(0)
    noisy, clean = energies(rng)
    gain = rng.uniform(0.1, 1, (ABOVE, 20))
    squares = np.abs(noisy) ** 2, (noisy.conj() * clean).real, np.abs(clean) ** 2
    each = [torch.tensor(square.mean(axis=1)[None]) for square in squares]
    floor = torch.full((1, ABOVE), 1e-3, dtype=torch.float64)
    clip = BandClip(torch.zeros(1), *each, floor)
    made = band_losses.NetworkBandGains(torch.tensor(gain[None]), clip)
    found = band_losses.losses(made, ("distortion", "distance"))
    error = (np.abs(gain[:, None] * noisy - clean) ** 2).mean(axis=1).sum(axis=1)
    speech = squares[2].mean(axis=1).sum(axis=1)
    faint = band_losses.FAINT * squares[0].mean(axis=1).sum(axis=1)
    wanted = np.log(error / (speech + faint) + 1e-3).mean()
    assert float(found["distortion"]) == pytest.approx(wanted, rel=1e-5)
    levels = [
        10 * np.log10((np.abs(sound) ** 2).mean(axis=1) + 1e-3)
        for sound in (gain[:, None] * noisy, clean)
    ]
    apart = levels[0] - levels[1]
    apart[apart < 0] *= band_losses.LOST
    wanted = np.sqrt((apart**2).mean(axis=0) + 1e-2).mean()
    assert float(found["distance"]) == pytest.approx(wanted, rel=1e-5)


def test_bands_without_sound_count_for_nothing():
    rng = np.random.default_rng(1)
    noisy, clean = energies(rng)
    each = [np.abs(noisy) ** 2, (noisy.conj() * clean).real, np.abs(clean) ** 2]
    terms = []
    for heard in (6, ABOVE):
        arrays = [torch.tensor(square.mean(axis=1)[None]) for square in each]
        for array in arrays:
            array[:, 6:heard] = 0
            array[:, heard:] = 0
        made = band_losses.NetworkBandGains(
            torch.full((1, ABOVE, 20), 0.5, dtype=torch.float64),
            BandClip(None, *arrays, torch.full((1, ABOVE), 1e-3, dtype=torch.float64)),
        )
        terms.append(band_losses.losses(made, ("distortion", "distance")))
    assert terms[0] == terms[1] and all(torch.isfinite(each) for each in terms[0].values())


def test_the_network_in_training_is_the_one_that_denoises():
    rng = np.random.default_rng(2)
    start = network.start(rng, COUNT, network.Sizes(**SIZES))
    values = {
        name: value + 0.1 * rng.standard_normal(value.shape).astype(np.float32)
        for name, value in start.items()
    }
    inputs = [rng.gamma(1, size=(COUNT, 50)).astype(np.float32) for _ in range(5)]
    inputs[1], inputs[2] = inputs[1] / inputs[1].max(), inputs[2] / inputs[2].max() / 2
    frame = find(16000).second_stage.frame
    wanted = HighBand(values, 16000, frame, exponent=IN_PAUSES).gains(inputs)
    read = torch.from_numpy(np.array(high_band.features(inputs, np)))[None]
    tensors = {name: torch.from_numpy(value) for name, value in values.items()}
    clip = BandClip(read, None, None, None, None)
    made = band_losses.run_band_network(tensors, clip, IN_PAUSES, causal=False)
    np.testing.assert_allclose(made.gain[0].numpy(), wanted[-ABOVE:], atol=2e-2)


def test_mixtures_are_read_after_the_networks_that_are_named(corpora, tmp_path):
    known = find(16000).refiner
    other = Refiner(known.parameters, known.rate, known.frame, exponent=2.0)
    other.save(tmp_path / "other.npz")
    features = []
    second = find(16000).second_stage
    silent = {name: 0 * value for name, value in second.parameters.items()}
    SecondStage(silent, second.rate, second.frame).save(tmp_path / "silent.npz")
    shipped = ("refiner-16k", "second-stage-16k")
    others = str(tmp_path / "other.npz"), str(tmp_path / "silent.npz")
    for k, after in enumerate(((), shipped, (others[0], shipped[1]), (shipped[0], others[1]))):
        run = runs.Run(config(corpora, after), tmp_path / f"run-{k}", tmp_path / f"{k}", 1, print)
        features.append(runs.prepare_clips(run, 0)[1][0].features)
    np.testing.assert_array_equal(features[0], features[1])
    for each in features[2:]:
        assert np.abs(features[0] - each).max() > 0.01


@pytest.mark.parametrize(
    ("after", "sentence"),
    [
        (("refiner-8k", "second-stage-16k"), "refiner-8k has another rate or window"),
        (("refiner-16k", "nowhere.npz"), "the second-stage nowhere.npz does not exist"),
        (("causal-8k",), "causal-8k has another rate or window"),
    ],
)
def test_networks_that_do_not_fit_are_refused_before_mixtures_are_made(
    corpora, tmp_path, after, sentence
):
    kind = "high-band" if len(after) == 2 else "causal-high-band"
    run = runs.Run(config(corpora, after, kind), tmp_path / "run", tmp_path / "made", 1, print)
    with pytest.raises(AlphaMFError, match=sentence):
        runs.train(run)
    assert not (tmp_path / "made").exists()


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
def test_a_run_makes_a_network_that_changes_the_sound(corpora, tmp_path, causal):
    asked = config(corpora, kind="causal-high-band" if causal else "high-band")
    run = runs.Run(asked, tmp_path / "run", tmp_path / "mixtures", 1, print)
    rows = runs.train(run)
    assert [row["step"] for row in rows] == [2, 4] and np.isfinite(rows[-1]["dev distance"])
    assert "dev pesq" not in rows[-1]  # there is no sound to score
    learnt = (CausalHighBand if causal else HighBand).load(tmp_path / "run" / "network.npz")
    weights, field = find_online(RATE), "causal_high_band"
    if not causal:
        weights, field = find(RATE), "high_band"
    sound = np.random.default_rng(0).standard_normal((RATE // 2, 1)).astype(np.float32)
    outs = []
    for network_ in (learnt, None):
        made = replace(weights, **{field: network_})
        stream = Stream(RATE, 1, model=made, **({"latency": "low"} if causal else {}))
        outs.append(np.concatenate([stream.process(sound), stream.flush()]))
    assert np.abs(outs[0] - outs[1]).max() > 0


def test_clips_of_low_latency_hold_what_the_engine_reads(corpora, tmp_path):
    """The network in training gives the gains that the engine gives for the same mixture."""
    asked = config(corpora, kind="causal-high-band")
    run = runs.Run(asked, tmp_path / "run", tmp_path / "mixtures", 1, print)
    clip = runs.prepare_clips(run, 0)[1][0]
    hops = int(RATE * asked.mixtures.seconds) // 384
    assert clip.features.shape == (hops, COUNT, network.FEATURES)
    assert clip.noisy.shape == (ABOVE, hops) and np.isfinite(clip.features).all()
    rng = np.random.default_rng(2)
    values = network.start(rng, COUNT, network.Sizes(**SIZES))
    values["map.bias"] += rng.standard_normal(values["map.bias"].shape).astype(np.float32)
    tensors = {name: torch.from_numpy(value) for name, value in values.items()}
    read = torch.from_numpy(clip.features)[None]
    empty = BandClip(read, None, None, None, None)
    gains = band_losses.run_band_network(tensors, empty, IN_PAUSES, causal=True).gain[0].numpy()

    weights = find_online(RATE)
    frame = frame_of(weights.dictionary.frame)
    model = CausalHighBand(values, 16000, frame, exponent=IN_PAUSES)
    recordings = open_recordings(tmp_path / "mixtures" / "recordings", "dev")
    rng = np.random.default_rng([asked.mixtures.seed, 1, 0])
    _, noisy = mixture(rng, int(RATE * asked.mixtures.seconds), RATE, recordings, asked.mixtures)
    options = {"linked": False, "least": 0.0, "seed": 1}
    networks = CausalNetworks(weights.causal, high_band=model)
    engine = Engine(RATE, 1, weights.dictionary, networks, **options)
    noisy = (noisy / rms(noisy.astype(float))).astype(np.float32)
    found = engine.process(noisy[: hops * engine.hop, None]).gain[0]
    grid = Grid(RATE, Frame(8 * engine.hop, engine.hop))
    centres = (edges()[BELOW:-1] + edges()[BELOW + 1 :]) / 2
    places = np.searchsorted(grid.frequencies, centres)
    np.testing.assert_allclose(found[places[1:]], gains[1:], atol=0.03)


@pytest.mark.parametrize("kind", ["high-band", "causal-high-band"])
def test_nothing_is_learned_above_the_end_of_a_voices_band(tmp_path, kind):
    """The voice ends at 12 kHz, and the noise does not."""
    rng = np.random.default_rng(0)
    for name, end in (("speech", 12000), ("noise", 24000)):
        (tmp_path / name).mkdir()
        spectrum = np.fft.rfft(0.1 * rng.standard_normal(3 * RATE))
        spectrum[np.fft.rfftfreq(3 * RATE, 1 / RATE) > end] = 0
        for k in range(5):
            sound = np.roll(np.fft.irfft(spectrum), k * RATE // 3)
            soundfile.write(tmp_path / name / f"{k}.wav", sound, RATE, subtype="FLOAT")
    heard = {}
    for until_edge in (False, True):
        asked = config(tmp_path, kind=kind)
        recipe = replace(asked.mixtures, until_edge=until_edge, band=0.0, codec=0.0, clipped=0.0)
        asked = replace(asked, mixtures=recipe)
        run = runs.Run(asked, tmp_path / "run", tmp_path / f"{until_edge}", 1, print)
        clip = runs.prepare_clips(run, 0)[1][0]
        heard[until_edge] = clip.noisy.sum(axis=-1) > 0
    above = edges()[BELOW:-1] > 15000  # a voice may be played a quarter faster
    assert heard[False].all()
    assert not heard[True][above].any() and heard[True][:4].all()
