"""Denoise the files of a plan and say what became of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from alphamf.audio.inputs import STREAM, Job, Plan
from alphamf.cli import report
from alphamf.cli.parallel import each_on
from alphamf.tools import pool
from alphamf.tools.files import shown

if TYPE_CHECKING:
    from alphamf.denoising.file import Request

SEGMENTS = 16
"""Segments that move together on a device: a gigabyte of its memory, for mono."""


def run(
    files: Plan,
    request: Request,
    *,
    workers: int | None,
    cluster: str | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Do all jobs, report them and the problems, and return the exit code."""
    from alphamf.denoising.file import process

    each = each_on(cluster, quiet=quiet)
    codes = {0}
    skipped = 0
    for problem in files.problems:
        report.error(problem.source, problem.sentence, as_json=as_json)
        codes.add(2)
    # Standard output holds either audio, or JSON, or sentences.
    to_stderr = any(job.output == STREAM for job in files.jobs)
    side_by_side = _workers(files.jobs, request.device, workers)
    if cluster is None:  # cores that no file needs go to the segments of the files
        request = replace(request, jobs=_segments(files.jobs, request.device, workers))
    with report.progress(quiet) as update:
        for outcome in each(
            partial(process, request=request),
            files.jobs,
            workers=side_by_side,
            update=update,
        ):
            source = outcome.item.source
            codes.add(outcome.code)
            if update:
                update(shown(source), 1.0, 1.0)
            if outcome.error is not None:
                report.error(source, outcome.error, as_json=as_json)
                if outcome.details:
                    typer.echo(outcome.details, err=True, nl=False)
                continue
            skipped += "skipped" in outcome.result
            if as_json:
                report.json_line(outcome.result)
            elif not (quiet or "skipped" in outcome.result):
                typer.echo(_sentences(outcome.result), err=to_stderr)
    if skipped and not quiet:
        sentence = f"outputs that exist already, left as they are: {skipped}"
        typer.echo(f"Note: {sentence} (--overwrite makes them anew)", err=True)
    return 1 if 1 in codes else max(codes)


def _workers(jobs: list[Job], device: str, wanted: int | None) -> int:
    """Return how many processes to use: only this one has standard input, or a GPU to itself."""
    if device != "cpu" or any(STREAM in (job.source, job.output) for job in jobs):
        return 1
    return wanted or pool.cores()


def _segments(jobs: list[Job], device: str, wanted: int | None) -> int:
    """Return how many segments of a file to do side by side; on a device they move together."""
    if device != "cpu":
        return wanted or SEGMENTS
    return max(1, (wanted or pool.cores()) // max(1, len(jobs)))


def _sentences(result: Mapping[str, Any]) -> str:
    acceptance = ", ".join(f"{share:.2f}" for share in result["acceptance"])
    lines = [
        f"{shown(result['file'])} -> {shown(result['output'])}: "
        f"{result['duration']:.2f} s in {result['seconds']:.2f} s "
        f"({result['real_time_factor']:.2f} of real time), acceptance {acceptance}"
    ]
    if result["note"]:
        lines.append(f"  {result['note']}")
    if result["clipped"]:
        lines.append(f"  {result['clipped']} samples beyond full scale were clipped")
    if result["scores"]:
        before, after = result["scores"]["before"], result["scores"]["after"]
        for name, key, form in (
            ("SI-SDR", "si_sdr", "{:.2f} dB"),
            ("SDR", "sdr", "{:.2f} dB"),
            ("STOI", "stoi", "{:.3f}"),
        ):
            texts = (
                "not to be had" if value is None else form.format(value)
                for value in (before[key], after[key])
            )
            lines.append(f"  {name:7}{' -> '.join(texts)}")
    return "\n".join(lines)
