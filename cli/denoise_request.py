"""What the library gets of the options of ``alphamf denoise``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from alphamf.audio.times import parse_range, seconds
from alphamf.batch.inputs import Plan, check_extra
from alphamf.cli.options import dry_share, parse_share
from alphamf.errors import AlphaMFError
from alphamf.tools.extras import require_package

if TYPE_CHECKING:
    from alphamf.batch.part import Part
    from alphamf.batch.request import Observe
    from alphamf.denoising.hints import TimeRanges
    from alphamf.denoising.settings import Settings


def settings(
    preset: str,
    *,
    strength: str | None,
    dereverb: str | None,
    network: list[str] | None,
    steps: int | None,
    **others: Any,
) -> Settings:
    """Return the preset with some settings replaced; values of None leave the preset's."""
    from dataclasses import replace

    from alphamf.denoising.settings import PRESETS

    base = PRESETS[preset]
    values = {**others, "steps": steps, "dry": dry_share(strength)}
    values["dereverb"] = dereverb and parse_share("--dereverb", dereverb)
    if steps is not None:
        values["keep"] = max(1, base.keep * steps // base.steps)
    if network not in (None, [], ["none"]):  # used with the preset `plain`, too
        values["refine"] = True
    return replace(base, **{name: value for name, value in values.items() if value is not None})


def networks(model: str, network: list[str] | None) -> tuple[str, str]:
    """Return the refiner and the second stage, and check all weights that are known."""
    from alphamf.denoising.weights import find, roles

    refiner, second_stage = roles(network or [])
    if model != "auto":  # what fits otherwise depends on the rate of each file
        find(0, model, refiner=refiner, second_stage=second_stage)
    return refiner, second_stage


def part(start: str | None, end: str | None) -> Part | None:
    """Return the part of a recording to denoise; None for all of it."""
    from alphamf.batch.part import Part

    if start is None and end is None:
        return None
    first = 0.0 if start is None else seconds("start", start)
    last = None if end is None else seconds("end", end)
    if last is not None and last <= first:
        raise AlphaMFError(f"`end` {end} must be after `start` {start or 0}")
    return Part(first, last)


def noise_ranges(noise_from: list[str] | None) -> TimeRanges:
    """Return the time ranges with noise only, in order."""
    from alphamf.denoising.hints import check_ranges

    texts = [text for each in noise_from or () for text in each.split(",")]
    return check_ranges([parse_range("noise_from", text) for text in texts])[0]


def loudness(normalize: str | None) -> float | None:
    """Return the loudness in LUFS, or None."""
    from alphamf.audio.loudness import target

    return None if normalize is None else target(normalize)


def observe(outputs: dict[str, Any], reference: str | None, *, overwrite: bool) -> Observe:
    """Return a function that creates the observer of a file, which writes more outputs."""
    from alphamf.batch.observers import Observers

    if reference is None:
        return partial(Observers, **outputs, replace=overwrite)
    from alphamf.cli.reference import ScoringObservers

    return partial(ScoringObservers, reference, **outputs, replace=overwrite)


def check_outputs(outputs: dict[str, str | None], files: Plan, *, overwrite: bool) -> None:
    """Refuse additional outputs that cannot be written."""
    if outputs["plot"] is not None:
        require_package("`plot`", "matplotlib", "report")
    check_extra(outputs, files, overwrite=overwrite)
