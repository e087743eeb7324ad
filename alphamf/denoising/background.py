"""Denoising for asyncio: runs in a thread, so that the event loop is not blocked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from os import PathLike

from numpy.typing import ArrayLike

from alphamf.audio.reader import CHANNELS
from alphamf.denoising.api import Denoised, denoise
from alphamf.denoising.hints import Stretches
from alphamf.denoising.settings import Settings
from alphamf.denoising.weights import Weights
from alphamf.learnt.dictionary import Dictionary


async def denoise_async(
    audio: ArrayLike,
    rate: int,
    settings: Settings | str = "fast",
    *,
    model: str | PathLike[str] | Dictionary | Weights = "auto",
    seed: int = 0,
    device: str = "cpu",
    jobs: int = 1,
    max_channels: int = CHANNELS,
    channels_first: bool = False,
    noise_from: Stretches = (),
    speech_from: Stretches = (),
    progress: Callable[[float], None] | None = None,
) -> Denoised:
    """Denoise a recording held in memory, in a thread of the event loop's executor.

    Where the task is cancelled, so is the work, and the thread is free again before the
    cancellation goes on.

    Parameters
    ----------
    audio, rate, settings, model, seed, device, jobs, max_channels, channels_first, noise_from, \
    speech_from
        As in `denoise`; the array is read while the work goes on.
    progress
        As in `denoise`, called in the thread.

    Raises
    ------
    AlphaMFError
        As `denoise`.

    Examples
    --------
    >>> import soundfile
    >>> audio, rate = soundfile.read("data/sample-noisy.wav", frames=32000)
    >>> import asyncio
    >>> asyncio.run(denoise_async(audio, rate, "fast")).audio.shape
    (32000,)
    """
    cancel = threading.Event()
    work = partial(
        denoise,
        audio,
        rate,
        settings,
        model=model,
        seed=seed,
        device=device,
        jobs=jobs,
        max_channels=max_channels,
        channels_first=channels_first,
        noise_from=noise_from,
        speech_from=speech_from,
        progress=progress,
        cancel=cancel,
    )
    future = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        cancel.set()
        await asyncio.wait([future])
        raise
    finally:
        if future.done() and not future.cancelled():
            future.exception()  # or asyncio would complain that nobody has asked for it
