"""What every process that denoises uses: imported once, by the server that forks them.

They share its memory, that of the shipped networks above all.
"""

from __future__ import annotations

from alphamf.denoising.file import process
from alphamf.denoising.weights import network
from alphamf.learnt.refiner import Refiner
from alphamf.learnt.second_stage import SecondStage

__all__ = ["process"]

for rate in (8000, 16000):
    network(Refiner, "auto", rate)
    network(SecondStage, "auto", rate)
