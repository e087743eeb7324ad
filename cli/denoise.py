"""``alphamf denoise``: denoise audio files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand

from alphamf.batch.inputs import Plan
from alphamf.cli import batch, real_time, report
from alphamf.cli import denoise_options as options
from alphamf.cli.conflicts import check_conflicts, is_real_time
from alphamf.cli.denoise_groups import (
    ExtraOptions,
    FileOptions,
    ModelOptions,
    RunOptions,
    SoundOptions,
)
from alphamf.cli.options import (
    Cluster,
    DeviceChoice,
    NoSandbox,
    Quiet,
    check_least,
    check_streams,
    choose_device,
    pick,
)

if TYPE_CHECKING:
    from alphamf.batch.request import Request


class DenoiseCommand(TyperCommand):
    """The command ``denoise``, whose option --dereverb may stand without a value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give --dereverb the value 1 where no share follows."""
        given: list[str] = []
        for k, word in enumerate(args):
            given.append(word)
            if word == "--" or (word == "--dereverb" and _is_share(args[k + 1 : k + 2])):
                given += args[k + 1 :]
                break
            if word == "--dereverb":
                given.append("1")
        return super().parse_args(ctx, given)


def _is_share(following: list[str]) -> bool:
    """Return whether the word after an option is a number, or a percentage."""
    try:
        float("".join(following).removesuffix("%"))
    except ValueError:
        return False
    return True


def denoise(
    inputs: options.Inputs,
    output: options.Output = None,
    output_dir: options.OutputDir = None,
    name: options.Name = None,
    overwrite: options.Overwrite = False,
    tag: options.Tag = False,
    start: options.Start = None,
    end: options.End = None,
    noise_from: options.NoiseFrom = None,
    strength: options.Strength = None,
    dereverb: options.Dereverb = None,
    max_attenuation: options.MaxAttenuation = None,
    trim_silence: options.TrimSilence = False,
    channels: options.ChannelsChoice = options.Channels.linked,
    normalize: options.Normalize = None,
    preset: options.PresetChoice = options.Preset.fast,
    latency: options.LatencyChoice = options.Latency.segments,
    model: options.Model = "auto",
    network: options.Network = None,
    noise_output: options.NoiseOutput = None,
    plot: options.Plot = None,
    uncertainty: options.Uncertainty = None,
    vad: options.Vad = None,
    reference: options.Reference = None,
    raw: options.Raw = None,
    salvage: options.Salvage = False,
    max_channels: options.MaxChannels = 64,
    track: options.TrackNumber = None,
    jobs: options.Jobs = None,
    cluster: Cluster = None,
    device: options.Device = DeviceChoice.cpu,
    deterministic: options.Deterministic = False,
    no_sandbox: NoSandbox = False,
    as_json: options.Json = False,
    quiet: Quiet = False,
    sampler: options.Sampler = None,
    steps: options.Steps = None,
    chains: options.Chains = None,
    seed: options.Seed = 0,
) -> None:
    """Remove noise from speech recordings.

    An output keeps its input's sampling rate, channels, length and sample format. In folders and
    patterns, files whose output exists are skipped, so the same command continues a stopped run.
    """
    values = locals()
    with report.user_errors(as_json=as_json):
        check_conflicts(values)
        if deterministic:
            from alphamf.cli.deterministic import restart_with_fixed_paths

            restart_with_fixed_paths()
        files, request = _prepared(
            pick(FileOptions, values),
            pick(SoundOptions, values),
            pick(ModelOptions, values),
            pick(ExtraOptions, values),
            pick(RunOptions, values),
        )
    if is_real_time(values):
        real_time.run(request, raw, quiet=quiet)
        return
    with report.user_errors(as_json=as_json):
        code = batch.run(
            files, request, workers=jobs, cluster=cluster, as_json=as_json, quiet=quiet
        )
    raise typer.Exit(code)


def _prepared(
    file: FileOptions,
    sound: SoundOptions,
    model: ModelOptions,
    extra: ExtraOptions,
    run: RunOptions,
) -> tuple[Plan, Request]:
    """Check all options, and return the files to denoise and what to do with each."""
    read = [("reference", extra.reference), ("model", model.model)]
    files = file.plan(read + [("network", path) for path in model.network or ()])
    extra.check(files, overwrite=file.overwrite)
    run.check()
    batch.preload(files, device=run.device.value, workers=run.jobs, cluster=run.cluster)
    check_streams(files.jobs)
    check_least("--seed", model.seed, 0)

    from alphamf.batch.request import Request

    refiner, second_stage = model.networks()
    request = Request(
        settings=model.settings(sound.overrides),
        observe=extra.observe(overwrite=file.overwrite),
        preset=model.preset.value,
        model=model.model,
        refiner=refiner,
        second_stage=second_stage,
        seed=model.seed,
        device=choose_device(run.device.value, quiet=run.quiet),
        overwrite=file.overwrite,
        trim=sound.trim_silence,
        part=sound.part(),
        noise_from=sound.noise_ranges(),
        loudness=sound.loudness(),
        whole=extra.plot is not None or extra.reference is not None,
        salvage=run.salvage,
        max_channels=run.max_channels,
        track=run.track,
        tag=file.tag,
        documented=run.as_json,
    )
    if model.latency is options.Latency.low:
        request = real_time.low_latency_request(request)
    return files, request
