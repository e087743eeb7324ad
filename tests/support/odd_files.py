"""Files of all kinds: `python -m tests.support.odd_files FOLDER` prints docs/media.md's table."""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile
from scipy.signal import correlate

from alphamf.audio.reader import read
from alphamf.errors import AlphaMFError
from alphamf.tools import tables

SECONDS = 1.237
CODECS = {
    "wav": "pcm_u8 pcm_s16le pcm_s24le pcm_s32le pcm_f32le pcm_f64le pcm_alaw pcm_mulaw adpcm_ms"
    " adpcm_ima_wav adpcm_yamaha adpcm_swf g722 g726 gsm_ms mp3 mp2 ac3 flac wmav1 wmav2 dca",
    "w64": "pcm_s16le pcm_s24le pcm_f32le pcm_alaw",
    "aiff": "pcm_s16be pcm_s24be pcm_s32be pcm_f32be pcm_f64be pcm_s16le pcm_alaw adpcm_ima_qt",
    "au": "pcm_s16be pcm_s8 pcm_f32be pcm_mulaw pcm_s24be",
    "caf": "pcm_s16le pcm_s16be pcm_f32le alac aac flac adpcm_ima_qt pcm_mulaw opus ac3",
    "flac": "flac", "ogg": "libvorbis libopus flac libspeex", "opus": "libopus",
    "mp3": "libmp3lame", "mp2": "mp2", "ac3": "ac3", "eac3": "eac3", "aac": "aac",
    "m4a": "aac alac", "m4b": "aac", "mp4": "aac alac ac3 eac3 libopus flac libmp3lame mp2",
    "mov": "aac alac pcm_s16le pcm_s16be pcm_s24le pcm_f32le adpcm_ima_qt pcm_mulaw ac3 libmp3lame",
    "mkv": "aac alac ac3 eac3 libopus flac libmp3lame libvorbis pcm_s16le pcm_s24le pcm_f32le mp2"
    " tta wavpack truehd dca", "webm": "libopus libvorbis", "mka": "libopus flac",
    "avi": "pcm_s16le libmp3lame ac3 aac mp2 wmav2", "wma": "wmav1 wmav2", "asf": "pcm_s16le",
    "flv": "aac libmp3lame adpcm_swf nellymoser", "ts": "aac mp2 ac3 libmp3lame libopus",
    "mts": "ac3", "mpg": "mp2 ac3", "vob": "ac3", "3gp": "aac libopencore_amrnb", "3g2": "aac",
    "amr": "libopencore_amrnb", "tta": "tta", "wv": "wavpack", "nut": "pcm_s16le flac",
    "rm": "ac3", "latm": "aac", "dts": "dca", "gsm": "gsm", "wtv": "mp2", "f4v": "aac",
    "ismv": "aac", "voc": "pcm_s16le", "aptx": "aptx",
}  # fmt: skip
NARROW = ("amrnb", "gsm", "g726", "nelly", "speex")  # Codecs of one channel at 8 kHz
RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000, 96000, 192000)
OF_RATES = {
    "mp3": "libmp3lame", "m4a": "aac", "ogg": "libvorbis", "flac": "flac", "wav": "pcm_s24le",
}  # fmt: skip
LAYOUTS = {
    3: "2.1 3.0 3.0(back)", 4: "4.0 quad quad(side) 3.1", 5: "5.0 5.0(side) 4.1",
    6: "5.1 5.1(side) 6.0 6.0(front) hexagonal", 7: "6.1 6.1(back) 6.1(front) 7.0 7.0(front)",
    8: "7.1 7.1(wide) 7.1(wide-side) octagonal",
}  # fmt: skip
OF_LAYOUTS = {
    "wav": "pcm_s16le", "flac": "flac", "m4a": "alac", "mkv": "pcm_s16le", "caf": "pcm_s16le",
    "ogg": "libvorbis", "opus": "libopus", "mp4": "aac",
}  # fmt: skip
OPTIONS = {
    "mp3": ("-write_xing 0", "-abr 1", "-q:a 4", "-write_id3v1 1", "-id3v2_version 0", "-b:a 320k"),
    "m4a": ("-movflags empty_moov", "-movflags +faststart", "-movflags dash", "-use_editlist 0"),
    "wav": ("-bitexact", "-rf64 always", "-write_bext 1", "-write_peak on"),
}


class Odd(NamedTuple):
    group: str
    path: Path
    rate: int
    decoded: np.ndarray  # By ffmpeg, shape (samples, channels)


