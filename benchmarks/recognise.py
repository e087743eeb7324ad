r"""Print the words that pocketsphinx hears in a sound file: a recogniser for ``evaluate --asr``.

``pip install pocketsphinx`` brings its English model along. For example, whether denoising helps
it, with what it hears in the clean speech as the truth (docs/quality.md)::

    alphamf mix $ALPHAMF_DATA/corpora/librispeech-dev --noise $ALPHAMF_DATA/corpora/noise-dev \
        --snr 5,10 --count 16 -o mixed
    alphamf evaluate --pairs mixed/pairs.csv --method noisy,logmmse,rnnoise,fast,balanced \
        --asr 'python -m benchmarks.recognise {file}' -o recognised
"""

from __future__ import annotations

import sys

import numpy as np

from alphamf.audio.reader import read
from alphamf.audio.resample import resample

RATE = 16000
"""Of pocketsphinx's model, in Hz. It hears telephone speech all the same, only worse."""


def recognise(path: str) -> str:
    """Return the words heard in a sound file."""
    from pocketsphinx import Decoder

    sound, rate = read(path)
    audio = resample(sound.mean(axis=1), rate, RATE)
    # Half a second of silence before and after, which its cepstral mean and search need.
    audio = np.pad(audio / max(1e-9, np.abs(audio).max()) * 0.7, RATE // 2)
    decoder = Decoder(samprate=RATE, loglevel="FATAL")
    decoder.start_utt()
    decoder.process_raw(np.round(audio * 32767).astype("<i2").tobytes(), full_utt=True)
    decoder.end_utt()
    found = decoder.hyp()
    return found.hypstr if found else ""


if __name__ == "__main__":
    print(recognise(sys.argv[1]))
