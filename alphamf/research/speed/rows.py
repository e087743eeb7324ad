"""What was measured, as rows of tables."""

from __future__ import annotations

from collections.abc import Iterator

from alphamf.research.speed.measure import Denoiser, Step
from alphamf.research.speed.parallel import Cores
from alphamf.research.speed.peers import RATES, UNIT, Peer


def step_rows(steps: Iterator[Step]) -> Iterator[dict[str, str | float]]:
    """Yield the steps as rows of a table."""
    for step in steps:
        yield {
            "sampler": step.sampler,
            "cells": step.cells,
            "ms a step": round(step.alphamf, 3),
            "plain NumPy ms": round(step.naive, 2),
            "floor ms": round(step.floor, 3),
            "times as fast as plain": round(step.faster, 1),
            "times the floor": round(step.above, 2),
        }


def denoiser_rows(denoisers: Iterator[Denoiser]) -> Iterator[dict[str, str | float]]:
    """Yield the denoisers as rows of a table."""
    for denoiser in denoisers:
        yield {
            "preset": denoiser.name,
            "Hz": denoiser.rate,
            "clip s": round(denoiser.seconds, 2),
            "of real time": round(denoiser.real_time, 3),
        }


def core_rows(found: Iterator[Cores]) -> Iterator[dict[str, str | float]]:
    """Yield the times on one core and on all as rows of a table."""
    for row in found:
        yield {
            "sound": row.sound,
            "files": row.files,
            "seconds": row.seconds,
            "one core s": round(row.one, 1),
            f"{row.cores} cores s": round(row.all, 1),
            "times as fast": round(row.faster, 2),
        }


def peer_rows(found: Iterator[Peer]) -> Iterator[dict[str, str | float]]:
    """Yield the processor times of other denoisers and of the presets as rows of a table."""
    peers = list(found)
    unit = next(name for name in UNIT if name in [peer.name for peer in peers])
    for peer in peers:
        row: dict[str, str | float] = {"method": peer.name}
        for rate in RATES:
            row[f"CPU s per s, {rate // 1000} kHz"] = round(peer.cost[rate], 4)
            row[f"{unit} = 1, {rate // 1000} kHz"] = round(peer.ratio[rate], 2)
        yield row
