"""Denoise one file: from an input and an output to a result that prints as JSON."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from alphamf.audio import formats
from alphamf.audio.inputs import STREAM, Job, exists
from alphamf.audio.live import open_input
from alphamf.audio.normalizer import Normalizer
from alphamf.audio.reader import Recording
from alphamf.audio.stft import Frame
from alphamf.audio.writer import Destination, Writer, destination, open_writer
from alphamf.denoising.agreement import Agreement
from alphamf.denoising.grids import native_grid
from alphamf.denoising.hints import OPTIONS, Hints, hints_of
from alphamf.denoising.part import denoise_part, first_sample
from alphamf.denoising.request import Observer, Request
from alphamf.denoising.samples import Samples
from alphamf.denoising.trim import Trimmer
from alphamf.denoising.weights import Weights, find, missing_refiner, narrow_recording
from alphamf.errors import AlphaMFError
from alphamf.tools.files import make_folder, permissions, shown
from alphamf.tools.stopping import leave_if_stopped
from alphamf.tools.sums import total
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
            open_input(
                sys.stdin.buffer if job.source == STREAM else job.source,
                whole=request.whole or _hinted(request),
                salvage=request.salvage,
                max_channels=request.max_channels,
                track=request.track,
            )
        )
        # What is brought to a loudness is kept below full scale by that.
        lower = request.loudness is None
        target = destination(job.output, reader, derived=job.derived, lower=lower)
        make_folder(target.path, job.within)
        _check_renamed(job, target)
        weights = find(
            reader.rate,
            request.model,
            refiner=request.refiner if request.settings.refine else "none",
            second_stage=request.second_stage if request.settings.refine else "none",
            causal=request.causal if request.settings.refine else "none",
        )
        frame = native_grid(weights.dictionary, reader.rate).frame
        _check_trim(reader, target, request)
        hints = _hints(reader, request, frame)
        mode = permissions(_input(job))
        observer = request.observe(reader, frame, stack, mode)
        writer = stack.enter_context(_open(job, target, reader, mode, request))
        normalizer = None
        if request.loudness is not None:
            normalizer = Normalizer(writer, reader.rate, reader.channels, request.loudness, stack)
        trimmer = stack.enter_context(Trimmer(reader.rate, frame)) if request.trim else None
        write = (normalizer or writer).write
        progress = _progress(job, update, reader)
        acceptance, agreement, said = _denoise(
            reader, write, weights, observer, request, progress, trimmer, hints
        )
        loudness = normalizer.finish() if normalizer else None
        scores = observer.finish()
    result = {
        **_about_files(job, target, reader, writer),
        **_about_time(time.perf_counter() - started, reader),
        "acceptance": acceptance,
        "agreement": agreement and agreement.facts(),
        # Takes a quarter of a second of tables, which only a result that says it all is worth.
        "scores": scores,
        "kept": trimmer and [trimmer.first / reader.rate, trimmer.last / reader.rate],
        "loudness": loudness,
        **(_about_run(weights, request) if request.documented else {}),
    }
    notes = [
        *_notes(reader, target, writer, weights, request),
        *said,
        _levels(loudness, request),
        *_trimmed(reader, trimmer),
    ]
    return {**result, "note": "; ".join(filter(None, notes)) or None}


def _hinted(request: Request) -> bool:
    return bool(request.noise_from or request.speech_from)


def _hints(reader: Recording, request: Request, frame: Frame) -> Hints | None:
    """Return what the request knows of a recording, with times from what is denoised on."""
    if not _hinted(request):
        return None
    stretches = request.noise_from, request.speech_from
    hints = hints_of(reader.blocks(), reader.rate, reader.duration, stretches, OPTIONS, reader.name)
    if hints is None or request.part is None:
        return hints
    return hints.after(first_sample(request.part, reader.rate, frame) / reader.rate)


def _input(job: Job) -> str | int:
    """Return the input's file, or the descriptor of standard input, if it has one."""
    if job.source != STREAM:
        return job.source
    try:
        return sys.stdin.fileno()
    except (OSError, ValueError):
        return os.devnull


def _check_renamed(job: Job, target: Destination) -> None:
    """Refuse to replace a file that was not known to be the output when all were named."""
    if target.path != job.output and exists(target.path):
        raise AlphaMFError(
            f"{shown(target.path)} exists already, and that {shown(job.source)} would be written "
            "there was not known before it was read: use -o"
        )


