"""Interface of the compared methods, and their input."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from alphamf.tools.arrays import Floats


class Clip(NamedTuple):
    """A noisy recording, and other inputs of a method."""

    # noisy, clean: finite float32 samples of equal shape (samples,); only oracles use `clean`.
    noisy: Floats
    rate: int  # Samples per second
    clean: Floats
    seed: int = 0  # Seed for methods that draw random numbers
    # Dictionary for methods that use one: a parameter of `alphamf.learnt.dictionary.choose`.
    model: str = "auto"


class Method(NamedTuple):
    """A denoising method of an evaluation: its name, its function and what it needs."""

    name: str  # Name on the command line
    summary: str  # Description in one line
    # ``run(clip)`` returns the denoised sound: float32, of the noisy one's shape and without delay.
    # Raises AlphaMFError on failure.
    run: Callable[[Clip], Floats]
    # Requirement that must be installed, such as "package noisereduce", or None.
    requires: str | None = None
    # ``available()`` returns None if the method can run, otherwise one sentence with the reason.
    available: Callable[[], str | None] = lambda: None
    uses_model: bool = False  # Whether it uses the clip's dictionary


def fit(audio: Floats, samples: int) -> Floats:
    """Cut a signal, or pad it with zeros, to a number of samples."""
    return np.pad(audio[:samples], (0, max(0, samples - len(audio))))
