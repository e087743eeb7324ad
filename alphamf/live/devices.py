"""Microphones, headphones and virtual cables, through PortAudio: list, find and configure them."""

import ctypes
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

from alphamf.errors import AlphaMFError
from alphamf.tools.extras import install_extra
from alphamf.tools.files import printable_name, temporary_folder

Kind = Literal["input", "output"]

RATES = (48000, 44100)
"""Rates in Hz to try last, if the devices have none of the given and default rates in common."""


class Device(NamedTuple):
    """An audio device."""

    number: int  # PortAudio's number of the device
    # name, api: its name, and that of the system's interface that it is reached by.
    name: str
    api: str
    # inputs, outputs: maximum number of channels.
    inputs: int
    outputs: int
    rate: int  # Its default sampling rate in Hz

    def max_channels(self, kind: Kind) -> int:
        """Return the maximum number of input or output channels."""
        return self.inputs if kind == "input" else self.outputs


class Line(NamedTuple):
    """A device with the number of channels and the rate in Hz to open it with."""

    device: Device
    kind: Kind
    channels: int
    rate: int


def library() -> Any:
    """Return the module sounddevice; raise an AlphaMFError if it or PortAudio is not installed."""
    try:
        import sounddevice
    except ModuleNotFoundError as error:
        raise AlphaMFError(
            f"audio devices need {error.name}; install it with {install_extra('live')}"
        ) from error
    except OSError as error:
        raise AlphaMFError(
            "audio devices need the library PortAudio, which is not installed (on Debian "
            "and Ubuntu: apt install libportaudio2)"
        ) from error
    return sounddevice


def devices() -> list[Device]:
    """Return all audio devices of the system."""
    sounddevice = library()
    apis = [api["name"] for api in sounddevice.query_hostapis()]
    return [
        Device(
            number,
            str(found["name"]),
            apis[found["hostapi"]],
            found["max_input_channels"],
            found["max_output_channels"],
            round(found["default_samplerate"]),
        )
        for number, found in enumerate(sounddevice.query_devices())
    ]


def default_device(kind: Kind) -> int:
    """Return the number of the system's default device of a kind, or -1 if there is none."""
    return int(library().default.device[kind == "output"])


def find(wanted: str | None, kind: Kind) -> Device:
    """Find a device by its number or words of its name and API; None: the default or first one."""
    able = [device for device in devices() if device.max_channels(kind)]
    if wanted is None:
        number = default_device(kind)
        found = [device for device in able if device.number == number] or able[:1]
        if not found:
            raise AlphaMFError(f"no {kind} device was found")
    elif wanted.isdecimal():
        found = [device for device in able if device.number == int(wanted)]
    else:
        words = wanted.lower().replace(",", " ").split()
        found = [d for d in able if all(word in f"{d.name} {d.api}".lower() for word in words)]
        found = [device for device in found if device.name == wanted] or found
    if len(found) > 1:
        names = ", ".join(f"{d.number} ({d.name}, {d.api})" for d in found)
        raise AlphaMFError(f"{wanted!r} matches several {kind} devices {names}; give a number")
    if not found:
        raise AlphaMFError(f"there is no {kind} device {wanted!r}; use `list_devices` to list them")
    return found[0]


def choose_lines(
    source: Device, target: Device, channels: int, rate: int | None
) -> tuple[Line, Line]:
    """Choose a common rate for an input and an output, and return how to open both.

    `rate`: the first one to try, in Hz; None for the input's own.
    """
    if channels > source.inputs:
        noun = "channel" if source.inputs == 1 else "channels"
        raise AlphaMFError(
            f"the input {source.name} has only {source.inputs} {noun}, not {channels}"
        )
    refusals: list[str] = []
    for each in dict.fromkeys([rate or source.rate, source.rate, target.rate, *RATES]):
        first = _line(source, "input", channels, each, refusals)
        second = _line(target, "output", channels, each, refusals)
        if first and second:
            return first, second
    raise AlphaMFError(f"no sampling rate is supported by both devices: {'; '.join(refusals)}")


