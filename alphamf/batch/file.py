"""Denoise one file: from an input and an output to a result that can be printed as JSON."""

import math
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from alphamf.audio import formats
from alphamf.audio.live_input import Recording, open_binary
from alphamf.audio.loudness import Normalizer
from alphamf.audio.reader import open_reader
from alphamf.audio.stft import Frame
from alphamf.audio.writer import Destination, Writer, destination, open_writer
from alphamf.batch.inputs import STREAM, Job, would_overwrite
from alphamf.batch.part import copied, denoise_part, first_sample
from alphamf.batch.request import Observer, Request
from alphamf.batch.trim import Trimmer
from alphamf.denoising.grids import native_grid
from alphamf.denoising.hints import Hints, hints_of
from alphamf.denoising.posterior import Agreement, sum_agreements
from alphamf.denoising.segments import Segment
from alphamf.denoising.stream_options import Samples, StreamOptions
from alphamf.denoising.weights import (
    NETWORKS,
    Weights,
    find,
    find_online,
    missing_refiner_note,
    narrow_recording_note,
)
from alphamf.errors import AlphaMFError
from alphamf.factorization import compiled
from alphamf.learnt import layers
from alphamf.tools.extras import installed_version
from alphamf.tools.files import make_folder, permissions, printable_name
from alphamf.tools.outcomes import Update
from alphamf.tools.stopping import finish_requested, leave_if_stopped

PACKAGES = "numpy", "scipy", "soxr", "soundfile"
"""Packages whose computations affect the samples."""


def _about_run(weights: Weights, request: Request) -> dict[str, Any]:
    """Return the models, settings and environment of a run; {} unless `request` is `documented`."""
    if not request.documented:  # reading the environment takes a quarter of a second
        return {}
    networks = {name: getattr(weights, name) for name in NETWORKS}
    return {
        "version": version("alphamf"),
        "model": weights.dictionary.name,
        "model_sha256": weights.dictionary.sha256,
        **{name: network and network.name for name, network in networks.items()},
        **{f"{name}_sha256": network and network.sha256 for name, network in networks.items()},
        "preset": request.preset,
        "seed": request.options.seed,
        "device": request.options.device,
        "settings": asdict(request.options.settings),
        "environment": environment(),
    }


@cache
def environment() -> dict[str, Any]:
    """Return the processor, the variants of compiled loops, the BLAS libraries, and versions.

    The dict can be printed as JSON. Equal inputs, settings and environments give equal outputs.
    """
    import soundfile
    from threadpoolctl import threadpool_info

    extensions = np.show_config("dicts")["SIMD Extensions"]
    libraries = [library for library in threadpool_info() if library["user_api"] == "blas"]
    return {
        "cpu": _cpu(),
        "loops": compiled.variant(),
        "networks": layers.variant(),
        "numpy_features": [*extensions.get("baseline", ()), *extensions.get("found", ())],
        "blas": [
            {
                "library": library["internal_api"],
                "version": library["version"],
                "core": library.get("architecture"),
                "threads": library["num_threads"],
            }
            for library in libraries
        ],
        "python": platform.python_version(),
        "libc": " ".join(platform.libc_ver()).strip() or None,
        "libsndfile": soundfile.__libsndfile_version__,
        "packages": {name: installed_version(name) for name in PACKAGES},
    }


