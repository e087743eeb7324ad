"""Options of ``alphamf denoise``, in the groups in which ``--help`` lists them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from alphamf.cli.options import RUN, DeviceChoice, json_option, model_option, seed_option
from alphamf.denoising.choices import ChannelsName, LatencyName, PresetName

OUTPUT = "Output"
SOUND = "Sound"
MODEL = "Model"
EXTRA = "More results"
SAMPLER = "Sampler (for research)"


def option(panel: str, text: str, *names: str, **others: Any) -> Any:
    """Return an option, listed under the help heading `panel`."""
    return typer.Option(*names, help=text, rich_help_panel=panel, **others)


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
    option(
        OUTPUT,
        "Output file, for a single input; - for standard output.",
        "--output",
        "-o",
        metavar="FILE",
        show_default="NAME.denoised.wav",
    ),
]

OutputDir = Annotated[
    str | None, option(OUTPUT, "Folder for the outputs; it is created if needed.", metavar="DIR")
]

Name = Annotated[
    str | None,
    option(
        OUTPUT,
        "Template for the outputs' names, such as '{stem}-clean{ext}'.",
        metavar="TEMPLATE",
        show_default="{stem}.denoised{ext}, or {stem}{ext} in --output-dir",
    ),
]

Overwrite = Annotated[bool, option(OUTPUT, "Overwrite outputs that exist.", "--overwrite")]

Tag = Annotated[
    bool, option(OUTPUT, "Add 'denoised by alphamf' to the history tag of the outputs.", "--tag")
]

Start = Annotated[
    str | None,
    option(
        SOUND,
        "Denoise from this time on and leave the sound before it unchanged: 75, 1:15.",
        metavar="TIME",
    ),
]

End = Annotated[
    str | None,
    option(
        SOUND, "Denoise up to this time and leave the sound after it unchanged.", metavar="TIME"
    ),
]

NoiseFrom = Annotated[
    list[str] | None,
    option(
        SOUND,
        "Time range with noise only, such as 0:00-0:03, in each file; for several, use commas "
        "or repeat the option. It becomes silent. At 16 kHz and above it is also used to "
        "estimate the noise in the rest of the recording.",
        metavar="START-END",
    ),
]

Strength = Annotated[
    str | None,
    option(
        SOUND,
        "How much of the denoising to apply: 0 (none) to 1 (all), or 0% to 100%.",
        metavar="SHARE",
        show_default="1; 0.7 for --preset transcription",
    ),
]

Dereverb = Annotated[
    str | None,
    option(
        SOUND, "Remove the room's echo, too: all of it, or a share such as 50%.", metavar="[SHARE]"
    ),
]

MaxAttenuation = Annotated[float | None, option(SOUND, "Maximum attenuation in dB.", metavar="DB")]

TrimSilence = Annotated[
    bool,
    option(
        SOUND,
        "Cut the sound before the first and after the last speech, except for 0.2 s; keep the "
        "pauses.",
        "--trim-silence",
    ),
]

ChannelsChoice = Annotated[
    ChannelsName,
    option(
        SOUND,
        "linked: a voice in several channels keeps its position between them; separate: each "
        "channel is denoised alone.",
    ),
]

Normalize = Annotated[
    str | None,
    option(
        SOUND,
        "Normalize outputs to this loudness, such as -16LUFS, with true peaks below -1 dB; "
        "podcast: -16LUFS, broadcast: -23LUFS.",
        metavar="LUFS|podcast|broadcast",
    ),
]

PresetChoice = Annotated[
    PresetName,
    option(
        MODEL,
        "fast: a short chain and networks, for listening; transcription: the same for speech "
        "recognisers, with a part of the input; plain: a longer chain without networks; paper: "
        "the chain of the HAMCMC paper.",
    ),
]

LatencyChoice = Annotated[
    LatencyName,
    option(
        MODEL,
        "low: 40 ms of latency, slightly lower quality; '- -o -' processes a pipe in real time.",
    ),
]

Model = Annotated[str, model_option(MODEL)]

Network = Annotated[
    list[str] | None,
    option(
        MODEL,
        "Network to use in place of those that fit the model: a refiner, such as a file from "
        "'alphamf adapt', or a second stage; repeat the option for both. none: no network.",
        metavar="NAME|FILE|none",
    ),
]

Sampler = Annotated[
    str | None, option(SAMPLER, "Sampler to use instead of the preset's.", metavar="NAME")
]

Steps = Annotated[
    int | None,
    option(
        SAMPLER,
        "Number of steps of each chain; the same fraction of them is kept as in the preset.",
        metavar="N",
    ),
]

Chains = Annotated[int | None, option(SAMPLER, "Number of chains to average.", metavar="N")]

Seed = Annotated[int, seed_option("result on the same machine", SAMPLER)]

NoiseOutput = Annotated[
    str | None, option(EXTRA, "Output file for the removed noise.", metavar="FILE")
]

Plot = Annotated[
    str | None,
    option(
        EXTRA,
        "Output file for a picture: spectrograms before and after, and the uncertainty of the "
        "gain.",
        metavar="FILE.png",
    ),
]

Uncertainty = Annotated[
    str | None,
    option(
        EXTRA, "Output file for the mean and standard deviation of the gain.", metavar="FILE.npz"
    ),
]

Vad = Annotated[
    str | None,
    option(
        EXTRA,
        "Output file for the time ranges with speech: start and end in seconds, and probability.",
        metavar="FILE.csv",
    ),
]

Reference = Annotated[
    str | None, option(EXTRA, "Clean speech to compute scores against.", metavar="CLEAN")
]

Raw = Annotated[
    str | None,
    option(
        RUN,
        "The input is headerless PCM, such as 48000:1:s16 (with a pipe and --latency low only).",
        metavar="RATE:CHANNELS:FORMAT",
    ),
]

MaxChannels = Annotated[int, option(RUN, "Refuse files with more channels than this.", metavar="N")]

TrackNumber = Annotated[
    int | None,
    option(
        RUN,
        "Audio track of a video to denoise; the others are copied unchanged.",
        metavar="N",
        show_default="the default one",
    ),
]

Jobs = Annotated[
    int | None,
    option(
        RUN,
        "Number of files, or of segments of one file, to process in parallel.",
        metavar="N",
        show_default="one per core",
    ),
]

Device = Annotated[
    DeviceChoice,
    option(RUN, "Device for the chains and networks; auto: a CUDA GPU if there is one."),
]

Json = Annotated[bool, json_option("file")]

Deterministic = Annotated[
    bool,
    option(
        RUN,
        "Give identical results on every x86-64 processor with AVX2; takes longer.",
        "--deterministic",
    ),
]
