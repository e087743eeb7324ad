"""Made-up voices and sounds to train on, and a small run's configuration."""

import numpy as np
import soundfile

from alphamf.audio.stft import Frame
from alphamf.learnt.dictionary import Dictionary
from alphamf.training.refiner.config_file import parse_config

RATE = 8000
FRAME = Frame(128, 64)


def voice(seed, seconds=1.0):
    """Return a buzz at a speaker's pitch in syllables of a quarter of a second."""
    rng = np.random.default_rng(seed)
    t = np.arange(int(seconds * RATE)) / RATE
    pitch = rng.uniform(90, 250)
    tones = sum(np.sin(2 * np.pi * k * pitch * t) / k for k in range(1, 12))
    return (0.1 * tones * np.sin(np.pi * 4 * t) ** 2).astype(np.float32)


def sound(seed):
    return (0.1 * np.random.default_rng(seed).standard_normal(RATE // 2)).astype(np.float32)


VOICES = [voice(seed) for seed in range(5)]
SOUNDS = [sound(seed) for seed in range(5)]
ROOM = np.r_[np.zeros(16), 1, 0.3 * np.exp(-np.arange(800) / 150)].astype(np.float32)


def write_corpora(folder):
    """Write voices, sounds, a room with a manifest, and a small dictionary."""
    for name, recordings in (("speech", VOICES), ("noise", SOUNDS), ("room", [ROOM])):
        (folder / name / "deeper").mkdir(parents=True)
        for k, samples in enumerate(recordings):
            soundfile.write(folder / name / "deeper" / f"{k}.wav", samples, RATE)
    (folder / "room" / "MANIFEST.csv").write_text("path,split\ndeeper/0.wav,train\n")
    basis = np.random.default_rng(0).gamma(0.3, size=(FRAME.bins, 8)) + 1e-4
    Dictionary((basis / basis.sum(0)).astype(np.float32), 1.0, RATE, FRAME).save(
        folder / "small.npz"
    )


def table(folder):
    """Return the table of a small configuration."""
    return {
        "network": {
            "model": str(folder / "small.npz"),
            "width": 16,
            "hidden": 32,
            "blocks": 1,
            "maps": 3,
            "local": 12,
            "deep": 0,
        },
        "data": {
            "voices": [str(folder / "speech")],
            "sounds": [str(folder / "noise")],
            "rooms": [str(folder / "room")],
        },
        "mixtures": {
            "clips": 10,
            "dev_clips": 2,
            "seconds": 0.6,
            "seed": 1,
            "snr": [-5, 20],
            "nearly_clean": 0.1,
            "level": [-50, 0],
            "layers": [0.5, 0.25],
            "rumble": 0.3,
            "pauses": 0.2,
            "rooms": 0.2,
            "made_up_rooms": 0.1,
            "telephone": 0.3,
            "band": 0.2,
            "codec": 0.2,
            "clipped": 0.1,
            "kinds": {"babble": 1, "coloured": 1, "recorded": 1, "events": 1},
            "chains": {"em-15": 1.0},
        },
        "losses": {
            "distortion": 1.5,
            "compression": 0.7,
            "intelligibility": 20,
            "resolutions": 0.7,
            "perception": 1,
        },
        "schedule": {
            "steps": 60,
            "batch": 5,
            "step_size": 1e-3,
            "warm_up": 5,
            "weight_decay": 1e-3,
            "largest_gradient": 1.0,
            "averaging": 0.9,
            "precision": "float32",
            "seed": 1,
            "report_every": 10,
            "score_every": 30,
        },
    }


def changed(folder, **sections):
    """Return a small configuration with other values in its sections."""
    values = table(folder)
    for name, keys in sections.items():
        values[name] = values.get(name, {}) | keys
    return parse_config(values)
