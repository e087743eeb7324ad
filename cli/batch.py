"""Denoise the files of a plan, and report the result of each."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from alphamf.audio.decoder import sandbox
from alphamf.audio.search import describe_skipped
from alphamf.batch.inputs import STREAM, Job, Plan
from alphamf.cli import report
from alphamf.cli.options import choose_each
from alphamf.tools import pool
from alphamf.tools.files import printable_name, system_errors
from alphamf.tools.outcomes import Outcome

if TYPE_CHECKING:
    from alphamf.batch.request import Request
    from alphamf.denoising.stream_options import StreamOptions

COMPRESSION = {".flac": 2.0, ".mp3": 10.0, ".oga": 10.0, ".ogg": 10.0, ".opus": 15.0}
"""Approximate compression ratio relative to 16-bit samples, by suffix; 1 for other formats."""

DISAGREEMENT_DB = 1.0
"""Difference between the outputs of chains, in dB, above which a warning is printed."""

SEGMENTS = 16
"""Default number of segments per batch on a GPU; in mono, they need about 1 GB of its memory."""


def run(
    files: Plan,
    request: Request,
    *,
    workers: int | None,
    cluster: str | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Process all jobs, print results and errors, and return the exit code."""
    from alphamf.batch.file import process

    codes = {0}
    for problem in files.problems:
        report.error(problem.source, problem.sentence, as_json=as_json)
        codes.add(2)
    if files.results and not quiet:
        _note_skipped(len(files.results), _RESULTS)
    if files.jobs and files.passed and not quiet:
        typer.echo(f"Note: {describe_skipped(files.passed)}", err=True)
    options = request.options
    isolated = not _stays_here(files.jobs, options.device)
    each = choose_each(cluster, quiet=quiet, isolated=isolated)
    if cluster is None:  # a cluster's scheduler has an order of its own
        each = partial(each, size=_size)
    processes = _workers(files.jobs, options.device, workers)
    if cluster is None and options.latency != "low":  # spare cores process segments
        segments = _segments(files.jobs, options.device, workers)
        request = replace(request, options=replace(options, jobs=segments))
    # Standard output holds either audio, or JSON, or sentences.
    to_stderr = any(job.output == STREAM for job in files.jobs)
    skipped = done = 0
    started = time.perf_counter()
    again = "The same command continues with the files that are left."
    continues = any(job.searched for job in files.jobs) and not request.overwrite
    with (
        report.continued_later(quiet=quiet or not continues, sentence=again),
        report.progress(quiet, items=len(files.jobs)) as update,
    ):
        work = partial(process, request=request)
        for outcome in each(work, files.jobs, workers=processes, update=update):
            if update:
                update(printable_name(outcome.item.source), 1.0, 1.0)
            codes.add(outcome.code)
            if outcome.error is None and outcome.result.get("cut"):  # the first part was denoised
                codes.add(2)
            skipped += outcome.error is None and "skipped" in outcome.result
            done += outcome.error is None and "skipped" not in outcome.result
            _report(outcome, None if quiet else _sentences, as_json=as_json, to_stderr=to_stderr)
    if skipped and not quiet:
        _note_skipped(skipped, _EXISTING)
    total = len(files.jobs) + len(files.problems)
    if total > 1 and skipped < total and not quiet:
        seconds = time.perf_counter() - started
        typer.echo(f"{done} of {total} files denoised in {seconds:.1f} s", err=True)
    return 1 if 1 in codes else max(codes)


_RESULTS = (
    "denoised file of another input (to denoise it again, name it explicitly)",
    "denoised files of other inputs (to denoise one of them again, name it explicitly)",
)
_EXISTING = (
    "output that already exists (use --overwrite to replace it)",
    "outputs that already exist (use --overwrite to replace them)",
)


def _note_skipped(count: int, words: tuple[str, str]) -> None:
    """Print a note that says how many files were skipped, in the singular or the plural."""
    typer.echo(f"Note: skipped {count} {words[count > 1]}", err=True)


