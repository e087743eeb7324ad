"""Denoise one file: from an input and an output to a result that prints as JSON."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alphamf.cli.report import Update
from alphamf.errors import AlphaMFError
from alphamf.files import shown
from alphamf.inputs import STREAM, Job, exists

if TYPE_CHECKING:
    from alphamf.denoising import Settings


@dataclass(frozen=True)
class Request:
    """What is asked of every file of a batch; the options of ``alphamf denoise``."""

    settings: Settings
    model: str = "auto"
    seed: int = 0
    device: str = "cpu"
    overwrite: bool = False
    noise_output: str | None = None
    plot: str | None = None
    uncertainty: str | None = None
    reference: str | None = None


def process(job: Job, update: Update | None, request: Request) -> dict[str, Any]:
    """Denoise one file, write what is asked for, and return what there is to report.

    The denoised file appears last, when everything else has worked.

    Raises
    ------
    AlphaMFError
        The input, an output or an option does not do.
    """
    import numpy as np

    from alphamf.audio import destination, open_reader, open_writer
    from alphamf.cli.extras import Extras
    from alphamf.denoising import denoise_stream
    from alphamf.dictionary import choose
    from alphamf.estimate import native_frame

    started = time.perf_counter()
    with ExitStack() as stack:
        reader = stack.enter_context(
            open_reader(sys.stdin.buffer if job.source == STREAM else job.source)
        )
        target = destination(job.output, reader, derived=job.derived)
        if target.path != job.output and exists(target.path) and not request.overwrite:
            raise AlphaMFError(
                f"{shown(target.path)} exists already: use --overwrite to replace it"
            )
        if job.derived:
            Path(target.path).parent.mkdir(parents=True, exist_ok=True)
        dictionary = choose(request.model, reader.rate)
        extras = Extras(request, reader, native_frame(dictionary, reader.rate), stack)
        writer = stack.enter_context(
            open_writer(
                sys.stdout.buffer if target.path == STREAM else target.path,
                reader.rate,
                reader.channels,
                format=target.format,
                subtype=target.subtype,
            )
        )

        def progress(seconds: float) -> None:
            if update is not None:
                update(shown(job.source), seconds, reader.duration)

        acceptance, weights = [], []
        for segment in denoise_stream(
            extras.watch(reader.blocks()),
            reader.rate,
            request.settings,
            model=dictionary,
            seed=request.seed,
            device=request.device,
            progress=progress,
        ):
            writer.write(segment.audio)
            extras.add(segment)
            acceptance.append(segment.acceptance)
            weights.append(len(segment.audio))
        scores = extras.finish()
    seconds = time.perf_counter() - started
    return {
        "file": job.source,
        "output": target.path,
        "format": target.format,
        "subtype": target.subtype,
        "note": target.note,
        "rate": reader.rate,
        "channels": reader.channels,
        "samples": reader.frames,
        "duration": reader.duration,
        "seconds": seconds,
        "real_time_factor": seconds / reader.duration,
        "clipped": writer.clipped,
        "acceptance": np.average(acceptance, axis=0, weights=weights).tolist(),
        "scores": scores,
        "model": dictionary.name,
        "seed": request.seed,
        "device": request.device,
        "settings": asdict(request.settings),
    }
