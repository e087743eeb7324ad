"""``alphamf benchmark``: how fast this machine is."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from alphamf.cli import report
from alphamf.cli.denoise import Device
from alphamf.cli.options import check_least
from alphamf.errors import AlphaMFError
from alphamf.tools import pool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alphamf.research.speed import Denoiser, Step


def benchmark(
    rounds: Annotated[
        int, typer.Option(metavar="N", help="Measurements, whose median is told.")
    ] = 15,
    device: Annotated[Device, typer.Option(help="Where the sampling runs.")] = Device.cpu,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a row.")] = False,
) -> None:
    """Measure the samplers and presets on this machine, against plain NumPy and its limits.

    Ratios, taken in one run, hold on a busy machine too; times only on a quiet one.
    """
    with report.user_errors(as_json=as_json):
        check_least("--rounds", rounds, 1)
        from alphamf.factorization import compiled
        from alphamf.tools.arrays import module

        module(device.value)
        if not compiled.AVAILABLE:
            raise AlphaMFError(
                "alphamf benchmark is about the compiled loops, which could not be built when "
                "alphamf was installed: install it again where there is a C compiler"
            )
        from alphamf.research import speed

        parts = [
            ("steps", step_rows(speed.steps(rounds, device.value))),
            ("denoisers", denoiser_rows(speed.denoisers(max(1, rounds // 5), device.value))),
        ]
        if device is Device.cpu:
            parts.append(("cores", core_rows(max(1, rounds // 5))))
        for name, rows in parts:
            _tell(name, rows, as_json=as_json)


def step_rows(steps: Iterator[Step]) -> Iterator[dict[str, str | float]]:
    """Yield the steps as rows of a table."""
    for step in steps:
        yield {
            "sampler": step.sampler,
            "cells": step.cells,
            "ms a step": round(step.alphamf, 3),
            "plain NumPy ms": round(step.naive, 2),
            "floor ms": round(step.floor, 3),
            "times as fast as plain": round(step.faster, 1),
            "times the floor": round(step.above, 2),
        }


def denoiser_rows(denoisers: Iterator[Denoiser]) -> Iterator[dict[str, str | float]]:
    """Yield the denoisers as rows of a table."""
    for denoiser in denoisers:
        yield {
            "preset": denoiser.name,
            "Hz": denoiser.rate,
            "clip s": round(denoiser.seconds, 2),
            "of real time": round(denoiser.real_time, 3),
        }


def core_rows(rounds: int) -> Iterator[dict[str, str | float]]:
    """Denoise a folder and a long recording with ``fast``, on one core and on all, in turn."""
    import numpy as np
    import soundfile

    from alphamf.audio.inputs import plan
    from alphamf.denoising.file import Request, process
    from alphamf.denoising.settings import PRESETS
    from alphamf.evaluation.observers import Observers
    from alphamf.research.speed import made_up_sound

    cores = pool.cores()
    for name, lengths in (("a folder of clips", range(10, 26)), ("one recording", [280])):
        with TemporaryDirectory() as folder:
            for k, seconds in enumerate(lengths):
                soundfile.write(Path(folder, f"{k}.wav"), made_up_sound(seconds, 16000), 16000)
            output = str(Path(folder, "out"))
            jobs = plan([folder], output=None, output_dir=output, overwrite=True).jobs
            times = []
            for _ in range(rounds):
                for count in (1, cores):
                    threads = max(1, count // len(jobs))
                    request = Request(PRESETS["fast"], Observers, overwrite=True, jobs=threads)
                    start = perf_counter()
                    work = partial(process, request=request)
                    list(pool.each(work, jobs, workers=count, update=None))
                    times.append(perf_counter() - start)
        single, together = np.array(times).reshape(rounds, 2).T
        yield {
            "sound": name,
            "files": len(jobs),
            "seconds": sum(lengths),
            "one core s": round(float(np.median(single)), 1),
            f"{cores} cores s": round(float(np.median(together)), 1),
            "times as fast": round(float(np.median(single / together)), 2),
        }


def _tell(name: str, rows: Iterator[dict[str, str | float]], *, as_json: bool) -> None:
    from alphamf.tools import tables

    if as_json:
        for row in rows:
            report.json_line({"table": name, **row})
        return
    told = list(rows)
    typer.echo(tables.markdown(list(told[0]), [[str(v) for v in row.values()] for row in told]))
    typer.echo()