def _check_trim(reader: Recording, target: Destination, request: Request) -> None:
    """Refuse to trim the sound alone of what else would lose its time."""
    if request.trim and reader.track is not None and formats.get(target.format).muxer:
        raise AlphaMFError(
            f"--trim-silence would shift the sound of {reader.name} against its other tracks and "
            "chapters: use -o with a name such as clean.wav or clean.flac"
        )


def _open(
    job: Job, target: Destination, reader: Recording, mode: int, request: Request
) -> AbstractContextManager[Writer]:
    return open_writer(
        sys.stdout.buffer if target.path == STREAM else target.path,
        reader.rate,
        reader.channels,
        format=target.format,
        subtype=target.subtype,
        gain=target.gain,
        mode=mode,
        original=reader,
        history=f"denoised by alphamf {_version()}" if request.tag else None,
        within=job.within,
        replace=request.overwrite and target.path == job.output,
    )


def _progress(job: Job, update: Update | None, reader: Recording) -> Callable[[float], None]:
    duration = reader.duration or math.inf  # of a pipe, which goes on

    def progress(seconds: float) -> None:
        leave_if_stopped()
        if update is not None:
            update(shown(job.source), seconds, duration)

    return progress


def _denoise(
    reader: Recording,
    write: Callable[[Samples], None],
    weights: Weights,
    observer: Observer,
    request: Request,
    progress: Callable[[float], None],
    trimmer: Trimmer | None,
    hints: Hints | None,
) -> tuple[list[float], Agreement | None, list[str]]:
    """Denoise what `reader` reads and pass it to `write`.

    Returns
    -------
    acceptance : list of float
        Mean of the segments'.
    agreement : Agreement or None
        Of several chains, over all segments.
    notes : list of str
        Of the segments.
    """
    acceptance, samples = [], []
    agreement: Agreement | None = None
    notes: list[str] = []
    denoised = partial(
        request.estimate,
        rate=reader.rate,
        settings=request.settings,
        model=weights,
        seed=request.seed,
        device=request.device,
        jobs=request.jobs,
        max_channels=request.max_channels,
        progress=progress,
        hints=hints,
    )
    blocks = observer.watch(reader.blocks(exact=request.part is not None))
    if request.part is None:
        segments = denoised(blocks)
    else:
        frame = native_grid(weights.dictionary, reader.rate).frame
        segments = denoise_part(blocks, reader, request.part, frame, denoised)
    for segment in segments:
        for block in trimmer.add(segment) if trimmer else [segment.audio]:
            write(block)
        observer.add(segment)
        agreement = total([agreement, segment.agreement])
        notes += [segment.note] if segment.note else []
        if segment.acceptance:
            acceptance.append(segment.acceptance)
            samples.append(len(segment.audio))
    for block in trimmer.finish() if trimmer else []:
        write(block)
    mean: list[float] = np.average(acceptance, axis=0, weights=samples).tolist()
    return mean, agreement, notes


def _unrefined(weights: Weights, request: Request) -> str | None:
    return missing_refiner(weights, request.refiner) if request.settings.refine else None


def _levels(loudness: dict[str, float] | None, request: Request) -> str | None:
    if request.loudness is None:
        return None
    if loudness is None:
        return "too short or too quiet to have a loudness, and left as it is"
    return "loudness {before:.1f} -> {after:.1f} LUFS, true peak {true_peak_db:.1f} dB".format(
        **loudness
    )


def _notes(
    reader: Recording, target: Destination, writer: Writer, weights: Weights, request: Request
) -> Iterator[str]:
    notes = (
        reader.cut,
        reader.note,
        target.note,
        f"{target.format} cannot hold {', '.join(writer.left_out)}" if writer.left_out else None,
        writer.lost,
        narrow_recording(weights, reader.rate),
        _unrefined(weights, request),
    )
    return filter(None, notes)


def _trimmed(reader: Recording, trimmer: Trimmer | None) -> list[str]:
    if trimmer is None:
        return []
    if not trimmer.found:
        return ["no speech was found, and nothing was cut off"]
    first, last = trimmer.first / reader.rate, trimmer.last / reader.rate
    return [f"{first:.2f} s to {last:.2f} s were kept"]


def _about_files(
    job: Job, target: Destination, reader: Recording, writer: Writer
) -> dict[str, Any]:
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


def _about_time(seconds: float, reader: Recording) -> dict[str, float]:
    return {"seconds": seconds, "real_time_factor": seconds / reader.duration}


def _about_run(weights: Weights, request: Request) -> dict[str, Any]:
    from alphamf.denoising.environment import environment

    networks = {
        "refiner": weights.refiner,
        "second_stage": weights.second_stage,
        "high_band": weights.high_band,
        "causal": weights.causal,
    }
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
