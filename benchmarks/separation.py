"""Separation and factorization beside other libraries: ``python -m benchmarks.separation times``.

``music`` mixes voices, or other music, with music of the splits train and dev of noise-48k at equal
power, up to 5 s. The spectra of music are learned from the first half of each recording; the second
half is in the mixture. Itakura-Saito NMF has the same spectra, norbert's
Wiener filter starts from its estimates, and the percussion of HPSS counts as the voice.
"""

import time
from functools import partial

import numpy as np

from alphamf import AlphaMF, load, separate
from alphamf.audio import stft
from alphamf.denoising.grids import grid_of
from alphamf.learnt.dictionary import Dictionary
from alphamf.scores.score import si_sdr
from alphamf.separation.separate import learn
from alphamf.tools.arrays import Floats
from alphamf.tools.tables import format_mean, mean_and_error
from benchmarks.clips import Clip, manifest, mono, shuffled, with_noise
from benchmarks.methods import changed
from benchmarks.report import run_main

RATE, SECONDS, SHAPE, RANK, STEPS = 16000, 5, (513, 2000), 10, 20


def times() -> list[list[str]]:
    """Time a step of each method on a matrix of 513 by 2000 and ten components, on one core."""
    from sklearn.decomposition import NMF

    rng = np.random.default_rng(0)
    V = (rng.random((SHAPE[0], RANK)) @ rng.random((RANK, SHAPE[1]))) * rng.exponential(size=SHAPE)
    given = {"init": "random", "solver": "mu", "beta_loss": "itakura-saito", "tol": 0}
    ways = {"scikit-learn, IS-NMF": lambda steps: NMF(RANK, max_iter=steps, **given)}
    for sampler, alpha in (("em", 2.0), ("em", 1.2), ("sgrld", 2.0), ("sgrld", 1.2), ("sgld", 1.2)):
        kind = partial(AlphaMF, RANK, alpha=alpha, sampler=sampler, draws=1)
        ways[f"AlphaMF, {sampler}, alpha {alpha}"] = lambda steps, kind=kind: kind(steps=steps)
    rows = [["method", "float32: ms per step", "ratio", "float64: ms per step", "ratio"]]
    first: list[float] = []
    for name, make in ways.items():
        found = []
        for dtype in (np.float32, np.float64):
            marks = [time.process_time()]
            for steps in (STEPS, 3 * STEPS):  # the difference is free of starts and ends
                make(steps).fit(V.astype(dtype))
                marks.append(time.process_time())
            found.append((marks[2] - 2 * marks[1] + marks[0]) / (2 * STEPS) * 1e3)
        first = first or found
        cells = zip(found, first, strict=True)
        rows.append(
            [name, *(text for ms, base in cells for text in (f"{ms:.1f}", f"{ms / base:.2f}"))]
        )
    return rows


def music(*, clips: int = 10, beside: str = "voice") -> list[list[str]]:
    """Separate music from a voice, or, with ``--beside music``, from other music."""
    grid = grid_of(load("speech-16k"))
    found = [
        path
        for split in ("train", "dev")
        for path, kind, _ in manifest("noise-48k", split)
        if kind == "music"
    ]
    sounds = [sound for sound in (mono(path, RATE) for path in found) if len(sound) > 8 * RATE]
    voices = [mono(path, RATE) for path, *_ in shuffled("speech-16k", "dev")[:clips]]
    scores: dict[str, list[list[float]]] = {}
    for k, own in enumerate(sounds[:clips]):
        theirs = voices[k] if beside == "voice" else sounds[k - 1]
        known, parts = {}, {}
        for name, sound in (("music", own), ("other", theirs)):
            half = 0 if name == "other" and beside == "voice" else len(sound) // 2
            clip = sound[:half, None]
            known[name] = learn(clip, RATE, grid, 3) if half else load("speech-16k")
            parts[name] = sound[half:]
        samples = min(*map(len, parts.values()), SECONDS * RATE)
        other = parts["other"][:samples]
        mix = with_noise(other, parts["music"][:samples], 0).astype(np.float32)
        truth = {"music": mix - other, "other": other}
        for method, made in separated(mix, known).items():
            scores.setdefault(method, []).append(
                [si_sdr(truth[name], made[name]) for name in truth]
            )
    rows = [
        [
            "method",
            "music, SI-SDR dB",
            f"{'' if beside == 'voice' else 'other '}{beside}, SI-SDR dB",
        ]
    ]
    for method, each in scores.items():
        columns = (mean_and_error(list(column)) for column in zip(*each, strict=True))
        rows.append([method, *(format_mean(*pair, 1) for pair in columns)])
    return rows


def separated(mix: Floats, known: dict[str, Dictionary]) -> dict[str, dict[str, Floats]]:
    """Return the estimates of each method, by source."""
    import librosa
    import norbert
    from sklearn.decomposition import non_negative_factorization as factorize

    frame = known["music"].frame
    spectrum = stft.forward(mix, frame)
    # Dictionaries have an alpha of one: their squares are powers.
    bases = [each.basis[: frame.bins] ** 2 + 1e-12 for each in known.values()]
    ranks = [basis.shape[1] for basis in bases]
    given = {"solver": "mu", "beta_loss": "itakura-saito", "update_H": False, "max_iter": 200}
    power = np.abs(spectrum.T) ** 2 + 1e-9
    gains, *_ = factorize(
        power,
        H=np.concatenate(bases, axis=1).T.astype(power.dtype),
        n_components=sum(ranks),
        **given,
    )
    scales = np.stack(
        [
            basis @ part.T
            for basis, part in zip(bases, np.split(gains, ranks[:1], axis=1), strict=True)
        ]
    )
    wiener = norbert.wiener(
        scales.transpose(2, 1, 0)[:, :, None], spectrum.T[..., None].astype(complex), 1
    )
    spectra = {
        "the mixture": np.stack([spectrum, spectrum]),
        "HPSS (librosa)": np.stack(librosa.decompose.hpss(spectrum)),
        "Itakura-Saito NMF (scikit-learn)": scales / scales.sum(0) * spectrum,
        "the same, then norbert": wiener[:, :, 0].transpose(2, 1, 0),
    }
    found = {
        method: {
            name: stft.inverse(each.astype(np.complex64), frame, len(mix))
            for name, each in zip(known, pair, strict=True)
        }
        for method, pair in spectra.items()
    }
    for method, more in (("alphamf", {}), ("alphamf, and 4 free columns", {"rest": 4})):
        found[method] = separate(mix, RATE, {**known, **more}).sounds
    audio = changed(Clip("", RATE, mix, mix))
    return found | {"alphamf denoise (voice only)": {"music": mix - audio, "other": audio}}


if __name__ == "__main__":
    run_main({"times": times, "music": music})
