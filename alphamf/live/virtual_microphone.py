"""A virtual microphone of PipeWire: the plug-in in a process of its own."""

from __future__ import annotations

import ctypes
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from alphamf.errors import AlphaMFError
from alphamf.tools.files import printable_name
from alphamf.tools.folders import temporary_folder

NAME = "alphamf microphone"
"""Name of the microphone, as programs show it."""

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
"""Configuration of a PipeWire process that only has the filter."""

START = 1.0
"""Seconds after which a process that still runs is taken to have started."""

END = 2.0
"""Seconds that it has to end."""

_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux


def run_virtual_microphone(plugin: bytes, strength: float, ready: Callable[[], None]) -> None:
    """Offer a microphone with the denoised sound of the system's until an exception."""
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
    """Start a process that ends with this block, and with this process, however that ends."""
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
    """Return the error of a process that has ended, with its last words."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    why = printable_name(lines[-1].rpartition(": ")[2]) if lines else f"exit code {code}"
    return AlphaMFError(f"PipeWire's filter ended ({why}); is PipeWire running in this session?")
