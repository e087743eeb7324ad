"""``alphamf benchmark``: how fast this machine is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from alphamf.cli import report
from alphamf.cli.options import Device, check_least, json_option
from alphamf.errors import AlphaMFError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alphamf.research.speed.measure import Denoiser, Step
    from alphamf.research.speed.parallel import Cores


def benchmark(
    rounds: Annotated[
        int, typer.Option(metavar="N", help="Measurements of each, whose median is printed.")
    ] = 15,
    device: Annotated[Device, typer.Option(help="Where the sampling runs.")] = Device.cpu,
    as_json: Annotated[bool, json_option("row")] = False,
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
                "alphamf benchmark measures the compiled loops, which could not be built when "
                "alphamf was installed: install it again where there is a C compiler"
            )
        from alphamf.research.speed import measure as speed
        from alphamf.research.speed import parallel

        parts = [
            ("steps", step_rows(speed.steps(rounds, device.value))),
            ("denoisers", denoiser_rows(speed.denoisers(max(1, rounds // 5), device.value))),
        ]
        if device is Device.cpu:
            parts.append(("cores", core_rows(parallel.cores(max(1, rounds // 5)))))
        for name, rows in parts:
            _print(name, rows, as_json=as_json)


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


def core_rows(found: Iterator[Cores]) -> Iterator[dict[str, str | float]]:
    """Yield the times on one core and on all as rows of a table."""
    for row in found:
        yield {
            "sound": row.sound,
            "files": row.files,
            "seconds": row.seconds,
            "one core s": round(row.one, 1),
            f"{row.cores} cores s": round(row.all, 1),
            "times as fast": round(row.faster, 2),
        }


def _print(name: str, rows: Iterator[dict[str, str | float]], *, as_json: bool) -> None:
    """Print a table; as JSON, each row as soon as it is measured."""
    from alphamf.tools import tables

    if as_json:
        for row in rows:
            report.json_line({"table": name, **row})
        return
    found = list(rows)
    typer.echo(tables.markdown(list(found[0]), [[str(v) for v in row.values()] for row in found]))
    typer.echo()
