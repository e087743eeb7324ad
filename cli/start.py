"""The console script."""

from __future__ import annotations

import signal
import sys
from importlib import import_module


def main() -> None:
    """Run the command line; a Ctrl-C while it is being imported ends it without a traceback."""
    if "--deterministic" in sys.argv:
        from alphamf.cli.deterministic import begin

        begin()
    interrupt = signal.getsignal(signal.SIGINT)
    if interrupt is signal.default_int_handler:  # and not ignored, as in the background
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    cli = import_module("alphamf.cli.app")
    signal.signal(signal.SIGINT, interrupt)
    cli.main()
