"""Modules and networks for all denoising processes, imported once by the fork server.

The processes share its memory, above all that of the shipped networks.
"""

import errno
import os
import sys
from typing import Any

from alphamf.audio.decoder import sandbox
from alphamf.batch.file import process
from alphamf.denoising.weights import network
from alphamf.learnt.high_band import HighBand
from alphamf.learnt.refiner import Refiner
from alphamf.learnt.second_stage import SecondStage

__all__ = ["process"]

SERVER = os.getpid()


def _end_in_silence(kind: Any, error: Any, trace: Any) -> None:
    """Print no traceback if the fork server cannot fork; the parent process reports it."""
    if os.getpid() != SERVER or getattr(error, "errno", 0) not in (errno.EAGAIN, errno.ENOMEM):
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _end_in_silence

sandbox.prepare()  # one for all that are forked
for rate in (8000, 16000):
    network(Refiner, "auto", rate)
    network(SecondStage, "auto", rate)
    network(HighBand, "auto", rate)
