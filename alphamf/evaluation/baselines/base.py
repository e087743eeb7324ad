"""What a method of comparison is, and what it works on."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from alphamf.tools.arrays import Floats


class Clip(NamedTuple):
    """A noisy recording and what a method may need beside it.

    Attributes
    ----------
    noisy, clean
        Finite samples, float32, shape (samples,), both of one length; at `clean` only oracles look.
    rate
        Sampling rate in Hz.
    seed
        Of the methods that draw random numbers.
    model
        Dictionary of the methods that use one, as `alphamf.learnt.dictionary.choose` takes it.
    """

    noisy: Floats
    rate: int
    clean: Floats
    seed: int = 0
    model: str = "auto"


def _always() -> str | None:
    return None


class Method(NamedTuple):
    """A way to denoise.

    Attributes
    ----------
    name
        As on the command line.
    summary
        One line.
    run
        ``run(clip)`` returns the denoised sound: float32, of the noisy one's shape, in time with
        it. Raises AlphaMFError where it cannot.
    requires
        What has to be installed, such as "package noisereduce"; None where nothing has.
    available
        ``available()`` returns None where the method can run, otherwise one sentence that says why
        it cannot.
    uses_model
        Whether it looks at the clip's dictionary.
    """

    name: str
    summary: str
    run: Callable[[Clip], Floats]
    requires: str | None = None
    available: Callable[[], str | None] = _always
    uses_model: bool = False


def fit(audio: Floats, samples: int) -> Floats:
    """Cut the end off a signal, or pad it with zeros, so that it has so many samples."""
    return np.pad(audio[:samples], (0, max(0, samples - len(audio))))
