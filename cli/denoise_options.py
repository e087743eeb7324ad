"""Options of ``alphamf denoise``, in the groups in which ``--help`` lists them."""

from __future__ import annotations

from typing import Annotated

import typer

from alphamf.cli.options import RUN, DeviceChoice, json_option, model_option, seed_option
from alphamf.denoising.choices import ChannelsName, LatencyName, PresetName

OUTPUT = "Output"
SOUND = "Sound"
MODEL = "Model"
EXTRA = "More results"
SAMPLER = "Sampler (for research)"


Inputs = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUTS",
        help="Audio files, folders or quoted patterns ('talks/**/*.wav'); - for standard input.",
        show_default=False,
    ),
]

Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Output file, for a single input; - for standard output.",
        show_default="NAME.denoised.wav",
        rich_help_panel=OUTPUT,
    ),
]

OutputDir = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="Folder for the outputs; it is created if needed.",
        rich_help_panel=OUTPUT,
    ),
]

Name = Annotated[
    str | None,
    typer.Option(
        metavar="TEMPLATE",
        help="Template for the outputs' names, such as '{stem}-clean{ext}'.",
        show_default="{stem}.denoised{ext}, or {stem}{ext} in --output-dir",
        rich_help_panel=OUTPUT,
    ),
]

Overwrite = Annotated[
    bool,
    typer.Option("--overwrite", help="Overwrite outputs that exist.", rich_help_panel=OUTPUT),
]

Tag = Annotated[
    bool,
    typer.Option(
        "--tag",
        help="Add 'denoised by alphamf' to the history tag of the outputs.",
        rich_help_panel=OUTPUT,
    ),
]

Start = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Denoise from this time on and leave the sound before it unchanged: 75, 1:15.",
        rich_help_panel=SOUND,
    ),
]

End = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Denoise up to this time and leave the sound after it unchanged.",
        rich_help_panel=SOUND,
    ),
]

NoiseFrom = Annotated[
    list[str] | None,
    typer.Option(
        metavar="START-END",
        help="Time range with noise only, such as 0:00-0:03, in each file; for several, use "
        "commas or repeat the option. It becomes silent. At 16 kHz and above it is "
        "also used to estimate the noise in the rest of the recording.",
        rich_help_panel=SOUND,
    ),
]

Strength = Annotated[
    str | None,
    typer.Option(
        metavar="SHARE",
        help="How much of the denoising to apply: 0 (none) to 1 (all), or 0% to 100%.",
        show_default="1; 0.7 for --preset transcription",
        rich_help_panel=SOUND,
    ),
]

Dereverb = Annotated[
    str | None,
    typer.Option(
        metavar="[SHARE]",
        help="Remove the room's echo, too: all of it, or a share such as 50%.",
        rich_help_panel=SOUND,
    ),
]

MaxAttenuation = Annotated[
    float | None,
    typer.Option(metavar="DB", help="Maximum attenuation in dB.", rich_help_panel=SOUND),
]

TrimSilence = Annotated[
    bool,
    typer.Option(
        "--trim-silence",
        help="Cut the sound before the first and after the last speech, except for 0.2 s; "
        "keep the pauses.",
        rich_help_panel=SOUND,
    ),
]

ChannelsChoice = Annotated[
    ChannelsName,
    typer.Option(
        help="linked: a voice in several channels keeps its position between them; "
        "separate: each channel is denoised alone.",
        rich_help_panel=SOUND,
    ),
]

Normalize = Annotated[
    str | None,
    typer.Option(
        metavar="LUFS|podcast|broadcast",
        help="Normalize outputs to this loudness, such as -16LUFS, with true peaks below -1 dB; "
        "podcast: -16LUFS, broadcast: -23LUFS.",
        rich_help_panel=SOUND,
    ),
]

PresetChoice = Annotated[
    PresetName,
    typer.Option(
        help="fast: a short chain and networks, for listening; transcription: the same for speech "
        "recognisers, with a part of the input; plain: a longer chain without networks; paper: "
        "the chain of the HAMCMC paper.",
        rich_help_panel=MODEL,
    ),
]

LatencyChoice = Annotated[
    LatencyName,
    typer.Option(
        help="low: 40 ms of latency, slightly lower quality; '- -o -' processes a pipe in real "
        "time.",
        rich_help_panel=MODEL,
    ),
]

Model = Annotated[str, model_option(MODEL)]

Network = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME|FILE|none",
        help="Network to use in place of those that fit the model: a refiner, such as a file from "
        "'alphamf adapt', or a second stage; repeat the option for both. none: no network.",
        rich_help_panel=MODEL,
    ),
]

Sampler = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Sampler to use instead of the preset's.", rich_help_panel=SAMPLER
    ),
]

Steps = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Number of steps of each chain; the same fraction of them is kept as in the preset.",
        rich_help_panel=SAMPLER,
    ),
]

Chains = Annotated[
    int | None,
    typer.Option(metavar="N", help="Number of chains to average.", rich_help_panel=SAMPLER),
]

Seed = Annotated[int, seed_option("result on the same machine", SAMPLER)]

NoiseOutput = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Output file for the removed noise.", rich_help_panel=EXTRA),
]

Plot = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.png",
        help="Output file for a picture: spectrograms before and after, and the uncertainty of "
        "the gain.",
        rich_help_panel=EXTRA,
    ),
]

Uncertainty = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.npz",
        help="Output file for the mean and standard deviation of the gain.",
        rich_help_panel=EXTRA,
    ),
]

Vad = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.csv",
        help="Output file for the time ranges with speech: start and end in seconds, and "
        "probability.",
        rich_help_panel=EXTRA,
    ),
]

Reference = Annotated[
    str | None,
    typer.Option(
        metavar="CLEAN", help="Clean speech to compute scores against.", rich_help_panel=EXTRA
    ),
]

Raw = Annotated[
    str | None,
    typer.Option(
        metavar="RATE:CHANNELS:FORMAT",
        help="The input is headerless PCM, such as 48000:1:s16 (with a pipe and --latency low "
        "only).",
        rich_help_panel=RUN,
    ),
]

MaxChannels = Annotated[
    int,
    typer.Option(
        metavar="N", help="Refuse files with more channels than this.", rich_help_panel=RUN
    ),
]

TrackNumber = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Audio track of a video to denoise; the others are copied unchanged.",
        show_default="the default one",
        rich_help_panel=RUN,
    ),
]

Jobs = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Number of files, or of segments of one file, to process in parallel.",
        show_default="one per core",
        rich_help_panel=RUN,
    ),
]

Device = Annotated[
    DeviceChoice,
    typer.Option(
        help="Device for the chains and networks; auto: a CUDA GPU if there is one.",
        rich_help_panel=RUN,
    ),
]

Json = Annotated[bool, json_option("file")]

Deterministic = Annotated[
    bool,
    typer.Option(
        "--deterministic",
        help="Give identical results on every x86-64 processor with AVX2; takes longer.",
        rich_help_panel=RUN,
    ),
]
