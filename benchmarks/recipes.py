"""Make the sounds of the recipes in docs/listen/, and print what the pages say of them.

python -m benchmarks.recipes podcast

The sample is data/sample-noisy.wav. The second voice and the noises are of the development split of
the corpora below $ALPHAMF_DATA/corpora, on which no network of the package was trained.
"""

import subprocess
import sys
import tempfile
from typing import Any

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from alphamf.scores.score import si_sdr
from benchmarks.clips import Clip, corpora, mono, with_noise
from benchmarks.figures import small, spectrograms
from benchmarks.methods import run
from benchmarks.report import ROOT, SAMPLE, run_main
from benchmarks.rooms import SEEDS, image_room, in_room
from benchmarks.scored import SCORES, scores

CLEAN = ROOT / "data/sample-clean.wav"
LISTEN = ROOT / "docs/listen"
RATE = 16000

GUEST = "speech-16k/audio/en_libri-7176_faccbc.opus"
TRUCK = "noise-48k/audio/stat_garbage_truck_45322.opus"
FIELD = {
    "a speaking voice": GUEST,
    "birds": "noise-48k/audio/impu_environment_birdsloo_57ded.opus",
    "percussion": "noise-48k/audio/musi_music_perc_9647a.opus",
    "rain on a tent": "noise-48k/audio/impu_rain_on_tent_718d2.opus",
    "a running tap": "noise-48k/audio/nons_water_tap_long_a672e.opus",
}

Sound = NDArray[np.float64]


def corpus(path: str, rate: int = RATE) -> Sound:
    """Return a file of the corpora as a mono sound at a rate in Hz."""
    return mono(corpora() / path, rate).astype(float)


def denoised(audio: Sound, rate: int, *options: str) -> Sound:
    """Return the output of ``alphamf denoise`` for a sound."""
    with tempfile.TemporaryDirectory() as place:
        path, output = f"{place}/in.wav", f"{place}/out.wav"
        soundfile.write(path, audio, rate)
        words = ["denoise", path, "-o", output, "--quiet", *options]
        subprocess.run([sys.executable, "-m", "alphamf", *words], check=True)
        found: Sound = soundfile.read(output)[0]
    return found


def keep(name: str, audio: Sound, rate: int, seconds: float = 6.0) -> None:
    """Write the beginning of a sound as MP3 to docs/listen."""
    soundfile.write(LISTEN / f"{name}.mp3", audio[: round(seconds * rate)], rate, format="MP3")


def level(audio: Sound) -> float:
    """Return the power of a sound in dB."""
    return float(10 * np.log10(np.mean(np.square(audio)) + 1e-20))


def podcast() -> None:
    """Denoise the sample, and normalize it to the loudness of podcasts."""
    import pyloudnorm

    noisy, rate = soundfile.read(SAMPLE)
    audio = denoised(noisy, rate, "--normalize", "-16LUFS")
    keep("podcast-after", audio, rate, 10)
    before, after = map(pyloudnorm.Meter(rate).integrated_loudness, (noisy, audio))
    print(f"loudness {before:.1f} LUFS -> {after:.1f} LUFS")


def two_voices(rate: int) -> tuple[Sound, Sound, Sound]:
    """Return a host, who speaks first, a guest, who speaks second, and the noise near the guest."""
    host, guest = soundfile.read(CLEAN)[0], corpus(GUEST)
    host, guest = (
        host[: 3 * RATE],
        guest[: 3 * RATE] * np.sqrt(np.mean(host**2) / np.mean(guest**2)),
    )
    silence = np.zeros_like(host)
    turns = np.concatenate([host, silence]), np.concatenate([silence, guest])
    one, two = (soxr.resample(turn, RATE, rate) for turn in turns)
    return one, two, np.resize(corpus(TRUCK, rate), len(one))


