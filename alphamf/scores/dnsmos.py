"""DNSMOS P.835: opinion scores that a network predicts without the clean signal.

References
----------
Reddy, Gopal, Cutler, "DNSMOS P.835: a non-intrusive perceptual objective speech quality metric to
evaluate noise suppressors", ICASSP 2022; the model ``sig_bak_ovr.onnx`` and the polynomials are
from the DNS Challenge's repository, and the package speechmos contains them.
"""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from alphamf.audio.resample import resample
from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Floats
from alphamf.tools.extras import install_extra
from alphamf.tools.files import printable_name

RATE = 16000
SAMPLES = 144160
"""Number of samples of the network's input: 9.01 s."""

SCALES = (
    (-0.08397278, 1.22083953, 0.0052439),
    (-0.13166888, 1.60915514, -0.39604546),
    (-0.06766283, 1.11546468, 0.04602535),
)
"""Polynomials from the network's outputs to SIG, BAK and OVR, the highest power first."""


def check(path: str) -> None:
    """Raise an AlphaMFError if a file is not a DNSMOS P.835 network or cannot be run."""
    given, found = _network(path).get_inputs(), _network(path).get_outputs()
    if len(given) != 1 or given[0].shape[-1] != SAMPLES or found[0].shape[-1] != len(SCALES):
        raise AlphaMFError(
            f"{printable_name(path)} is not a DNSMOS P.835 network, which takes {SAMPLES} samples "
            f"and returns {len(SCALES)} scores"
        )


def scores(path: str, sound: Floats, rate: int) -> tuple[float, float, float]:
    """Return SIG, BAK and OVR of a sound, about 1 to 5: means over windows that start every second.

    `sound`: shape (samples,); repeated if it is shorter than the network's input.
    """
    session = _network(path)
    audio = resample(sound, rate, RATE)
    audio = np.tile(audio, -(-SAMPLES // len(audio))) if len(audio) < SAMPLES else audio
    name = session.get_inputs()[0].name
    raw = [
        session.run(None, {name: audio[None, start : start + SAMPLES].astype(np.float32)})[0][0]
        for start in range(0, len(audio) - SAMPLES + 1, RATE)
    ]
    scaled = [
        [np.polyval(scale, value) for scale, value in zip(SCALES, each, strict=True)]
        for each in raw
    ]
    sig, bak, ovr = np.mean(scaled, axis=0).tolist()
    return sig, bak, ovr


@cache
def _network(path: str) -> Any:
    if not Path(path).is_file():
        raise AlphaMFError(f"{printable_name(path)} does not exist")
    try:
        return onnx_session(path)
    except ImportError as error:
        raise AlphaMFError(
            f"DNSMOS needs the package onnxruntime; install it with {install_extra('dnsmos')}"
        ) from error
    except Exception as error:  # onnxruntime's own
        raise AlphaMFError(
            f"{printable_name(path)} is not a network that onnxruntime can read"
        ) from error


def onnx_session(path: str) -> Any:
    """Return an ONNX Runtime session, in one thread, for the network in a file."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
