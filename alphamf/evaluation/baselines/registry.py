"""All baselines by name, with the lower and the upper bound: the input, and the oracle mask.

Importing them costs no more than NumPy; what a method needs is imported when it runs.
"""

from functools import partial

import numpy as np

from alphamf.audio import stft
from alphamf.audio.stft import Frame
from alphamf.evaluation.baselines import logmmse, nmf
from alphamf.evaluation.baselines.base import Clip, Method
from alphamf.evaluation.baselines.peers import PEERS
from alphamf.tools.arrays import Floats

HOP_SECONDS = 0.016
OVERLAP = 4
"""Ratio of window and hop: windows of 64 ms every 16 ms, as in the shipped dictionaries."""


def mask(clip: Clip) -> Floats:
    r"""Apply the Wiener gain of the true speech S and the true noise N to each cell of the STFT X.

    .. math:: \frac{|S|^2}{|S|^2 + |N|^2}, \qquad N = X - S.
    """
    hop = max(1, round(HOP_SECONDS * clip.rate))
    frame = Frame(OVERLAP * hop, hop)
    mixture, speech = stft.forward(clip.noisy, frame), stft.forward(clip.clean, frame)
    of_speech, of_noise = np.abs(speech) ** 2, np.abs(mixture - speech) ** 2
    both = of_speech + of_noise
    gain = np.divide(of_speech, both, out=np.zeros_like(both), where=both > 0)
    return stft.inverse(mixture * gain, frame, len(clip.noisy))


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("noisy", "the unprocessed input", lambda clip: clip.noisy.copy()),
        Method("oracle-mask", "Wiener mask of the true speech and noise: a bound", mask),
        Method("logmmse", "log-spectral amplitude estimator with noise tracking", logmmse.denoise),
        *(
            Method(name, f"{law} NMF, speech from the dictionary", run, uses_model=True)
            for name, law, run in (
                ("is-nmf", "Itakura-Saito", partial(nmf.denoise, beta=0)),
                ("kl-nmf", "Kullback-Leibler", partial(nmf.denoise, beta=1)),
            )
        ),
        *PEERS,
    )
}
"""Every baseline by name."""
