"""``alphamf denoise``: denoise audio files."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import Annotated

import typer

from alphamf.batch.inputs import check_extra, plan
from alphamf.cli import batch, flow, report
from alphamf.cli.options import (
    RUN,
    Cluster,
    DeviceChoice,
    NoSandbox,
    build_settings,
    check_least,
    check_streams,
    check_weights,
    choose_device,
    dry_share,
    name_template,
    wanted_loudness,
    wanted_part,
    wanted_stretches,
)
from alphamf.errors import AlphaMFError
from alphamf.tools.extras import require_package


class Preset(StrEnum):
    """Names of `alphamf.denoising.PRESETS`, repeated because importing it would import NumPy."""

    fast = "fast"
    plain = "plain"
    paper = "paper"


class Channels(StrEnum):
    """How the channels of a recording are denoised."""

    linked = "linked"
    separate = "separate"


class Latency(StrEnum):
    """How much delay is allowed: whole segments, or low latency."""

    segments = "segments"
    low = "low"


OUTPUT = "Output"
MODEL = "Model and sampling"
EXTRA = "More results"


def denoise(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUTS",
            help="Audio files, folders or quoted patterns ('talks/**/*.wav'); - for standard "
            "input.",
            show_default=False,
        ),
    ],
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Output file, for a single input; - for standard output.",
            show_default="NAME.denoised.wav",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    output_dir: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Folder for the outputs; it is created if needed.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    suffix: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Suffix of the outputs' names, before the extension.",
            show_default=".denoised, or none in --output-dir",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="TEMPLATE",
            help="Template for the outputs' names, such as '{stem}-clean{ext}'.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Overwrite outputs that exist.", rich_help_panel=OUTPUT),
    ] = False,
    tag: Annotated[
        bool,
        typer.Option(
            "--tag",
            help="Add 'denoised by alphamf' to the history tag of the outputs.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    preset: Annotated[
        Preset,
        typer.Option(
            help="fast: a short chain and networks; plain: a longer chain without networks; "
            "paper: the chain of the HAMCMC paper.",
            rich_help_panel=MODEL,
        ),
    ] = Preset.fast,
    latency: Annotated[
        Latency,
        typer.Option(
            help="low: 40 ms of latency, slightly lower quality; '- -o -' processes a pipe in "
            "real time.",
            rich_help_panel=MODEL,
        ),
    ] = Latency.segments,
    raw: Annotated[
        str | None,
        typer.Option(
            metavar="RATE:CHANNELS:FORMAT",
            help="The input is headerless PCM, such as 48000:1:s16 (with a pipe and --latency "
            "low only).",
            rich_help_panel=RUN,
        ),
    ] = None,
    sampler: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Sampler to use instead of the preset's.", rich_help_panel=MODEL
        ),
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE",
            help="Speech model: a shipped one ('alphamf models'), or a file from 'alphamf train'.",
            rich_help_panel=MODEL,
        ),
    ] = "auto",
    refiner: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE|none",
            help="Network that refines the gain of the posterior; by default the one that fits "
            "the model.",
            rich_help_panel=MODEL,
        ),
    ] = "auto",
    second_stage: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE|none",
            help="Network that corrects the result in short windows (second stage).",
            rich_help_panel=MODEL,
        ),
    ] = "auto",
    steps: Annotated[
        int | None,
        typer.Option(metavar="N", help="Number of steps of each chain.", rich_help_panel=MODEL),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Number of steps at the end of a chain that are kept; every second one is "
            "averaged.",
            show_default="preset's share",
            rich_help_panel=MODEL,
        ),
    ] = None,
    chains: Annotated[
        int | None,
        typer.Option(metavar="N", help="Number of chains to average.", rich_help_panel=MODEL),
    ] = None,
    alpha_speech: Annotated[
        float | None,
        typer.Option(metavar="A", help="Tail index of speech, 0.5 to 2.", rich_help_panel=MODEL),
    ] = None,
    alpha_noise: Annotated[
        float | None,
        typer.Option(metavar="A", help="Tail index of the noise, 0.5 to 2.", rich_help_panel=MODEL),
    ] = None,
    noise_rank: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Number of spectra to learn for the noise.", rich_help_panel=MODEL
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Denoise from this time on and leave the sound before it unchanged: 75, 1:15.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Denoise up to this time and leave the sound after it unchanged.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    noise_from: Annotated[
        list[str] | None,
        typer.Option(
            metavar="START-END",
            help="Time range with noise only, such as 0:00-0:03, in each file; for several, use "
            "commas or repeat the option. It becomes silent. At 16 kHz and above it is "
            "also used to estimate the noise in the rest of the recording.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    speech_from: Annotated[
        list[str] | None,
        typer.Option(
            metavar="START-END",
            help="Time range that certainly contains speech, for --vad and --trim-silence.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    strength: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="How much of the denoising to apply, from 0 (none) to 1 (all).",
            show_default="1",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    max_attenuation: Annotated[
        float | None,
        typer.Option(metavar="DB", help="Maximum attenuation in dB.", rich_help_panel=OUTPUT),
    ] = None,
    trim_silence: Annotated[
        bool,
        typer.Option(
            "--trim-silence",
            help="Cut the sound before the first and after the last speech, except for 0.2 s; "
            "keep the pauses.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    channels: Annotated[
        Channels,
        typer.Option(
            help="linked: a voice in several channels keeps its position between them; "
            "separate: each channel is denoised alone.",
            rich_help_panel=OUTPUT,
        ),
    ] = Channels.linked,
    normalize: Annotated[
        str | None,
        typer.Option(
            metavar="LUFS",
            help="Normalize outputs to this loudness, such as -16LUFS, with true peaks below -1 "
            "dB.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    noise_output: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Output file for the removed noise.", rich_help_panel=EXTRA
        ),
    ] = None,
    plot: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.png",
            help="Output file for a picture: spectrograms before and after, and the uncertainty "
            "of the gain.",
            rich_help_panel=EXTRA,
        ),
    ] = None,
    uncertainty: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.npz",
            help="Output file for the mean and standard deviation of the gain.",
            rich_help_panel=EXTRA,
        ),
    ] = None,
    vad: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.csv",
            help="Output file for the time ranges with speech: start and end in seconds, and "
            "probability.",
            rich_help_panel=EXTRA,
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            metavar="CLEAN", help="Clean speech to compute scores against.", rich_help_panel=EXTRA
        ),
    ] = None,
    salvage: Annotated[
        bool,
        typer.Option(
            "--salvage",
            help="If a file is truncated or damaged, denoise the part that can be read.",
            rich_help_panel=RUN,
        ),
    ] = False,
    max_channels: Annotated[
        int,
        typer.Option(
            metavar="N", help="Refuse files with more channels than this.", rich_help_panel=RUN
        ),
    ] = 64,
    track: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Audio track of a video to denoise; the others are copied unchanged.",
            show_default="the default one",
            rich_help_panel=RUN,
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Number of files, or of segments of one file, to process in parallel.",
            show_default="one per core",
            rich_help_panel=RUN,
        ),
    ] = None,
    cluster: Cluster = None,
    device: Annotated[DeviceChoice, typer.Option(rich_help_panel=RUN)] = DeviceChoice.cpu,
    seed: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Seed of the random numbers; the same seed gives the same result on the same "
            "machine.",
            rich_help_panel=RUN,
        ),
    ] = 0,
    deterministic: Annotated[
        bool,
        typer.Option(
            "--deterministic",
            help="Give identical results on every x86-64 processor with AVX2; takes longer.",
            rich_help_panel=RUN,
        ),
    ] = False,
    no_sandbox: NoSandbox = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per file.", rich_help_panel=RUN)
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print errors only.", rich_help_panel=RUN)
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", "-v", help="Also print how each file was processed.", rich_help_panel=RUN
        ),
    ] = False,
) -> None:
    """Remove noise from speech recordings.

    An output keeps its input's sampling rate, channels, length and sample format. Of folders and
    patterns, files whose output exists are passed over: the same command finishes a stopped run.
    """
    if deterministic:
        from alphamf.cli.deterministic import restart_with_fixed_paths

        with report.user_errors(as_json=as_json):
            restart_with_fixed_paths(device=device.value, cluster=cluster)
    overrides = {
        "sampler": sampler,
        "steps": steps,
        "keep": keep,
        "chains": chains,
        "alpha_speech": alpha_speech,
        "alpha_noise": alpha_noise,
        "noise_rank": noise_rank,
        "max_attenuation": max_attenuation,
        "channels": channels.value,
        # A network that is asked for is used, with the preset `plain`, too.
        "refine": None if refiner in ("auto", "none") else True,
    }
    with report.user_errors(as_json=as_json):
        read = {
            "--reference": reference,
            "--model": model,
            "--refiner": refiner,
            "--second-stage": second_stage,
        }
        files = plan(
            inputs,
            output=output,
            output_dir=output_dir,
            template=name_template(suffix, name, output),
            overwrite=overwrite,
            protected={option: path for option, path in read.items() if path is not None},
        )
        extra = {
            "--noise-output": noise_output,
            "--plot": plot,
            "--uncertainty": uncertainty,
            "--vad": vad,
        }
        if plot is not None:
            require_package("--plot", "matplotlib", "report")
        check_extra(extra, files, overwrite=overwrite)
        check_least("--jobs", jobs, 1)
        batch.preload(files, device=device.value, workers=jobs, cluster=cluster)
        check_streams(files.jobs, as_json=as_json, cluster=cluster)
        settings = build_settings(preset.value, {**overrides, "dry": dry_share(strength)})
        check_weights(model, refiner=refiner, second_stage=second_stage)
        low = latency is Latency.low
        other = {
            **{f"--{name.replace('_', '-')}": overrides[name] for name in flow.NOT_LOW},
            **{option: path for option, path in extra.items() if option != "--noise-output"},
            "--refiner": refiner,
            "--second-stage": second_stage,
            "--start": start,
            "--end": end,
            "--noise-from": noise_from or None,
            "--speech-from": speech_from or None,
            "--trim-silence": trim_silence,
            "--cluster": cluster,
            "--device cuda": device.value == "cuda",
        }
        whole = {
            "--noise-output": noise_output,
            "--normalize": normalize,
            "--reference": reference,
            "--tag": tag,
        }
        flows = flow.check(files.jobs, other, whole, low=low, raw=raw)
        part = wanted_part(start, end)
        if trim_silence and part is not None:
            raise AlphaMFError(
                "--trim-silence needs the whole recording and cannot be combined with --start "
                "or --end"
            )
        noise, speech = wanted_stretches(noise_from, speech_from)
        loudness = wanted_loudness(normalize)
        place = choose_device(device.value, quiet=quiet)
        check_least("--seed", seed, 0)
        check_least("--track", track, 1)
        check_least("--max-channels", max_channels, 1)
    from alphamf.batch.observers import Observers
    from alphamf.batch.request import Request

    request = Request(
        settings=settings,
        observe=partial(
            Observers,
            noise_output=noise_output,
            plot=plot,
            uncertainty=uncertainty,
            vad=vad,
            reference=reference,
            replace=overwrite,
        ),
        preset=preset.value,
        model=model,
        refiner=refiner,
        second_stage=second_stage,
        seed=seed,
        device=place,
        overwrite=overwrite,
        trim=trim_silence,
        part=part,
        noise_from=noise,
        speech_from=speech,
        loudness=loudness,
        whole=plot is not None or reference is not None,
        salvage=salvage,
        max_channels=max_channels,
        track=track,
        tag=tag,
        documented=as_json or verbose,
    )
    if low:
        request = flow.low_latency_request(request)
    if flows:
        flow.run(request, raw, quiet=quiet)
        return
    with report.user_errors(as_json=as_json):
        code = batch.run(
            files,
            request,
            workers=jobs,
            cluster=cluster,
            as_json=as_json,
            quiet=quiet,
            verbose=verbose,
        )
    raise typer.Exit(code)