def conversation(name: str, rate: int, bleed: float) -> None:
    """Denoise two voices, one per channel; each is also in the other channel, times `bleed`."""
    host, guest, truck = two_voices(rate)
    tap = np.resize(corpus(FIELD["a running tap"], rate), len(host))
    voices = np.stack([host + bleed * guest, guest + bleed * host], 1)
    noisy = np.stack(
        [
            with_noise(v, np.resize(n, len(v)), 8)
            for v, n in zip(voices.T, (tap, truck), strict=True)
        ],
        1,
    )
    audio = denoised(noisy, rate, "--channels", "separate")
    keep(f"{name}-before", noisy, rate)
    keep(f"{name}-after", audio, rate)
    for k, party in enumerate(("left", "right")):
        before, after = (si_sdr(voices[:, k], x[:, k]) for x in (noisy, audio))
        print(f"{name}, {party}: SI-SDR {before:.1f} dB -> {after:.1f} dB")
    half = len(host) // 2
    other = [level(x[half:, 0]) - level(x[:half, 0]) for x in (voices, audio)]
    print(
        f"{name}: the guest in the host's channel, dB of the host: {other[0]:.0f}, {other[1]:.0f}"
    )


def interview() -> None:
    """Denoise a conversation on two microphones at 44.1 kHz."""
    conversation("interview", 44_100, 0.1)


def calls() -> None:
    """Denoise a telephone call, a party per channel."""
    conversation("call", 8000, 0.0)


def field() -> None:
    """Print by how much denoising lowers sounds that somebody may want, and write the birds."""
    for name, path in FIELD.items():
        audio = corpus(path, 44_100)[: 6 * 44_100]
        source = 0.5 * audio / np.abs(audio).max()
        falls = []
        for options in ((), ("--max-attenuation", "10"), ("--strength", "0.5")):
            out = denoised(source, 44_100, *options)
            falls.append(level(source) - level(out))
            if name == "birds" and not options:
                keep("birds-before", source, 44_100, 5)
                keep("birds-after", out, 44_100, 5)
        print(f"| {name} | " + " | ".join(f"{fall:.1f}" for fall in falls) + " |")


def obs() -> None:
    """Denoise the sample at low latency."""
    noisy, rate = soundfile.read(SAMPLE)
    audio = denoised(noisy, rate, "--latency", "low")
    keep("live-after", audio, rate, 10)
    clean = soundfile.read(CLEAN)[0]
    print(f"low latency: SI-SDR {si_sdr(clean, audio):.1f} dB")


def which() -> None:
    """Denoise the sample by DeepFilterNet3, and print its SI-SDR and alphamf's."""
    (clean, rate), (noisy, _) = (soundfile.read(path, dtype="float32") for path in (CLEAN, SAMPLE))
    clip = Clip("sample", rate, clean, noisy)
    audio: Any = run("deepfilternet", clip)
    keep("deepfilternet", audio, rate, 10)
    own = soundfile.read(ROOT / "data/sample-denoised.wav")[0]
    print(
        f"SI-SDR: DeepFilterNet3 {si_sdr(clean, audio):.1f} dB, alphamf {si_sdr(clean, own):.1f} dB"
    )


def room() -> None:
    """Remove the echo of a simulated room from the sample's voice, and draw both sounds."""
    place = image_room((SEEDS["dev"], 2), RATE, (0.7, 0.7))
    clean = soundfile.read(CLEAN)[0]
    target, heard = in_room(clean, place)
    heard *= 0.5 / np.abs(heard).max()
    audio = denoised(heard, RATE, "--dereverb")
    sounds = {"before": heard, "after": audio}
    for name, sound in sounds.items():
        keep(f"room-{name}", sound, RATE, 10)
    shown = {name: sound[: 5 * RATE].astype(np.float32) for name, sound in sounds.items()}
    figure = spectrograms(shown, RATE, highest=4000)
    picture = ROOT / "docs/figures/room.png"
    figure.savefig(picture, dpi=80)
    small(picture)
    print(f"RT60 {place.middle:.2f} s, direct-to-reverberant ratio {place.drr:.0f} dB")
    for name, sound in sounds.items():
        found = zip(SCORES.items(), scores(target, sound, RATE), strict=True)
        print(name, ", ".join(f"{score} {value:.{digits}f}" for (score, digits), value in found))


RECIPES = {each.__name__: each for each in (podcast, interview, calls, field, obs, which, room)}

if __name__ == "__main__":
    LISTEN.mkdir(exist_ok=True)
    run_main(RECIPES)
