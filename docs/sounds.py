"""What the examples share: the sample's sound, players and spectrograms."""

import base64
import io
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import soundfile
from numpy.typing import NDArray

DATA = Path(__file__).resolve().parents[1] / "data"

Sound = NDArray[np.floating[Any]]


def sample(start: float = 0.0, end: float = 4.0) -> tuple[Sound, Sound, int]:
    """Return clean speech, the same with noise, and the rate in Hz; times are in seconds."""
    rate = soundfile.info(DATA / "sample-clean.wav").samplerate
    part = {"start": int(start * rate), "stop": int(end * rate), "dtype": "float32"}
    clean, noisy = (soundfile.read(DATA / f"sample-{k}.wav", **part)[0] for k in ("clean", "noisy"))
    return clean, noisy, rate


def at_snr(clean: Sound, noise: Sound, decibels: float) -> Sound:
    """Return clean speech with noise added at a ratio of powers in dB."""
    scale = np.sqrt((clean**2).mean() / (noise**2).mean() * 10 ** (-decibels / 10))
    return (clean + scale * noise).astype(np.float32)


@dataclass
class Players:
    """Sounds to listen to, shown by Jupyter and on the pages of the gallery.

    Attributes
    ----------
    sounds
        Captions and samples, shape (samples,) or (samples, channels).
    rate
        In Hz.
    """

    sounds: dict[str, Sound]
    rate: int

    def _repr_html_(self) -> str:
        return "\n".join(self._player(caption, sound) for caption, sound in self.sounds.items())

    def _player(self, caption: str, sound: Sound) -> str:
        file = io.BytesIO()
        soundfile.write(file, np.clip(sound, -1, 1), self.rate, format="FLAC", subtype="PCM_16")
        data = base64.b64encode(file.getvalue()).decode()
        return (
            f'<figure class="sound"><figcaption>{escape(caption)}</figcaption>'
            f'<audio controls preload="metadata" aria-label="{escape(caption)}" '
            f'src="data:audio/flac;base64,{data}"></audio></figure>'
        )


def listen(rate: int, **sounds: Sound) -> Players:
    """Return players of sounds whose captions are the names, with spaces for underscores."""
    return Players({name.replace("_", " "): sound for name, sound in sounds.items()}, rate)


def spectrograms(rate: int, **sounds: Sound) -> None:
    """Draw spectrograms above each other, 70 dB below the loudest cell of the first."""
    figure, panels = plt.subplots(
        len(sounds), 1, figsize=(8, 2.1 * len(sounds)), sharex=True, layout="constrained"
    )
    loudest = None
    for axes, (name, sound) in zip(np.atleast_1d(panels), sounds.items(), strict=True):
        window = round(0.032 * rate)
        mono = sound if sound.ndim == 1 else sound.mean(1)
        steps = np.lib.stride_tricks.sliding_window_view(mono, window)[:: window // 4]
        power = np.abs(np.fft.rfft(steps * np.hanning(window))) ** 2
        level = 10 * np.log10(power.T + 1e-12)
        loudest = level.max() if loudest is None else loudest
        image = axes.imshow(
            level,
            origin="lower",
            aspect="auto",
            extent=(0, len(mono) / rate, 0, rate / 2000),
            cmap="magma",
            vmin=loudest - 70,
            vmax=loudest,
        )
        axes.set(title=name.replace("_", " "), ylabel="kHz")
    np.atleast_1d(panels)[-1].set_xlabel("seconds")
    figure.colorbar(image, ax=panels, label="dB")