def _cpu() -> str | None:
    """Return the processor's name, or None if it is unknown."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, None) or platform.processor() or platform.machine() or None


def process(job: Job, update: Update | None, request: Request) -> dict[str, Any]:
    """Denoise one file, write the requested outputs, and return the result to report.

    The denoised file gets its name last, when all else has worked. If the input was found by a
    search and the output named after it exists, it is skipped without `overwrite`.
    """
    started = time.perf_counter()
    if job.searched and job.derived and would_overwrite(job.output) and not request.overwrite:
        skipped = "the output already exists"
        return {"file": job.source, "output": job.output, "skipped": skipped}
    with ExitStack() as stack:
        reader = stack.enter_context(_open_input(job.source, request))
        # With a target loudness, the normalizer limits the peaks.
        lower = request.loudness is None
        target = destination(job.output, reader, derived=job.derived, lower=lower)
        make_folder(target.path, job.link_root)
        _check_renamed(job, target)
        weights = _weights(reader.rate, request)
        frame = native_grid(weights.dictionary, reader.rate).frame
        _check_trim(reader, target, request)
        hints = _hints(reader, request, frame)
        mode = permissions(_input(job))
        writer = stack.enter_context(_open_output(job, target, reader, mode, request))
        observer = request.observe(reader, frame, stack, mode)  # whose files are renamed before it
        normalizer = None
        if request.loudness is not None:
            normalizer = Normalizer(writer, reader.rate, reader.channels, request.loudness, stack)
        trimmer = stack.enter_context(Trimmer(reader.rate, frame)) if request.trim else None
        write = (normalizer or writer).write
        progress = _progress(job, update, reader)
        options = replace(request.options, model=weights, progress=progress, hints=hints)
        acceptance, agreement, heard = _denoise(
            reader, write, observer, request, options, frame, trimmer
        )
        loudness = normalizer.finish() if normalizer else None
        scores = observer.finish()
    seconds = time.perf_counter() - started
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
        "seconds": seconds,
        "real_time_factor": seconds / reader.duration,
        "acceptance": acceptance,
        "agreement": agreement and agreement.facts(),
        "scores": scores,
        "kept": trimmer and [trimmer.first / reader.rate, trimmer.last / reader.rate],
        "loudness": loudness,
        **_about_run(weights, request),
        "cut": None if finish_requested() else reader.cut,
        "note": _notes(reader, target, writer, weights, request, loudness, trimmer, heard),
    }


def _open_input(source: str, request: Request) -> AbstractContextManager[Recording]:
    most, track = request.options.max_channels, request.track
    if source != STREAM:
        return open_reader(source, max_channels=most, track=track)
    whole = request.whole or bool(request.noise_from)
    return open_binary(sys.stdin.buffer, whole=whole, max_channels=most, track=track)


def _weights(rate: int, request: Request) -> Weights:
    """Return the models for a sampling rate in Hz, with the networks that the settings use."""
    options, settings = request.options, request.options.settings
    if options.latency == "low":
        return find_online(rate, options.model, refine=settings.refine)
    names = (request.refiner, request.second_stage) if settings.refine else ("none", "none")
    refiner, second_stage = names
    echo = settings.dereverb > 0
    return find(rate, options.model, refiner=refiner, second_stage=second_stage, dereverb=echo)


def _hints(reader: Recording, request: Request, frame: Frame) -> Hints | None:
    """Return the request's hints, with times from the start of denoising, or None."""
    ranges = request.noise_from, ()
    hints = hints_of(reader.blocks(), reader.rate, reader.duration, ranges, reader.name)
    if hints is None or request.part is None:
        return hints
    return hints.without_start(first_sample(request.part, reader.rate, frame) / reader.rate)


def _input(job: Job) -> str | int:
    """Return the input's path; for standard input, its descriptor, or the null device's path."""
    if job.source != STREAM:
        return job.source
    try:
        return sys.stdin.fileno()
    except (OSError, ValueError):
        return os.devnull


def _check_renamed(job: Job, target: Destination) -> None:
    """Raise an AlphaMFError if an output whose name changed would replace a file."""
    if target.path != job.output and would_overwrite(target.path):
        raise AlphaMFError(
            f"{printable_name(target.path)}, the output for {printable_name(job.source)}, already "
            "exists; its name was known only after reading the input; use `output` to choose "
            "another"
        )


