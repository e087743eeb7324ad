"""Denoise the files of a plan and say what became of each."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import typer

from alphamf.cli import pool, report
from alphamf.cli.work import Request, process
from alphamf.files import shown
from alphamf.inputs import STREAM, Job, Plan


def run(files: Plan, request: Request, *, workers: int | None, as_json: bool, quiet: bool) -> int:
    """Do all jobs, report them and the problems, and return the exit code."""
    codes = {0}
    for problem in files.problems:
        _report_error(problem.source, problem.sentence, as_json=as_json)
        codes.add(2)
    # Standard output holds either audio, or JSON, or sentences.
    to_stderr = any(job.output == STREAM for job in files.jobs)
    with report.progress(quiet) as update:
        for outcome in pool.each(
            partial(process, request=request),
            files.jobs,
            workers=_workers(files.jobs, request.device, workers),
            update=update,
        ):
            source = outcome.item.source
            codes.add(outcome.code)
            if update:
                update(shown(source), 1.0, 1.0)
            if outcome.error is not None:
                _report_error(source, outcome.error, as_json=as_json)
                if outcome.details:
                    typer.echo(outcome.details, err=True, nl=False)
            elif as_json:
                report.json_line(outcome.result)
            elif not quiet:
                typer.echo(_sentences(outcome.result), err=to_stderr)
    return 1 if 1 in codes else max(codes)


def _workers(jobs: list[Job], device: str, wanted: int | None) -> int:
    """Return how many processes to use: only this one has standard input, or a GPU to itself."""
    if any(STREAM in (job.source, job.output) for job in jobs):
        return 1
    return wanted or (pool.cores() if device == "cpu" else 1)


def _report_error(source: str, sentence: str, *, as_json: bool) -> None:
    name = shown(source)
    if name not in sentence and source != STREAM:
        sentence = f"{name}: {sentence}"
    if as_json:
        report.json_line({"file": source, "error": sentence})
    typer.echo(f"Error: {sentence}", err=True)


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
