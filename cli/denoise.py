"""``alphamf denoise``: denoise audio files."""

from __future__ import annotations

import typer

from alphamf.batch.inputs import plan
from alphamf.cli import batch, real_time, report
from alphamf.cli import denoise_options as options
from alphamf.cli import denoise_request as given
from alphamf.cli.conflicts import check_conflicts, is_real_time
from alphamf.cli.options import (
    Cluster,
    DeviceChoice,
    NoSandbox,
    Quiet,
    check_least,
    check_streams,
    choose_device,
)


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
    channels: options.ChannelsChoice = "linked",
    normalize: options.Normalize = None,
    preset: options.PresetChoice = "fast",
    latency: options.LatencyChoice = "segments",
    model: options.Model = "auto",
    network: options.Network = None,
    noise_output: options.NoiseOutput = None,
    plot: options.Plot = None,
    uncertainty: options.Uncertainty = None,
    vad: options.Vad = None,
    reference: options.Reference = None,
    raw: options.Raw = None,
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
        read = [("reference", reference), ("model", model)]
        read += [("network", path) for path in network or ()]
        files = plan(
            inputs,
            output=output,
            output_dir=output_dir,
            template=name,
            overwrite=overwrite,
            protected=[(argument, path) for argument, path in read if path is not None],
        )
        outputs = {"noise_output": noise_output, "plot": plot}
        outputs |= {"uncertainty": uncertainty, "vad": vad}
        given.check_outputs(outputs, files, overwrite=overwrite)
        for option, number, least in (
            ("--jobs", jobs, 1),
            ("--track", track, 1),
            ("--max-channels", max_channels, 1),
            ("--seed", seed, 0),
        ):
            check_least(option, number, least)
        batch.preload(files, device=device.value, workers=jobs, cluster=cluster)
        check_streams(files.jobs)

        from alphamf.batch.request import Request
        from alphamf.denoising.stream_options import StreamOptions

        refiner, second_stage = given.networks(model, network)
        request = Request(
            StreamOptions(
                given.settings(
                    preset,
                    strength=strength,
                    dereverb=dereverb,
                    network=network,
                    refine=False if latency == "low" and network == ["none"] else None,
                    steps=steps,
                    sampler=sampler,
                    chains=chains,
                    max_attenuation=max_attenuation,
                    channels=channels,
                ),
                model=model,
                latency=latency,
                seed=seed,
                device=choose_device("cpu" if latency == "low" else device.value, quiet=quiet),
                max_channels=max_channels,
            ),
            observe=given.observe(outputs, reference, overwrite=overwrite),
            preset=preset,
            refiner=refiner,
            second_stage=second_stage,
            overwrite=overwrite,
            trim=trim_silence,
            part=given.part(start, end),
            noise_from=given.noise_ranges(noise_from),
            loudness=given.loudness(normalize),
            whole=plot is not None or reference is not None,
            track=track,
            tag=tag,
            documented=as_json,
        )
    if is_real_time(values):
        real_time.run(request.options, raw, quiet=quiet)
        return
    with report.user_errors(as_json=as_json):
        code = batch.run(
            files, request, workers=jobs, cluster=cluster, as_json=as_json, quiet=quiet
        )
    raise typer.Exit(code)
