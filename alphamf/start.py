"""The console script."""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command line; a Ctrl-C while it is being imported ends it without a traceback."""
    interrupt = signal.getsignal(signal.SIGINT)
    if interrupt is signal.default_int_handler:  # and not ignored, as in the background
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from alphamf.cli import main as run

    signal.signal(signal.SIGINT, interrupt)
    run()
