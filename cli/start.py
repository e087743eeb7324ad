"""Entry point of the console script."""

import os
import signal
import sys
from importlib import import_module


def main() -> None:
    """Run the command line; Ctrl-C during imports ends it without a traceback."""
    if os.name == "posix" and sys.flags.ignore_environment and not sys.flags.safe_path:
        # Its helper processes would have the working directory on their path: see `keep_path_safe`.
        os.execv(sys.executable, [sys.executable, "-P", *sys.orig_argv[1:]])
    if "--deterministic" in sys.argv:
        from alphamf.cli.deterministic import restart_early

        restart_early()
    # No program comes from the working directory, which Windows searches first.
    os.environ["NoDefaultCurrentDirectoryInExePath"] = "1"
    interrupt = signal.getsignal(signal.SIGINT)
    if interrupt is signal.default_int_handler:  # and not ignored, as in the background
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    cli = import_module("alphamf.cli.app")
    signal.signal(signal.SIGINT, interrupt)
    cli.main()
