"""Denoise one file: from an input and an output to a result that prints as JSON."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alphamf.audio.inputs import STREAM, Job, exists
from alphamf.errors import AlphaMFError
from alphamf.tools.files import reason, shown
from alphamf.tools.pool import Update

if TYPE_CHECKING:
    from alphamf.denoising.api import Settings
    from alphamf.learnt.dictionary import Dictionary
    from alphamf.learnt.refiner import Refiner


@dataclass(frozen=True)
class Request:
    """What is asked of every file of a batch; the options of ``alphamf denoise``."""

    settings: Settings
    preset: str = "balanced"
    model: str = "auto"
    seed: int = 0
    device: str = "cpu"
    jobs: int = 1
    overwrite: bool = False
    noise_output: str | None = None
    plot: str | None = None
    uncertainty: str | None = None
    reference: str | None = None


def process(job: Job, update: Update | None, request: Request) -> dict[str, Any]:
    """Denoise one file, write what is asked for, and return what there is to report.

    The denoised file appears last, when everything else has worked. Where an earlier run has made
    it of a file that was searched for, it stays, and there is only that to report.

    Raises
    ------
    AlphaMFError
        The input, an output or an option does not do.
    """
    import numpy as np

    from alphamf.audio.reader import open_reader
    from alphamf.audio.writer import destination, open_writer
    from alphamf.denoising.api import denoise_stream
    from alphamf.denoising.estimate import native_frame
    from alphamf.evaluation.observers import Observers
    from alphamf.learnt.dictionary import choose
    from alphamf.learnt.refiner import choose as choose_refiner
    from alphamf.learnt.refiner import choose_fine

    started = time.perf_counter()
    if _done(job, job.output, request):
        return _skipped(job, job.output)
    with ExitStack() as stack:
        reader = stack.enter_context(
            open_reader(sys.stdin.buffer if job.source == STREAM else job.source)
        )
        target = destination(job.output, reader, derived=job.derived)
        if _done(job, target.path, request):
            return _skipped(job, target.path)
        if job.derived:
            folder = Path(target.path).parent
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise AlphaMFError(f"{shown(folder)} cannot be made: {reason(error)}") from error
        dictionary = choose(request.model, reader.rate)
        refiner = choose_refiner(dictionary) if request.settings.refine else None
        fine = choose_fine(dictionary) if refiner else None
        extras = Observers(
            reader,
            native_frame(dictionary, reader.rate),
            stack,
            noise_output=request.noise_output,
            plot=request.plot,
            uncertainty=request.uncertainty,
            reference=request.reference,
        )
        writer = stack.enter_context(
            open_writer(
                sys.stdout.buffer if target.path == STREAM else target.path,
                reader.rate,
                reader.channels,
                format=target.format,
                subtype=target.subtype,
            )
        )
        # No other run writes it from here on, but one may have done so since the files were listed.
        if exists(target.path) and not request.overwrite:
            raise AlphaMFError(
                f"{shown(target.path)} exists already: use --overwrite to replace it"
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
            jobs=request.jobs,
            progress=progress,
        ):
            writer.write(segment.audio)
            extras.add(segment)
            acceptance.append(segment.acceptance)
            weights.append(len(segment.audio))
        scores = extras.finish()
    seconds = time.perf_counter() - started
    notes = target.note, _band(dictionary, reader.rate), _unrefined(dictionary, refiner, request)
    return {
        "file": job.source,
        "output": target.path,
        "format": target.format,
        "subtype": target.subtype,
        "note": "; ".join(filter(None, notes)) or None,
        "rate": reader.rate,
        "channels": reader.channels,
        "samples": reader.frames,
        "duration": reader.duration,
        "seconds": seconds,
        "real_time_factor": seconds / reader.duration,
        "clipped": writer.clipped,
        "acceptance": np.average(acceptance, axis=0, weights=weights).tolist(),
        "scores": scores,
        "version": version("alphamf"),
        "model": dictionary.name,
        "model_sha256": dictionary.sha256,
        "refiner": refiner and refiner.name,
        "refiner_sha256": refiner and refiner.sha256,
        "fine": fine and fine.name,
        "fine_sha256": fine and fine.sha256,
        "preset": request.preset,
        "seed": request.seed,
        "device": request.device,
        "settings": asdict(request.settings),
    }


def _done(job: Job, output: str, request: Request) -> bool:
    return job.searched and job.derived and exists(output) and not request.overwrite


def _skipped(job: Job, output: str) -> dict[str, Any]:
    return {"file": job.source, "output": output, "skipped": "the output exists already"}


def _unrefined(dictionary: Dictionary, refiner: Refiner | None, request: Request) -> str | None:
    """Return what there is to say where a network is asked for and there is none."""
    if refiner is not None or not request.settings.refine:
        return None
    return f"there is no network for the rate and window of {dictionary.name}, and none was used"


def _band(dictionary: Dictionary, rate: int) -> str | None:
    """Return what there is to say of a dictionary for wider sound than the recording's."""
    if dictionary.rate <= rate:
        return None
    return (
        f"{dictionary.name} is for sound of {dictionary.rate} Hz and more, and denoises this of "
        f"{rate} Hz badly"
    )
