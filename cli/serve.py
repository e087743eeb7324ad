"""``alphamf serve``: serve a web page for denoising."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from alphamf.cli import report
from alphamf.cli.options import RUN, NoSandbox, Quiet, check_least, option
from alphamf.errors import AlphaMFError
from alphamf.tools.extras import install_extra

NETWORK = "Network"


def serve(
    port: Annotated[
        int, option(NETWORK, "Port to listen on.", metavar="N", show_default="a free one")
    ] = 0,
    no_browser: Annotated[bool, option(NETWORK, "Do not open a browser.", "--no-browser")] = False,
    host: Annotated[
        str,
        option(
            NETWORK,
            "Address to listen on. For other machines, give --name, and either --public "
            "or a token in the environment variable ALPHAMF_TOKEN.",
            metavar="ADDRESS",
        ),
    ] = "127.0.0.1",
    name: Annotated[
        list[str] | None,
        option(
            NETWORK,
            "Host name by which browsers elsewhere reach the server; can be repeated.",
            metavar="HOST",
        ),
    ] = None,
    public: Annotated[
        bool,
        option(
            NETWORK,
            "Let everybody in without a token. Limits: 100 MB and 10 minutes of stereo at 48 kHz "
            "per file, 10 uploads per minute and visitor. File names are not kept; files are "
            "deleted after 15 minutes.",
            "--public",
        ),
    ] = False,
    max_size: Annotated[int, option(RUN, "Maximum size of a file, in MB.", metavar="MB")] = 1000,
    jobs: Annotated[
        int | None,
        option(
            RUN, "Number of files to denoise in parallel.", metavar="N", show_default="one per core"
        ),
    ] = None,
    no_sandbox: NoSandbox = False,
    quiet: Quiet = False,
) -> None:
    """Denoise recordings in the browser, on a web page served by this machine.

    Unless --host is given, recordings do not leave this machine: the page talks only to this
    command, which accepts only local connections. Ctrl-C stops it; it leaves no files behind.
    """
    with report.user_errors():
        if not 0 <= port <= 65535:
            raise AlphaMFError(f"--port must be from 0 to 65535, not {port}")
        check_least("--max-size", max_size, 1)
        check_least("--jobs", jobs, 1)
        try:
            from alphamf.serving.limits import MB, PUBLIC, Limits
            from alphamf.serving.server import Serving, serve
        except ModuleNotFoundError as error:
            raise AlphaMFError(
                f"the web page needs {error.name}; install it with {install_extra('web')}"
            ) from error
        from alphamf.tools.pool import cores

        limits = PUBLIC if public else Limits(upload=max_size * MB)
        serving = Serving(
            host=host,
            port=port,
            names=name or [],
            jobs=jobs or cores(),
            limits=replace(limits, upload=min(limits.upload, max_size * MB)),
            public=public,
        )

        def ready(page: str, entrance: Path) -> None:
            # Browsers in a sandbox (snap, Flatpak) or beyond WSL cannot read the file.
            otherwise = "Open" if no_browser else "If the browser does not show the page, open"
            if not quiet:
                typer.echo(f"{otherwise} {page}\nPress Ctrl-C to stop it.", err=True)
            if not no_browser:
                import webbrowser
                from threading import Thread

                # Python waits for some browsers, which wait for the server.
                Thread(target=webbrowser.open, args=[entrance.as_uri()], daemon=True).start()

        serve(serving, ready)
