"""``alphamf models``: the dictionaries in the package."""

from __future__ import annotations

import typer

from alphamf.cli import report
from alphamf.cli.info import describe


def models() -> None:
    """List the speech models that come with alphamf."""
    from alphamf.learnt import dictionary, network_file

    with report.user_errors():
        for name, path in dictionary.shipped().items():
            kilobytes = path.stat().st_size // 1024
            typer.echo(f"{name:18}{describe(dictionary.load(name)):48}{kilobytes:6} kB")
        for name, path in network_file.shipped().items():
            kilobytes = path.stat().st_size // 1024
            found = network_file.TrainedNetwork.load(path)
            window = f"{1000 * found.frame.n_fft / found.rate:g} ms"
            about = f"{found.rate} Hz, network for windows of {window}"
            typer.echo(f"{name:18}{about:48}{kilobytes:6} kB")
