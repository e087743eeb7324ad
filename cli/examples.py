"""Examples that the commands print at the end of their help."""

from __future__ import annotations

EXAMPLES = {
    "alphamf": (
        "alphamf denoise talk.wav",
        "alphamf live",
        "alphamf serve",
        "alphamf COMMAND --help",
    ),
    "denoise": (
        "alphamf denoise talk.wav",
        "alphamf denoise talk.mp4 --strength 80% --normalize podcast",
        "alphamf denoise talks/ --output-dir clean/",
        "alphamf denoise talk.wav --dereverb",
        "alphamf denoise call.wav --noise-from 0:00-0:03 --plot call.png",
        "alphamf denoise - -o - --latency low < talk.wav > clean.wav",
    ),
    "live": (
        "alphamf live",
        "alphamf live --list-devices",
        "alphamf live --input headset --strength 80% --record takes/",
    ),
    "serve": ("alphamf serve", "alphamf serve --port 8000 --no-browser"),
    "train": (
        "alphamf train clean-speech/ -o mine.npz",
        "alphamf train voices/ -o mine.npz --voices folder --rate 8000",
    ),
    "adapt": (
        "alphamf adapt --clean my-voices/ --noise my-noises/ -o mine.npz",
        "alphamf adapt --clean calls/ --noise hum.wav -o mine.npz --minutes 30",
    ),
    "mix": (
        "alphamf mix clean-speech/ --noise my-noises/ -o corpus --snr 0,5,10",
        "alphamf mix clean-speech/ --noise fan.wav -o corpus --count 100 --rate 16000",
    ),
    "evaluate": (
        "alphamf evaluate --pairs corpus/pairs.csv --method noisy,logmmse,fast",
        "alphamf evaluate --clean clean/ --noisy 'noisy/*' --method fast,other=out/",
    ),
    "info": ("alphamf info talk.wav", "alphamf info speech-16k"),
    "models": ("alphamf models", "alphamf info refiner-16k"),
    "plugin": ("alphamf plugin install", "alphamf plugin path"),
    "experiment": ("alphamf experiment list", "alphamf experiment hamcmc-gaussian"),
}
"""Command lines by the name of the command, the one that most people need first."""


def epilog(command: str) -> str:
    """Return the end of a command's help: its examples, one a line."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in EXAMPLES[command])])
