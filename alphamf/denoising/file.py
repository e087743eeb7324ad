"""Denoise one file: from an input and an output to a result that prints as JSON."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict
from typing import Any

import numpy as np

from alphamf.audio.inputs import STREAM, Job, exists
from alphamf.audio.reader import Reader, open_reader
from alphamf.audio.writer import Destination, Writer, destination, open_writer
from alphamf.denoising.grids import native_grid
from alphamf.denoising.request import Observer, Request
from alphamf.denoising.weights import Weights, find, missing_refiner, narrow_recording
from alphamf.errors import AlphaMFError
from alphamf.tools.files import make_folder, permissions, shown
from alphamf.tools.work import Update


def process(job: Job, update: Update | None, request: Request) -> dict[str, Any]:
    """Denoise one file, write what is asked for, and return what there is to report.

    The denoised file appears last, when everything else has worked. Where an earlier run has made
    it of a file that was searched for, it stays, and there is only that to report.

    Parameters
    ----------
    job
        The input and the output.
    update
        Called with name, seconds done and seconds in all, or None.
    request
        What is asked for.

    Raises
    ------
    AlphaMFError
        The input, an output or an option cannot be used.
    """
    started = time.perf_counter()
    if job.searched and job.derived and exists(job.output) and not request.overwrite:
        return {
            "file": job.source,
            "output": job.output,
            "skipped": "the output exists already",
        }
    with ExitStack() as stack:
        reader = stack.enter_context(
            open_reader(
                sys.stdin.buffer if job.source == STREAM else job.source,
                salvage=request.salvage,
                max_channels=request.max_channels,
                track=request.track,
            )
        )
        target = destination(job.output, reader, derived=job.derived)
        make_folder(target.path)
        weights = find(
            reader.rate,
            request.model,
            refiner=request.refiner if request.settings.refine else "none",
            second_stage=request.second_stage if request.settings.refine else "none",
        )
        frame = native_grid(weights.dictionary, reader.rate).frame
        mode = permissions(_input(job))
        observer = request.observe(reader, frame, stack, mode)
        writer = stack.enter_context(_open(target, reader, mode, request))
        # No other run writes it from here on, but one may have done so since the files were listed.
        _check_target(job, target, overwrite=request.overwrite)
        acceptance = _denoise(
            reader, writer, weights, observer, request, _progress(job, update, reader.duration)
        )
        scores = observer.finish()
    result = {
        **_about_files(job, target, reader, writer),
        **_about_time(time.perf_counter() - started, reader),
        "acceptance": acceptance,
        "scores": scores,
        **(_about_run(weights, request) if request.documented else {}),
    }
    return {**result, "note": _note(reader, target, writer, weights, request)}


def _input(job: Job) -> str | int:
    """Return the input's file, or the descriptor of standard input, if it has one."""
    if job.source != STREAM:
        return job.source
    try:
        return sys.stdin.fileno()
    except (OSError, ValueError):
        return os.devnull


def _check_target(job: Job, target: Destination, *, overwrite: bool) -> None:
    """Refuse to replace a file, and one that was not known to be the output when all were named."""
    if not exists(target.path):
        return
    if not overwrite:
        raise AlphaMFError(f"{shown(target.path)} exists already: use --overwrite to replace it")
    if target.path != job.output:
        raise AlphaMFError(
            f"{shown(target.path)} exists already, and that {shown(job.source)} would be written "
            "there was not known before it was read: use -o"
        )


def _open(
    target: Destination, reader: Reader, mode: int, request: Request
) -> AbstractContextManager[Writer]:
    return open_writer(
        sys.stdout.buffer if target.path == STREAM else target.path,
        reader.rate,
        reader.channels,
        format=target.format,
        subtype=target.subtype,
        mode=mode,
        original=reader,
        history=f"denoised by alphamf {_version()}" if request.tag else None,
    )


def _progress(job: Job, update: Update | None, duration: float) -> Callable[[float], None] | None:
    if update is None:
        return None
    return lambda seconds: update(shown(job.source), seconds, duration)


def _denoise(
    reader: Reader,
    writer: Writer,
    weights: Weights,
    observer: Observer,
    request: Request,
    progress: Callable[[float], None] | None,
) -> list[float]:
    """Denoise what `reader` reads into `writer`, and return the mean acceptance."""
    acceptance, samples = [], []
    for segment in request.estimate(
        observer.watch(reader.blocks()),
        reader.rate,
        request.settings,
        model=weights,
        seed=request.seed,
        device=request.device,
        jobs=request.jobs,
        max_channels=request.max_channels,
        progress=progress,
    ):
        writer.write(segment.audio)
        observer.add(segment)
        acceptance.append(segment.acceptance)
        samples.append(len(segment.audio))
    mean: list[float] = np.average(acceptance, axis=0, weights=samples).tolist()
    return mean


def _unrefined(weights: Weights, request: Request) -> str | None:
    return missing_refiner(weights, request.refiner) if request.settings.refine else None


def _note(
    reader: Reader, target: Destination, writer: Writer, weights: Weights, request: Request
) -> str | None:
    notes = (
        reader.cut,
        target.note,
        f"{target.format} cannot hold {', '.join(writer.left_out)}" if writer.left_out else None,
        writer.lost,
        narrow_recording(weights, reader.rate),
        _unrefined(weights, request),
    )
    return "; ".join(filter(None, notes)) or None


def _about_files(job: Job, target: Destination, reader: Reader, writer: Writer) -> dict[str, Any]:
    return {
        "file": job.source,
        "output": target.path,
        "format": target.format,
        "subtype": target.subtype,
        "rate": reader.rate,
        "channels": reader.channels,
        "samples": reader.frames,
        "duration": reader.duration,
        "clipped": writer.clipped,
        "clipped_by_db": writer.clipped_by_db,
    }


def _about_time(seconds: float, reader: Reader) -> dict[str, float]:
    return {"seconds": seconds, "real_time_factor": seconds / reader.duration}


def _about_run(weights: Weights, request: Request) -> dict[str, Any]:
    from alphamf.denoising.environment import environment

    networks = {"refiner": weights.refiner, "second_stage": weights.second_stage}
    return {
        "version": _version(),
        "model": weights.dictionary.name,
        "model_sha256": weights.dictionary.sha256,
        **{name: network and network.name for name, network in networks.items()},
        **{f"{name}_sha256": network and network.sha256 for name, network in networks.items()},
        "preset": request.preset,
        "seed": request.seed,
        "device": request.device,
        "settings": asdict(request.settings),
        "environment": environment(),
    }


def _version() -> str:
    from importlib.metadata import version

    return version("alphamf")
