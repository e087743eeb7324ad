r"""Noisy clips of the corpora: mixed here at 16 kHz, NOIZEUS's own at 8 kHz; and lists of them.

For example, for ``alphamf evaluate`` and ``alphamf mix``::

    python -m benchmarks.clips noizeus --split test --snr 5 -o pairs.csv
    python -m benchmarks.clips kinds --split dev -o kinds
"""

import csv
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from alphamf.audio.reader import read
from alphamf.audio.resample import resample
from alphamf.errors import AlphaMFError
from alphamf.evaluation.mixing import mixture
from alphamf.tools.arrays import Floats, Reals
from benchmarks.report import run_main

SNRS = (-5, 0, 5, 10, 15)
KINDS = ("stationary", "babble", "nonstationary", "impulsive")
TALKERS = 6  # Voices of a babble


class Clip(NamedTuple):
    """A noisy clip: its name, rate in Hz, and the clean and the noisy sound, shape (samples,)."""

    name: str
    rate: int
    clean: Floats
    noisy: Floats


def rows_of(corpus: str) -> tuple[Path, list[dict[str, str]]]:
    """Return the folder of a corpus below ``$ALPHAMF_DATA``, and the lines of its MANIFEST.csv."""
    folder = corpora() / corpus
    try:
        with (folder / "MANIFEST.csv").open(newline="", encoding="utf-8") as file:
            return folder, list(csv.DictReader(file))
    except OSError:
        raise AlphaMFError(f"there is no {corpus} in {folder}: set ALPHAMF_DATA") from None


def corpora() -> Path:
    """Return the folder of the corpora, below ``$ALPHAMF_DATA``."""
    return Path(os.environ.get("ALPHAMF_DATA", ""), "corpora")


def manifest(corpus: str, split: str = "dev") -> list[tuple[Path, str, str]]:
    """Return path, kind, and speaker or label of the files of a split; empty where unknown."""
    folder, rows = rows_of(corpus)
    return [
        (folder / row["path"], row.get("kind", ""), row.get("speaker") or row.get("label", ""))
        for row in rows
        if row["split"] == split
    ]


def mono(path: Path, rate: int) -> Floats:
    """Return the first channel of a file at a rate in Hz."""
    sound, native = read(str(path))
    return sound[:, 0] if native == rate else resample(sound[:, 0], native, rate)


def clips(rate: int, count: int, split: str = "dev") -> list[Clip]:
    """Return clips on which nothing was trained.

    16000 Hz: utterances of ``speech-16k`` in noises of ``noise-48k`` and in babble, of one split.
    8000 Hz: train sentences of NOIZEUS at 0, 5 and 10 dB.
    """
    if rate == 8000:
        rows = pairs("train", ["0", "5", "10"])
        return noizeus([rows[k] for k in np.random.default_rng(0).permutation(len(rows))[:count]])
    voices, noises = shuffled("speech-16k", split), manifest("noise-48k", split)
    turns = (voices[k % len(voices) :] + voices[: k % len(voices)] for k in range(count))
    return [_mixed(k, turn, noises, rate) for k, turn in enumerate(turns)]


def shuffled(corpus: str, split: str) -> list[tuple[Path, str, str]]:
    """Return the result of `manifest` in a random order that is always the same."""
    rows = manifest(corpus, split)
    return [rows[k] for k in np.random.default_rng(1).permutation(len(rows))]


def _mixed(
    number: int, voices: list[tuple[Path, str, str]], noises: list[tuple[Path, str, str]], rate: int
) -> Clip:
    """Mix the first of some voices with a noise, whose kind and SNR depend on the number."""
    rng = np.random.default_rng((2, number))
    kind, snr = KINDS[number % len(KINDS)], SNRS[number // len(KINDS) % len(SNRS)]
    path, _, speaker = voices[0]
    clean = mono(path, rate)
    if kind == "babble":
        others = [mono(path, rate) for path, _, name in voices[1:] if name != speaker][:TALKERS]
        noise = sum(np.resize(each / each.std(), len(clean)) for each in others)
        name = kind
    else:
        known = [path for path, each, _ in noises if each == kind]
        chosen = known[rng.integers(len(known))]
        noise, name = mono(chosen, rate), chosen.stem
    return Clip(f"{path.stem}_{name}_{snr}dB", rate, clean, mixed(clean, noise, rate, snr, rng))


def mixed(
    clean: Floats,
    noise: Floats,
    rate: int,
    snr: float,
    rng: np.random.Generator,
    level: str = "plain",
) -> Floats:
    """Return a voice with a piece of a noise, at an SNR in dB; both have shape (samples,)."""
    power = mixture.power(clean, rate, level)
    return mixture.mix(clean, power, mixture.noise(noise, rate), snr, rng)[0]


def with_noise(sound: Reals, noise: Reals, snr: float) -> Reals:
    """Return a sound plus a noise of the same length, at an SNR in dB."""
    power = np.mean(sound**2) / max(float(np.mean(noise**2)), 1e-20)
    return sound + noise * (np.sqrt(power) * 10 ** (-snr / 20))


def coloured(rng: np.random.Generator, samples: int, rate: int, low: float, power: float) -> Floats:
    """Return Gaussian noise with magnitudes proportional to max(frequency, low) ** power."""
    gain = np.maximum(np.fft.rfftfreq(samples, 1 / rate), low) ** power
    return np.fft.irfft(np.fft.rfft(rng.standard_normal(samples)) * gain, samples)


def pairs(split: str | None, snrs: list[str]) -> list[dict[str, str]]:
    """Return the pairs of NOIZEUS, of a split (None: all) and some SNRs in dB (empty: all)."""
    rows = rows_of("noizeus")[1]
    clean = {row["speaker"]: row["path"] for row in rows if row["snr_db"] == "clean"}
    found = [
        {
            "clean": clean[row["speaker"]],
            "noisy": row["path"],
            "noise": row["noise"],
            "snr": row["snr_db"],
        }
        for row in rows
        if row["snr_db"] != "clean"
        and split in (None, row["split"])
        and (not snrs or row["snr_db"] in snrs)
    ]
    if not found:
        raise AlphaMFError("NOIZEUS has no such files")
    return found


def noizeus(rows: list[dict[str, str]]) -> list[Clip]:
    """Return the clips, at 8 kHz, of rows of `pairs`."""
    folder = corpora() / "noizeus"
    found = []
    for row in rows:
        clean, noisy = (folder / row[name] for name in ("clean", "noisy"))
        name = f"{noisy.parent.name}/{noisy.stem}"
        found.append(Clip(name, 8000, mono(clean, 8000), mono(noisy, 8000)))
    return found


def write_pairs(*, split: str = "", snr: str = "", output: Path) -> None:
    """Write the table of pairs of NOIZEUS; paths are relative to the corpus's folder."""
    rows = pairs(split or None, snr.split(",") if snr else [])
    with output.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def link_kinds(*, split: str = "", output: Path) -> None:
    """Make folders of links to the noises of ``noise-dev``, by kind."""
    folder, noises = rows_of("noise-dev")
    for row in noises:
        if split in ("", row["split"]):
            link = output / row["kind"] / row["path"].replace("/", "-")
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(folder.resolve() / row["path"])


if __name__ == "__main__":
    run_main({"noizeus": write_pairs, "kinds": link_kinds})
