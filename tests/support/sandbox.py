"""Processes of a run that are watched, or spoiled, from their first moment on."""

from __future__ import annotations

import os
from pathlib import Path

READ_HERE = "a recording is decoded in this process"

_START = """
import os

import av, soundfile
from alphamf.audio.decoder import helper

def said(function, place):
    def call(*arguments, **options):
        mode = arguments[place] if len(arguments) > place else options.get("mode", "r")
        if mode != "w" and "RAW" not in [*map(str, arguments[1:]), *map(str, options.values())]:
            os.write(2, b"READ_HERE\\n")
        return function(*arguments, **options)

    return call

soundfile.SoundFile.__init__ = said(soundfile.SoundFile.__init__, 2)
av.open = said(av.open, 1)
# The helper gets nothing of the environment.
helper._START = helper._START.replace("; from", "; exec(" + repr(SPOIL) + "); from", 1)
"""

CRASH = """
import ctypes
import alphamf.audio.decoder.tasks as tasks

def crash(sound, kind, number, decode=tasks._decode):
    if sound.channels == 3:
        ctypes.string_at(0)
    return decode(sound, kind, number)

tasks._decode = crash
"""
"""Recordings of three channels crash their decoder."""

NO_KERNEL = """
import alphamf.audio.decoder.confine as confine

confine._landlock = confine._seccomp = lambda libc: False
"""
"""The kernel has neither seccomp nor Landlock."""


def watched(folder: Path, spoil: str = "pass") -> dict[str, str]:
    """Return the environment of processes that say on standard error where they decode.

    Parameters
    ----------
    folder
        Where a file for it goes.
    spoil
        What is done in the process that makes decoders.
    """
    folder.mkdir()
    code = _START.replace("SPOIL", ascii(spoil)).replace("READ_HERE", READ_HERE)
    Path(folder, "sitecustomize.py").write_text(code)
    return {**os.environ, "PYTHONPATH": str(folder)}
