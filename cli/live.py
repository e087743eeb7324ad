"""``alphamf live``: denoise a microphone, and play it on headphones or a virtual cable."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alphamf.batch.inputs import parse_share
from alphamf.cli import report
from alphamf.cli.options import Quiet, check_least, option
from alphamf.errors import AlphaMFError

if TYPE_CHECKING:
    from alphamf.live.devices import Line
    from alphamf.live.duplex import LostSound
    from alphamf.live.monitor import Monitor, MonitorThread, RecordingPaths


@contextmanager
def read_keys() -> Iterator[Callable[[], str] | None]:
    """Yield a function that returns the keys pressed since its last call.

    Yield None if standard input is not a terminal, or if this process is in the background.
    """
    if sys.stdin is None or not sys.stdin.isatty():
        yield None
    elif sys.platform == "win32":
        yield _of_windows
    else:
        with _of_posix() as read:
            yield read


def _of_windows() -> str:
    import msvcrt

    found = ""
    while msvcrt.kbhit():  # type: ignore[attr-defined, unused-ignore]
        found += msvcrt.getwch()  # type: ignore[attr-defined, unused-ignore]
    return found


@contextmanager
def _of_posix() -> Iterator[Callable[[], str] | None]:
    if sys.platform == "win32":
        raise NotImplementedError
    import os
    import select
    import termios
    import tty

    number = sys.stdin.fileno()
    with suppress(OSError):  # another terminal than that of the session
        if os.tcgetpgrp(number) != os.getpgrp():  # changing it would stop this process
            yield None
            return

    def read() -> str:
        found = b""
        while select.select([number], [], [], 0)[0] and (data := os.read(number, 64)):
            found += data
        return found.decode(errors="ignore")

    before = termios.tcgetattr(number)
    tty.setcbreak(number)
    try:
        yield read
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


EVERY = 5.0
"""Time in seconds between two lines of output, if standard output is not a terminal."""

LOWEST = -70.0
"""Level in dB at or below which the bar of a level is empty."""

KEYS = "+ and - strength   b bypass   q quit"


def lost_words(lost: LostSound) -> str:
    """Describe in words how often sound has been lost so far."""
    return (
        f"xruns {lost.overflows} in, {lost.underflows} out; "
        f"late {lost.gaps} gaps, {lost.dropped} dropped"
    )


def strength_words(monitor: Monitor) -> str:
    """Describe in words how strongly the sound is denoised."""
    return "bypass" if monitor.bypass else f"strength {monitor.strength:.1f}"


def line(monitor: Monitor, lost: LostSound) -> str:
    """Format the state of a live session as one line."""
    levels = monitor.levels
    return (
        f"{monitor.seconds:.0f} s: input {levels.input:.1f} dB, output {levels.output:.1f} dB, "
        f"noise {levels.noise:.1f} dB, reduction {levels.reduction:.1f} dB, "
        f"{strength_words(monitor)}, {lost_words(lost)}"
        f"{f'; {monitor.note}' if monitor.note else ''}"
    )


def panel(monitor: Monitor, lost: LostSound, *, keys: bool) -> Any:
    """Format the state of a live session as bars, for rich."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    levels = monitor.levels
    grid = Table.grid(padding=(0, 1))
    rows = [(name, value, value - LOWEST) for name, value in levels._asdict().items()]
    rows.append(("reduction", levels.reduction, levels.reduction))
    for name, value, filled in rows:
        total = -LOWEST if name != "reduction" else 40.0
        bar = ProgressBar(total, min(max(filled, 0.0), total), width=40, finished_style="red")
        grid.add_row(name, bar, f"{value:6.1f} dB")
    seconds = int(monitor.seconds)
    clock = f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    lines = [Text(f"{clock}   {strength_words(monitor)}   {lost_words(lost)}")]
    lines += [Text(monitor.note)] if monitor.note else []
    return Group(grid, *lines, *([Text(KEYS, style="dim")] if keys else []))


