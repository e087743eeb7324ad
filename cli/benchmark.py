"""``alphamf benchmark``: how fast this machine is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from alphamf.cli import report
from alphamf.cli.options import Device, check_least, json_option
from alphamf.errors import AlphaMFError

if TYPE_CHECKING:
    from collections.abc import Iterator


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
        from alphamf.research.speed import parallel, peers
        from alphamf.research.speed.rows import core_rows, denoiser_rows, peer_rows, step_rows

        parts = [
            ("steps", step_rows(speed.steps(rounds, device.value))),
            ("denoisers", denoiser_rows(speed.denoisers(max(1, rounds // 5), device.value))),
        ]
        if device is Device.cpu:
            parts.append(("peers", peer_rows(peers.peers(max(1, rounds // 5)))))
            parts.append(("cores", core_rows(parallel.cores(max(1, rounds // 5)))))
        for name, rows in parts:
            _print(name, rows, as_json=as_json)


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
