"""Groups of the options of ``alphamf denoise``, and what the library gets of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from alphamf.audio.times import parse_range, seconds
from alphamf.batch.inputs import Plan, check_extra, plan
from alphamf.batch.outputs import check_template
from alphamf.cli import denoise_options as options
from alphamf.cli.options import Cluster, Quiet, check_least, dry_share, parse_share
from alphamf.errors import AlphaMFError
from alphamf.tools.extras import require_package

if TYPE_CHECKING:
    from alphamf.batch.part import Part
    from alphamf.batch.request import Observe
    from alphamf.denoising.hints import TimeRanges
    from alphamf.denoising.settings import Settings


@dataclass(frozen=True)
class FileOptions:
    """The inputs and the outputs."""

    inputs: options.Inputs
    output: options.Output
    output_dir: options.OutputDir
    name: options.Name
    overwrite: options.Overwrite
    tag: options.Tag

    def plan(self, read: Iterable[tuple[str, str | None]]) -> Plan:
        """Return the files to denoise."""
        if self.name is not None:
            check_template(self.name)
        return plan(
            self.inputs,
            output=self.output,
            output_dir=self.output_dir,
            template=self.name,
            overwrite=self.overwrite,
            protected=[(argument, path) for argument, path in read if path is not None],
        )


@dataclass(frozen=True)
class SoundOptions:
    """The part to denoise, and properties of the output."""

    start: options.Start
    end: options.End
    noise_from: options.NoiseFrom
    strength: options.Strength
    dereverb: options.Dereverb
    max_attenuation: options.MaxAttenuation
    trim_silence: options.TrimSilence
    channels: options.ChannelsChoice
    normalize: options.Normalize

    @property
    def overrides(self) -> dict[str, Any]:
        """Settings that replace the preset's, or None."""
        return {
            "max_attenuation": self.max_attenuation,
            "channels": self.channels.value,
            "dry": dry_share(self.strength),
            "dereverb": self.dereverb and parse_share("--dereverb", self.dereverb),
        }

    def part(self) -> Part | None:
        """Return the part of a recording to denoise; None for all of it."""
        from alphamf.batch.part import Part

        if self.start is None and self.end is None:
            return None
        first = 0.0 if self.start is None else seconds("start", self.start)
        last = None if self.end is None else seconds("end", self.end)
        if last is not None and last <= first:
            raise AlphaMFError(f"`end` {self.end} must be after `start` {self.start or 0}")
        return Part(first, last)

    def noise_ranges(self) -> TimeRanges:
        """Return the time ranges with noise only, in order."""
        from alphamf.denoising.hints import check_ranges

        texts = [text for each in self.noise_from or () for text in each.split(",")]
        return check_ranges([parse_range("noise_from", text) for text in texts])[0]

    def loudness(self) -> float | None:
        """Return the loudness in LUFS, or None."""
        from alphamf.audio.loudness import target

        return None if self.normalize is None else target(self.normalize)


@dataclass(frozen=True)
class ModelOptions:
    """The preset, the model and the sampler."""

    preset: options.PresetChoice
    latency: options.LatencyChoice
    model: options.Model
    network: options.Network
    sampler: options.Sampler
    steps: options.Steps
    chains: options.Chains
    seed: options.Seed

    def settings(self, overrides: Mapping[str, Any]) -> Settings:
        """Return the preset with some settings replaced; values of None leave the preset's."""
        from alphamf.denoising.settings import PRESETS

        base = PRESETS[self.preset.value]
        values = {"sampler": self.sampler, "steps": self.steps, "chains": self.chains, **overrides}
        if self.steps is not None:
            values["keep"] = max(1, base.keep * self.steps // base.steps)
        if self.network not in (None, [], ["none"]):  # used with the preset `plain`, too
            values["refine"] = True
        return replace(base, **{name: it for name, it in values.items() if it is not None})

    def networks(self) -> tuple[str, str]:
        """Return the refiner and the second stage, and check all weights that are known."""
        from alphamf.denoising.weights import find, roles

        refiner, second_stage = roles(self.network or [])
        if self.model != "auto":  # what fits otherwise depends on the rate of each file
            find(0, self.model, refiner=refiner, second_stage=second_stage)
        return refiner, second_stage


@dataclass(frozen=True)
class ExtraOptions:
    """Additional outputs for a single recording."""

    noise_output: options.NoiseOutput
    plot: options.Plot
    uncertainty: options.Uncertainty
    vad: options.Vad
    reference: options.Reference

    def check(self, files: Plan, *, overwrite: bool) -> None:
        """Refuse additional outputs that cannot be written."""
        if self.plot is not None:
            require_package("`plot`", "matplotlib", "report")
        outputs = {name: path for name, path in vars(self).items() if name != "reference"}
        check_extra(outputs, files, overwrite=overwrite)

    def observe(self, *, overwrite: bool) -> Observe:
        """Return a function that creates the observer of a file."""
        from alphamf.batch.observers import Observers

        outputs = {name: path for name, path in vars(self).items() if name != "reference"}
        if self.reference is None:
            return partial(Observers, **outputs, replace=overwrite)
        from alphamf.cli.reference import ScoringObservers

        return partial(ScoringObservers, self.reference, **outputs, replace=overwrite)


@dataclass(frozen=True)
class RunOptions:
    """How inputs are read, where the work is done, and what is printed."""

    raw: options.Raw
    salvage: options.Salvage
    max_channels: options.MaxChannels
    track: options.TrackNumber
    jobs: options.Jobs
    cluster: Cluster
    device: options.Device
    as_json: options.Json
    quiet: Quiet

    def check(self) -> None:
        """Raise an AlphaMFError if a number is out of range."""
        check_least("--jobs", self.jobs, 1)
        check_least("--track", self.track, 1)
        check_least("--max-channels", self.max_channels, 1)