@contextmanager
def live_display(
    monitor: Monitor, lost: LostSound, *, quiet: bool, keys: bool
) -> Iterator[Callable[[], None]]:
    """Yield a function to call often, which shows the state on standard output unless `quiet`."""
    if quiet:
        yield lambda: None
    elif sys.stdout.isatty():
        from rich.live import Live

        with Live(panel(monitor, lost, keys=keys), auto_refresh=False, transient=True) as live:
            yield lambda: live.update(panel(monitor, lost, keys=keys), refresh=True)
    else:
        last = [time.monotonic()]

        def now() -> None:
            if time.monotonic() - last[0] >= EVERY:
                last[0] = time.monotonic()
                typer.echo(line(monitor, lost))

        yield now


DEVICES = "Devices"

TICK = 0.1
"""Time between checks of keys, devices and levels, in seconds."""

DEFAULTS = {"--channels": 1, "--buffer": 40}
"""Defaults, other than None, of options that cannot be combined with ``--virtual-mic``."""

STEP = 0.1
"""Change of the strength per key press; the strength is from 0 to 1."""


def live(
    input: Annotated[
        str | None,
        option(
            DEVICES,
            "Microphone: its number, or a part of its name.",
            metavar="DEVICE",
            show_default="the system's",
        ),
    ] = None,
    output: Annotated[
        str | None,
        option(
            DEVICES,
            "Headphones or virtual cable: its number, or a part of its name.",
            metavar="DEVICE",
            show_default="the system's",
        ),
    ] = None,
    list_devices: Annotated[
        bool, option(DEVICES, "List the devices and exit.", "--list-devices")
    ] = False,
    rate: Annotated[
        int | None,
        option(
            DEVICES,
            "Sampling rate in Hz; if a device does not support it, another rate is used.",
            metavar="HZ",
            show_default="the input's own",
        ),
    ] = None,
    channels: Annotated[int, option(DEVICES, "Number of input channels.", metavar="N")] = DEFAULTS[
        "--channels"
    ],
    buffer: Annotated[
        int,
        option(
            DEVICES, "Latency to request from each device; use more if sound is lost.", metavar="MS"
        ),
    ] = DEFAULTS["--buffer"],
    strength: Annotated[
        str,
        typer.Option(
            metavar="SHARE",
            help="How much of the denoising to apply: 0 (none) to 1 (all), or 0% to 100%.",
        ),
    ] = "1",
    record: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER|FILE",
            help="Record the sound before and after denoising: as talk.wav and talk.denoised.wav "
            "if talk.wav is given; in a folder, the names of both files contain the date and time.",
        ),
    ] = None,
    virtual_mic: Annotated[
        bool,
        typer.Option(
            "--virtual-mic",
            help="Add a microphone to PipeWire (Linux) that has the denoised sound of the "
            "system's microphone, until Ctrl-C.",
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Denoise a microphone in real time, for headphones or calls, with a delay of about 0.15 s.

    Keys: + and - change the strength, b plays the unprocessed input, q or Ctrl-C quits. Needs the
    extra `live`, except for --virtual-mic, which has no keys. docs/live.md explains calls and OBS.
    """
    with report.user_errors():
        if list_devices:
            _list()
            return
        share = parse_share("--strength", strength)
        if virtual_mic:
            given = {"--input": input, "--output": output, "--rate": rate, "--record": record}
            given |= {"--channels": channels, "--buffer": buffer}
            others = [name for name in given if given[name] not in (None, DEFAULTS.get(name))]
            _virtual_microphone(others, share, quiet=quiet)
            return
        check_least("--channels", channels, 1)
        if not 5 <= buffer <= 1000:
            raise AlphaMFError(f"--buffer must be from 5 to 1000 ms, not {buffer}")
        with report.suppress_stderr():  # ALSA and PortAudio tell more than anybody asked
            from alphamf.live.devices import choose_lines, find
            from alphamf.live.monitor import names

            source, target = find(input, "input"), find(output, "output")
            lines = choose_lines(source, target, channels, rate)
            files = names(record) if record is not None else None
            if not quiet and rate not in (None, lines[0].rate):
                typer.echo(
                    f"The devices do not support {rate} Hz; using {lines[0].rate} Hz instead"
                )
            _run(lines, channels, buffer / 1000, share, files, quiet=quiet)


def _virtual_microphone(given: list[str], strength: float, *, quiet: bool) -> None:
    """Run a virtual microphone until Ctrl-C; refuse the options whose names are in `given`."""
    from alphamf.cli.plugin import plugin_file
    from alphamf.live.devices import NAME, run_virtual_microphone

    if given:
        raise AlphaMFError(
            f"{given[0]} cannot be combined with --virtual-mic, which uses the system's microphone"
        )

    def ready() -> None:
        if not quiet:
            typer.echo(f'Choose "{NAME}" in the call; Ctrl-C takes it away')

    with suppress(KeyboardInterrupt):
        run_virtual_microphone(plugin_file(), strength, ready)


def _list() -> None:
    from alphamf.live.devices import default_device, devices

    found = devices()
    if not found:
        raise AlphaMFError("no audio devices were found")
    system = default_device("input"), default_device("output")
    rows = [
        [f"{d.number}", d.name, d.api, f"{d.inputs}", f"{d.outputs}", f"{d.rate}",
         " and ".join(k for k, n in zip(("input", "output"), system, strict=True) if n == d.number)]
        for d in found
    ]  # fmt: skip
    report.table(["number", "name", "interface", "in", "out", "Hz", "default"], rows)


def _run(
    lines: tuple[Line, Line],
    channels: int,
    buffer: float,
    strength: float,
    files: RecordingPaths | None,
    *,
    quiet: bool,
) -> None:
    """Denoise until q or Ctrl-C; unless `quiet`, print first the latency, last the lost sound."""
    from alphamf.denoising.stream import Stream
    from alphamf.live.duplex import Duplex
    from alphamf.live.monitor import Monitor, MonitorThread, Take

    source, target = lines
    with ExitStack() as stack:
        stream = stack.enter_context(Stream(source.rate, channels, latency="low"))
        take = stack.enter_context(Take(files, source.rate, channels)) if files else None
        monitor = Monitor(stream, strength, take)
        duplex = stack.enter_context(Duplex(source, target, channels, buffer))
        first, waiting, last = (round(1000 * each) for each in duplex.latencies)
        held = round(1000 * stream.latency)
        if not quiet:
            typer.echo(
                f"{source.device.name} to {target.device.name}, {source.rate} Hz, {channels} "
                f"channel{'s' * (channels > 1)}\nLatency {first} ms input + {held} ms denoiser "
                f"+ {waiting} ms buffer + {last} ms output = {first + held + waiting + last} ms"
            )
        running = stack.enter_context(MonitorThread(monitor, duplex))
        with suppress(KeyboardInterrupt):
            _watch(running, monitor, duplex.lost, quiet=quiet)
    if not quiet:
        typer.echo(f"{monitor.seconds:.1f} s denoised; {lost_words(duplex.lost)}")
        if files:
            typer.echo(f"Recorded in {files.before} and {files.after}")


def _watch(running: MonitorThread, monitor: Monitor, lost: LostSound, *, quiet: bool) -> None:
    """Show levels, unless `quiet`, and act on key presses until the user presses q."""
    with read_keys() as pressed, live_display(
        monitor, lost, quiet=quiet, keys=pressed is not None
    ) as show:  # fmt: skip
        while handle_keys(pressed() if pressed else "", monitor):
            time.sleep(TICK)
            running.check()
            show()


def handle_keys(pressed: str, monitor: Monitor) -> bool:
    """Act on key presses, and return whether to continue."""
    for key in pressed:
        if key in "+=-":
            step = -STEP if key == "-" else STEP
            monitor.strength = round(min(1.0, max(0.0, monitor.strength + step)), 9)
        monitor.bypass ^= key == "b"
    return "q" not in pressed