def _check_trim(reader: Recording, target: Destination, request: Request) -> None:
    """Raise an AlphaMFError if trimming could shift the sound against other tracks or chapters."""
    if request.trim and reader.track is not None and formats.get(target.format).muxer:
        raise AlphaMFError(
            f"`trim_silence` would shift the sound of {reader.name} against its other "
            "tracks and chapters; use `output` with an audio file such as clean.wav or clean.flac"
        )


def _open_output(
    job: Job, target: Destination, reader: Recording, mode: int, request: Request
) -> AbstractContextManager[Writer]:
    history = f"denoised by alphamf {version('alphamf')}" if request.tag else None
    return open_writer(
        sys.stdout.buffer if target.path == STREAM else target.path,
        reader.rate,
        reader.channels,
        format=target.format,
        subtype=target.subtype,
        gain=target.gain,
        mode=mode,
        original=reader,
        history=history,
        within=job.link_root,
        replace=request.overwrite and target.path == job.output,
    )


def _progress(job: Job, update: Update | None, reader: Recording) -> Callable[[float], None]:
    duration = reader.duration or math.inf  # unknown for a pipe

    def progress(seconds: float) -> None:
        leave_if_stopped()
        if update is not None:
            update(printable_name(job.source), seconds, duration)

    return progress


def _denoise(
    reader: Recording,
    write: Callable[[Samples], None],
    observer: Observer,
    request: Request,
    options: StreamOptions,
    frame: Frame,
    trimmer: Trimmer | None,
) -> tuple[list[float], Agreement | None, list[str]]:
    """Write the denoised sound; return mean acceptance rates, agreement, and notes."""
    notes: list[str] = []

    def denoised(blocks: Iterable[Samples]) -> Iterator[Segment]:
        return request.estimate(blocks, reader.rate, options)

    unchanged = options.settings.dry == 1
    blocks = observer.watch(reader.blocks(exact=unchanged or request.part is not None))
    if unchanged:
        segments = copied(blocks, denoised)
    elif request.part is None:
        segments = denoised(blocks)
    else:
        segments = denoise_part(blocks, reader, request.part, frame, denoised)
    acceptance, samples = [], []
    agreement: Agreement | None = None
    for segment in segments:
        for block in trimmer.add(segment) if trimmer else [segment.audio]:
            write(block)
        observer.add(segment)
        agreement = sum_agreements([agreement, segment.agreement])
        notes += [segment.note] if segment.note else []
        if segment.acceptance:
            acceptance.append(segment.acceptance)
            samples.append(len(segment.audio))
    for block in trimmer.finish() if trimmer else []:
        write(block)
    mean: list[float] = np.average(acceptance, axis=0, weights=samples).tolist()
    return mean, agreement, notes


def _notes(
    reader: Recording,
    target: Destination,
    writer: Writer,
    weights: Weights,
    request: Request,
    loudness: dict[str, float] | None,
    trimmer: Trimmer | None,
    of_segments: list[str],
) -> str | None:
    """Return what the user should know about the result, as one text, or None."""
    omitted = ", ".join(writer.omitted_tracks)
    notes = [
        reader.cut,
        reader.note,
        target.note,
        omitted and f"{target.format} cannot hold {omitted}",
        writer.lost,
        narrow_recording_note(weights, reader.rate),
        missing_refiner_note(weights, request.refiner)
        if request.options.settings.refine and request.options.latency != "low"
        else None,
        *of_segments,
    ]
    if loudness is not None:
        levels = "loudness {before:.1f} -> {after:.1f} LUFS, true peak {true_peak_db:.1f} dB"
        notes.append(levels.format(**loudness))
    elif request.loudness is not None:
        notes.append("too short or too quiet to measure its loudness; it was left unchanged")
    if trimmer is not None and trimmer.found:
        first, last = trimmer.first / reader.rate, trimmer.last / reader.rate
        notes.append(f"{first:.2f} s to {last:.2f} s were kept")
    elif trimmer is not None:
        notes.append("no speech was found, so nothing was trimmed")
    return "; ".join(filter(None, notes)) or None
