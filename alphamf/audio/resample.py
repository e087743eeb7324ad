"""Conversion of sampling rates."""

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Floats


def resample(audio: Floats, rate_in: int, rate_out: int) -> Floats:
    """Change the sampling rate without a delay; for equal rates, return `audio` itself.

    Parameters
    ----------
    audio
        Shape (samples,) or (samples, channels).
    rate_in, rate_out
        Samples per second before and after.

    Returns
    -------
    ndarray
        ``round(samples * rate_out / rate_in)`` samples per channel; dtype as `audio`.

    Raises
    ------
    AlphaMFError
        A rate is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> resample(np.zeros(16000, np.float32), 16000, 8000).shape
    (8000,)
    """
    import soxr

    if rate_in <= 0 or rate_out <= 0:
        raise AlphaMFError(f"sampling rates must be positive, not {rate_in} and {rate_out}")
    if rate_in == rate_out:
        return audio
    samples = round(len(audio) * rate_out / rate_in)
    result: Floats = soxr.resample(audio, rate_in, rate_out)[:samples]
    if len(result) < samples:
        missing = [(0, samples - len(result))] + [(0, 0)] * (audio.ndim - 1)
        result = np.pad(result, missing)
    return result