def _line(device: Device, kind: Kind, channels: int, rate: int, refusals: list[str]) -> Line | None:
    """Return how to open a device at a rate, or append the reason to `refusals` and return None."""
    sounddevice = library()
    check = getattr(sounddevice, f"check_{kind}_settings")
    why = ""
    for width in dict.fromkeys([channels, max(channels, 2), device.max_channels(kind)]):
        try:
            check(device=device.number, channels=width, dtype="float32", samplerate=rate)
        except (sounddevice.PortAudioError, ValueError) as error:
            why = why or f"{device.name} at {rate} Hz: {failure(error)}"
        else:
            return Line(device, kind, width, rate)
    refusals.append(why)
    return None


def failure(error: Exception) -> str:
    """Return the message of a PortAudio error without its code in brackets."""
    return str(error).partition(" [PaErrorCode")[0]


NAME = "alphamf microphone"
"""Name of the virtual microphone, as programs show it."""

CONFIGURATION = """\
context.properties = { log.level = 1 }
context.spa-libs = {
  audio.convert.* = audioconvert/libspa-audioconvert
  support.* = support/libspa-support
}
context.modules = [
  { name = libpipewire-module-rt flags = [ ifexists nofail ] }
  { name = libpipewire-module-protocol-native }
  { name = libpipewire-module-client-node }
  { name = libpipewire-module-adapter }
  { name = libpipewire-module-filter-chain
    args = {
      node.description = "%(name)s"
      media.name = "%(name)s"
      filter.graph = {
        nodes = [
          { type = ladspa name = alphamf plugin = %(plugin)s label = alphamf_mono
            control = { "Strength" = %(strength)s } }
        ]
      }
      audio.rate = 48000
      audio.position = [ MONO ]
      capture.props = { node.name = "capture.alphamf" node.passive = true }
      playback.props = { node.name = "alphamf" media.class = Audio/Source }
    }
  }
]
"""
"""Configuration of a PipeWire process that only runs the filter."""

START = 1.0
"""Seconds after which a process that still runs is taken to have started."""

END = 2.0
"""Seconds that a process has to end after it is asked to; if it still runs then, it is killed."""

_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux


def run_virtual_microphone(plugin: bytes, strength: float, ready: Callable[[], None]) -> None:
    """Run a virtual microphone with a LADSPA plugin, and call `ready`; its end raises an error."""
    program = shutil.which("pipewire") if sys.platform == "linux" else None
    if program is None:
        raise AlphaMFError("a virtual microphone needs PipeWire (Linux), which is not installed")
    with temporary_folder("alphamf-microphone-") as folder:
        library, configuration = folder / "alphamf.so", folder / "microphone.conf"
        library.write_bytes(plugin)
        values = {"name": NAME, "plugin": json.dumps(str(library)), "strength": f"{strength:g}"}
        configuration.write_text(CONFIGURATION % values, encoding="utf-8")
        log = folder / "log"
        with (
            log.open("wb") as written,
            _started([program, "-c", str(configuration)], written) as it,
        ):
            with suppress(subprocess.TimeoutExpired):
                raise _ended(it.wait(START), log)
            ready()
            raise _ended(it.wait(), log)


@contextmanager
def _started(command: list[str], log: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a new process that ends with the block, and with this process, however that ends."""
    library = ctypes.CDLL(None)

    def end_with_parent() -> None:
        library.prctl(_DEATH_SIGNAL, signal.SIGTERM)

    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        preexec_fn=end_with_parent,
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(END)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _ended(code: int, log: Path) -> AlphaMFError:
    """Return the error of a process that has ended, with the reason in its log's last line."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    why = printable_name(lines[-1].rpartition(": ")[2]) if lines else f"exit code {code}"
    return AlphaMFError(f"PipeWire's filter ended ({why}); is PipeWire running in this session?")
