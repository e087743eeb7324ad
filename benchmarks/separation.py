"""Separation and factorization beside other libraries: ``python -m benchmarks.separation times``.

``music`` mixes voices, or other music, with music of the splits train and dev of noise-48k at equal
power, up to 5 s. The spectra of music are learned from the first half of each recording; the second
half is in the mixture. Itakura-Saito NMF has the same spectra, norbert's Wiener filter starts from
its estimates, and the percussion of HPSS counts as the voice.
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

RATE, SECONDS, RANK, STEPS = 16000, 5, 10, 20


def times() -> list[list[str]]:
    """Time a step of each method on a matrix of 513 by 2000 in float32, on one core."""
    from sklearn.decomposition import NMF

    rng = np.random.default_rng(0)
    V = (rng.random((513, RANK)) @ rng.random((RANK, 2000))) * rng.exponential(size=(513, 2000))
    given = {"init": "random", "solver": "mu", "beta_loss": "itakura-saito", "tol": 0}
    ways = {"scikit-learn, IS-NMF": lambda steps: NMF(RANK, max_iter=steps, **given)}
    for sampler, alpha in (("em", 2.0), ("em", 1.2), ("sgrld", 1.2), ("sgld", 1.2)):
        kind = f"AlphaMF, {sampler}, alpha {alpha}"
        ways[kind] = partial(AlphaMF, RANK, alpha=alpha, sampler=sampler, draws=1)
    rows, base = [["method", "ms per step", "ratio"]], 0.0
    for name, make in ways.items():
        marks = [time.process_time()]
        for steps in (STEPS, 3 * STEPS):  # the difference is free of starts and ends
            make(steps=steps).fit(V.astype(np.float32))
            marks.append(time.process_time())
        ms = (marks[2] - 2 * marks[1] + marks[0]) / (2 * STEPS) * 1e3
        base = base or ms
        rows.append([name, f"{ms:.1f}", f"{ms / base:.2f}"])
    return rows


def music(*, clips: int = 10, beside: str = "voice") -> list[list[str]]:
    """Separate music from a voice, or, with ``--beside music``, from other music."""
    grid = grid_of(load("speech-16k"))
    rows = manifest("noise-48k", "train") + manifest("noise-48k", "dev")
    sounds = [mono(path, RATE) for path, kind, _ in rows if kind == "music"]
    sounds = [sound for sound in sounds if len(sound) > 8 * RATE]
    voices = [mono(path, RATE) for path, *_ in shuffled("speech-16k", "dev")[:clips]]
    scores: dict[str, list[list[float]]] = {}
    for k, own in enumerate(sounds[:clips]):
        clip, unit = np.split(own, [len(own) // 2])
        if beside == "voice":
            known, other = load("speech-16k"), voices[k]
        else:
            first, other = np.split(sounds[k - 1], [len(sounds[k - 1]) // 2])
            known = learn(first[:, None], RATE, grid, 3)
        other = other[: min(len(unit), len(other), SECONDS * RATE)]
        mix = with_noise(other, unit[: len(other)], 0).astype(np.float32)
        both = {"music": learn(clip[:, None], RATE, grid, 3), "other": known}
        for method, (music, rest) in separated(mix, both).items():
            found = scores.setdefault(method, [])
            found.append([si_sdr(mix - other, music), si_sdr(other, rest)])
    lines = [["method", "music, SI-SDR dB", f"{beside} beside it, SI-SDR dB"]]
    for method, each in scores.items():
        columns = (mean_and_error(list(column)) for column in zip(*each, strict=True))
        lines.append([method, *(format_mean(*pair, 1) for pair in columns)])
    return lines


def separated(mix: Floats, known: dict[str, Dictionary]) -> dict[str, list[Floats]]:
    """Return the estimates of both sources by each method."""
    import librosa
    import norbert
    from sklearn.decomposition import non_negative_factorization as factorize

    frame = known["music"].frame
    spectrum = stft.forward(mix, frame)
    # Dictionaries have an alpha of one: their squares are powers.
    bases = [each.basis[: frame.bins].T.astype(float) ** 2 + 1e-12 for each in known.values()]
    given = {"solver": "mu", "beta_loss": "itakura-saito", "update_H": False, "max_iter": 200}
    power, both = np.abs(spectrum.T.astype(complex)) ** 2 + 1e-9, np.concatenate(bases)
    gains, *_ = factorize(power, H=both, n_components=len(both), **given)
    parts = zip(np.split(gains, [len(bases[0])], axis=1), bases, strict=True)
    scales = np.stack([gain @ basis for gain, basis in parts], axis=-1)
    filtered = norbert.wiener(scales[:, :, None], spectrum.T[..., None].astype(complex), 1)[:, :, 0]
    spectra = {
        "the mixture": [spectrum, spectrum],
        "HPSS (librosa)": librosa.decompose.hpss(spectrum),
        "Itakura-Saito NMF (scikit-learn)": (scales / scales.sum(-1, keepdims=True)).T * spectrum,
        "the same, then norbert": filtered.T,
    }
    found = {
        method: [stft.inverse(each.astype(np.complex64), frame, len(mix)) for each in pair]
        for method, pair in spectra.items()
    }
    found["alphamf separate"] = list(separate(mix, RATE, known).sounds.values())
    return found | {"alphamf denoise": [mix - (audio := changed(Clip("", RATE, mix, mix))), audio]}


if __name__ == "__main__":
    run_main({"times": times, "music": music})