def _report(
    outcome: Outcome,
    text: Callable[[Mapping[str, Any]], str] | None,
    *,
    as_json: bool,
    to_stderr: bool,
) -> None:
    """Print the result of a file as JSON or as the text that `text` returns, or its error."""
    if outcome.error is not None:
        report.error(outcome.item.source, outcome.error, as_json=as_json)
        if outcome.details:
            report.say(outcome.details.rstrip("\n"), err=True)
    elif as_json:
        report.json_line(outcome.result)
    elif text is not None and "skipped" not in outcome.result:
        report.say(text(outcome.result), err=to_stderr)


def preload(files: Plan, *, device: str, workers: int | None, cluster: str | None) -> None:
    """Start early, unless on a cluster, the process that forks workers or the decoder's helper."""
    if cluster is not None:
        return
    if min(len(files.jobs), _workers(files.jobs, device, workers)) > 1:
        from alphamf.tools import processes

        processes.preload("alphamf.batch.preload")
    else:
        sandbox.prepare()


def _size(job: Job) -> float:
    """Return a file's rough length: bytes times its format's compression ratio; 0 if unreadable."""
    suffix = os.path.splitext(job.source)[1].lower()
    try:
        return os.path.getsize(job.source) * COMPRESSION.get(suffix, 1.0)
    except OSError:
        return 0.0


def _workers(jobs: list[Job], device: str, wanted: int | None) -> int:
    """Return the number of worker processes: 1, `wanted`, or the number of cores."""
    return 1 if _stays_here(jobs, device) else wanted or pool.cores()


def _stays_here(jobs: list[Job], device: str) -> bool:
    """Return whether this process works itself: for standard streams, or if not on ``cpu``."""
    return device != "cpu" or any(STREAM in (job.source, job.output) for job in jobs)


def _segments(jobs: list[Job], device: str, wanted: int | None) -> int:
    """Return how many segments of a file to process in parallel, or as one batch on a GPU."""
    if device != "cpu":
        return wanted or SEGMENTS
    return max(1, (wanted or pool.cores()) // max(1, len(jobs)))


def _sentences(result: Mapping[str, Any]) -> str:
    """Format the result of a file as text of one or more lines."""
    lines = [
        (
            f"{printable_name(result['file'])} -> {printable_name(result['output'])}: "
            f"{result['duration']:.2f} s in {result['seconds']:.2f} s (real-time factor "
            f"{result['real_time_factor']:.2f})"
        )
    ]
    if result["agreement"]:
        lines.append(f"  {_agreement(result['agreement'])}")
    if result["note"]:
        lines.append(f"  {result['note']}")
    if result["clipped"]:
        lines.append(
            f"  {result['clipped']} samples above full scale were clipped, by up to "
            f"{result['clipped_by_db']:.1f} dB"
        )
    if result["scores"]:
        before, after = result["scores"]["before"], result["scores"]["after"]
        for name, key, form in (
            ("SI-SDR", "si_sdr", "{:.2f} dB"),
            ("SDR", "sdr", "{:.2f} dB"),
            ("STOI", "stoi", "{:.3f}"),
        ):
            texts = (
                "undefined" if value is None else form.format(value)
                for value in (before[key], after[key])
            )
            lines.append(f"  {name:7}{' -> '.join(texts)}")
    return "\n".join(lines)


def _agreement(found: Mapping[str, Any]) -> str:
    """Describe in one line how well the chains agree, and what to do if they do not."""
    chains, difference = found["chains"], found["difference_db"]
    if difference <= DISAGREEMENT_DB:
        return f"{chains} chains agree to {max(difference, 0.1):.1f} dB"
    return (
        f"Warning: {chains} chains differ by {difference:.1f} dB; use more --steps or "
        "more --chains for a more reliable result"
    )


def run_in_real_time(options: StreamOptions, raw: str | None, *, quiet: bool) -> None:
    """Denoise standard input to standard output in real time."""
    from alphamf.audio.live_input import raw_kind
    from alphamf.batch import pipes

    def write(data: bytes) -> None:
        with system_errors("cannot write standard output"):
            try:
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
            except BrokenPipeError as error:
                raise typer.Exit(1) from error

    with report.user_errors(), system_errors("cannot read standard input"):
        kind = raw_kind(raw) if raw is not None else None
        seconds, notes = pipes.run(sys.stdin.fileno(), write, options, kind)
    if not quiet:
        lines = [f"-: {seconds:.1f} s denoised in real time", *notes]
        typer.echo("\n  ".join(lines), err=True)
