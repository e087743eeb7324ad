"""``alphamf denoise``: denoise audio files."""

from typing import Annotated, Literal

import typer

from alphamf.batch.inputs import plan
from alphamf.cli import batch, report
from alphamf.cli import denoise_request as given
from alphamf.cli.denoise_request import check_conflicts, is_real_time
from alphamf.cli.options import (
    RUN,
    Cluster,
    NoSandbox,
    Quiet,
    check_least,
    check_streams,
    choose_device,
    json_option,
    model_option,
    option,
    seed_option,
)
from alphamf.denoising.choices import ChannelsName, LatencyName, PresetName

OUTPUT = "Output"
SOUND = "Sound"
MODEL = "Model"
EXTRA = "More results"
SAMPLER = "Sampler (for research)"


def denoise(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUTS",
            help="Audio or video files, folders or quoted patterns ('talks/**/*.wav'); - for "
            "standard input.",
        ),
    ],
    output: Annotated[
        str | None,
        option(
            OUTPUT,
            "Output of a single input; - for standard output.",
            "--output",
            "-o",
            metavar="FILE",
            show_default="NAME.denoised.EXT; - for the input -",
        ),
    ] = None,
    output_dir: Annotated[
        str | None,
        option(OUTPUT, "Folder for denoised files; created if needed.", metavar="DIR"),
    ] = None,
    overwrite: Annotated[
        bool, option(OUTPUT, "Overwrite outputs that exist.", "--overwrite")
    ] = False,
    tag: Annotated[
        bool,
        option(OUTPUT, "Add 'denoised by alphamf VERSION' to the outputs' history tag.", "--tag"),
    ] = False,
    start: Annotated[
        str | None,
        option(
            SOUND,
            "Time to denoise from, such as 75 (seconds) or 1:15; earlier sound stays unchanged.",
            metavar="TIME",
        ),
    ] = None,
    end: Annotated[
        str | None,
        option(SOUND, "Time to denoise up to; later sound stays unchanged.", metavar="TIME"),
    ] = None,
    noise_from: Annotated[
        list[str] | None,
        option(
            SOUND,
            "Time range with noise only, such as 0:00-0:03, in each file; for several, use commas "
            "or repeat the option. Its sound is removed as noise and used to estimate the noise in "
            "the rest of the recording.",
            metavar="START-END",
        ),
    ] = None,
    strength: Annotated[
        str | None,
        option(
            SOUND,
            "How much of the denoising to apply: 0 (none) to 1 (all), or 0% to 100%.",
            metavar="SHARE",
            show_default="1; 0.7 for --preset transcription",
        ),
    ] = None,
    dereverb: Annotated[
        str | None,
        option(
            SOUND,
            "Remove the room's echo, too: all of it, or a part such as 50%.",
            metavar="[SHARE]",
        ),
    ] = None,
    max_attenuation: Annotated[
        float | None, option(SOUND, "Maximum attenuation of the noise, in dB.", metavar="DB")
    ] = None,
    trim_silence: Annotated[
        bool,
        option(
            SOUND,
            "Cut the sound before the first and after the last speech, except 0.2 s; keep pauses.",
            "--trim-silence",
        ),
    ] = False,
    channels: Annotated[
        ChannelsName,
        option(
            SOUND,
            "linked: a voice in several channels keeps its position between them; separate: each "
            "channel is denoised alone.",
        ),
    ] = "linked",
    normalize: Annotated[
        str | None,
        option(
            SOUND,
            "Normalize outputs to this loudness, such as -16LUFS, with true peaks below -1 dB; "
            "podcast: -16LUFS, broadcast: -23LUFS.",
            metavar="LUFS|podcast|broadcast",
        ),
    ] = None,
    preset: Annotated[
        PresetName,
        option(
            MODEL,
            "fast: a short chain and networks, for listening; transcription: the same for speech "
            "recognisers, with part of the input kept; plain: a longer chain without networks; "
            "paper: the chain of the HAMCMC paper.",
        ),
    ] = "fast",
    latency: Annotated[
        LatencyName,
        option(
            MODEL,
            "segments: ten seconds at a time; low: 40 ms of latency, slightly lower quality, and a "
            "pipe ('- -o -') is processed in real time.",
        ),
    ] = "segments",
    model: Annotated[str, model_option(MODEL)] = "auto",
    network: Annotated[
        list[str] | None,
        option(
            MODEL,
            "Networks to use in place of those that fit the model: a refiner, such as a file from "
            "'alphamf adapt', and, if the option is repeated, a second stage. none: no network.",
            metavar="NAME|FILE|none",
        ),
    ] = None,
    noise_output: Annotated[
        str | None, option(EXTRA, "Output file for the removed noise.", metavar="FILE")
    ] = None,
    plot: Annotated[
        str | None,
        option(
            EXTRA,
            "Output file for a picture: spectrograms before and after, and the uncertainty of the "
            "speech.",
            metavar="FILE.png",
        ),
    ] = None,
    uncertainty: Annotated[
        str | None,
        option(
            EXTRA,
            "Output file for the mean and standard deviation of the gain.",
            metavar="FILE.npz",
        ),
    ] = None,
    vad: Annotated[
        str | None,
        option(
            EXTRA,
            "Output file for the time ranges with speech: start and end in seconds, and "
            "probability.",
            metavar="FILE.csv",
        ),
    ] = None,
    reference: Annotated[
        str | None, option(EXTRA, "File with the clean speech, to compute scores.", metavar="CLEAN")
    ] = None,
    raw: Annotated[
        str | None,
        option(
            RUN,
            "The input is headerless PCM, such as 48000:1:s16; needs '- -o - --latency low'.",
            metavar="RATE:CHANNELS:FORMAT",
        ),
    ] = None,
    max_channels: Annotated[
        int, option(RUN, "Refuse files with more channels than this.", metavar="N")
    ] = 64,
    track: Annotated[
        int | None,
        option(
            RUN,
            "Number of a video's audio track to denoise; a video as output keeps the others.",
            metavar="N",
            show_default="the default one",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        option(
            RUN,
            "Number of files or of their segments to process in parallel.",
            metavar="N",
            show_default="one per core; GPU: 16",
        ),
    ] = None,
    cluster: Cluster = None,
    device: Annotated[
        Literal["cpu", "cuda", "auto"],
        option(RUN, "Device for the computation; auto: a CUDA GPU if any; low latency: only cpu."),
    ] = "cpu",
    deterministic: Annotated[
        bool,
        option(
            RUN,
            "Give identical results on x86-64 processors with AVX2 (Linux, macOS); takes longer.",
            "--deterministic",
        ),
    ] = False,
    no_sandbox: NoSandbox = False,
    as_json: Annotated[bool, json_option("file")] = False,
    quiet: Quiet = False,
    sampler: Annotated[
        str | None, option(SAMPLER, "Sampler to use instead of the preset's.", metavar="NAME")
    ] = None,
    steps: Annotated[
        int | None,
        option(
            SAMPLER,
            "Number of steps of each chain; the same fraction is averaged as in the preset.",
            metavar="N",
        ),
    ] = None,
    chains: Annotated[
        int | None, option(SAMPLER, "Number of chains to average.", metavar="N")
    ] = None,
    seed: Annotated[int, seed_option("result on the same machine", SAMPLER)] = 0,
) -> None:
    """Remove noise from speech recordings.

    Outputs keep rate, channels, sample format and, unless trimmed, length. Files from folders and
    patterns whose output exists are skipped without --overwrite, so a stopped run can be continued.
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
        batch.preload(files, device=device, workers=jobs, cluster=cluster)
        check_streams(files.jobs)

        from alphamf.audio.loudness import target
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
                device=choose_device("cpu" if latency == "low" else device, quiet=quiet),
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
            loudness=None if normalize is None else target(normalize),
            whole=plot is not None or reference is not None,
            track=track,
            tag=tag,
            documented=as_json,
        )
    if is_real_time(values):
        batch.run_in_real_time(request.options, raw, quiet=quiet)
        return
    with report.user_errors(as_json=as_json):
        code = batch.run(
            files, request, workers=jobs, cluster=cluster, as_json=as_json, quiet=quiet
        )
    raise typer.Exit(code)