def make(folder: Path) -> list[Odd]:
    wanted = []
    for ending, codecs in CODECS.items():
        for codec in codecs.split():
            narrow = any(word in codec for word in NARROW)
            rate = 8000 if narrow else 44100 if "mp3" in codec or "swf" in codec else 48000
            wanted.append(("containers and codecs", ending, codec, rate, 2 - narrow, "", ""))
    for ending, codec in OF_RATES.items():
        wanted += [("rates", ending, codec, rate, n, "", "") for rate in RATES for n in (1, 2)]
    for ending, codec in OF_LAYOUTS.items():
        for n, names in LAYOUTS.items():
            wanted += [("channels", ending, codec, 48000, n, each, "") for each in names.split()]
    for ending, options in OPTIONS.items():
        group, codec = "headers", OF_RATES[ending]
        wanted += [(group, ending, codec, 44100, 2, "", each) for each in options]
    found = (_made(folder / f"{k:03}.{each[1]}", *each) for k, each in enumerate(wanted))
    return [each for each in found if each is not None]


def _made(
    path: Path, group: str, ending: str, codec: str, rate: int, n: int, layout: str, options: str
) -> Odd | None:
    source, t = path.with_suffix(".source.wav"), np.arange(int(SECONDS * rate)) / rate
    noise = 0.05 * np.random.default_rng(0).standard_normal((len(t), n))
    sound = 0.3 * np.sin(2 * np.pi * (200 + 60 * np.arange(n)) * (t + 0.3 * t**2)[:, None]) + noise
    soundfile.write(source, sound, rate, format="WAVEX", subtype="PCM_16")
    before = ["-channel_layout", layout] if layout else []
    coding = ["-c:a", codec, "-strict", "-2", *options.split()]
    ffmpeg = ["ffmpeg", "-v", "error", "-y"]
    run = subprocess.run([*ffmpeg, *before, "-i", source, *coding, path], capture_output=True)
    source.unlink()
    data = subprocess.run([*ffmpeg, "-i", path, "-f", "f32le", "-"], capture_output=True).stdout
    if run.returncode or not data:
        path.unlink(missing_ok=True)
        return None
    ask = (
        "ffprobe -v error -select_streams a:0 -of csv=p=0 -show_entries stream=sample_rate,channels"
    )
    told = subprocess.run([*ask.split(), path], capture_output=True, text=True).stdout
    rate, n = map(int, told.split()[0].split(",")[:2])  # which some codecs change
    return Odd(group, path, rate, np.frombuffer(data, np.float32).reshape(-1, n))


def verdict(odd: Odd, output: Path) -> str:
    try:
        sound, rate = read(odd.path)
    except AlphaMFError:
        return "refused"
    written, same = read(next(output.parent.glob(f"{output.stem}.*")))
    length, decoded = int(SECONDS * odd.rate), odd.decoded
    channels = {each.shape[1] for each in (sound, written, decoded)}
    if {rate, same} != {odd.rate} or len(channels) > 1:
        return "WRONG"
    whole = min(length, len(decoded)) <= len(sound) <= len(decoded) + 320  # a block of GSM
    if not (whole and len(sound) <= len(written) <= len(sound) + 1536):  # a frame of AC-3
        return "WRONG"
    for ours in (sound, written):  # but for the channel of low frequencies
        if sorted(map(alike, ours.T, decoded.T))[len(ours.T) > 5] < 0.9:
            return "WRONG"
    return "to the sample" if len(sound) <= length + 1 else "with padding"


def alike(one: np.ndarray, other: np.ndarray) -> float:
    size = min(len(one), len(other))
    found = correlate(one[:size], other[:size], method="fft")[size - 1200 : size + 1200].max()
    norm = np.linalg.norm(one[:size]) * np.linalg.norm(other[:size])
    return float(found / norm) if norm else float(one.any() == other.any())


def results(folder: Path) -> list[tuple[Odd, str]]:
    (folder / "in").mkdir()
    files = make(folder / "in")
    words = ["denoise", folder / "in", "--output-dir", folder / "out", "--strength", "0", "-q"]
    run = subprocess.run([sys.executable, "-m", "alphamf", *words], capture_output=True, text=True)
    assert "Traceback" not in run.stderr, run.stderr
    return [(each, verdict(each, folder / "out" / each.path.name)) for each in files]


def table(found: list[tuple[Odd, str]]) -> str:
    kinds = ["to the sample", "with padding", "refused", "WRONG"]
    counts = Counter((each.group, what) for each, what in found)
    rows = [
        [group, *(str(counts[group, what]) for what in kinds)]
        for group in dict.fromkeys(each.group for each, _ in found)
    ]
    return tables.markdown(["files", *kinds], rows)


if __name__ == "__main__":
    print(table(results(Path(sys.argv[1]))))
